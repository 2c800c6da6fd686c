//! Incremental decoder of the chunked transfer coding (RFC 9112, section 7.1).
//!
//! Lines end in CR LF only. Extensions and trailers are discarded, and bounded over the whole body.

use crate::http::grammar::{is_field_value_byte, is_token_byte};
use crate::http::head::{RequestError, RequestLimits};

/// Bytes of chunk extensions per body. Without this bound a chunk of one byte could cost thousands.
const EXTENSION_BYTES_MAX: usize = 4 << 10;

/// Digits of a chunk size; bounds leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;

/// Decodes the body of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkDecoder {
    state: ChunkState,
    /// The size of the chunk being parsed, then the rest of its data.
    remaining: usize,
    size_digits: u8,
    body_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
}

/// Position in the grammar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ChunkState {
    /// In a chunk size, or before it.
    #[default]
    Size,
    /// In white space after the size, before an extension.
    BeforeExtension,
    /// In chunk extensions.
    Extension,
    /// Before the LF after a size.
    SizeLf,
    /// In chunk data.
    Data,
    /// Before the CR after the data.
    DataCr,
    /// Before the LF after the data.
    DataLf,
    /// At the start of a trailer line, or of the final empty line.
    TrailerStart,
    /// In the name of a trailer field.
    TrailerName,
    /// In the value of a trailer field.
    TrailerValue,
    /// Before the LF after a trailer field.
    TrailerLf,
    /// Before the final LF.
    FinalLf,
    /// After the body.
    Done,
}

impl ChunkDecoder {
    /// Decodes `input[*from..]` up to the end of the body or the input, passes the data to `append`
    /// and advances `from`. Returns whether the body has ended.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        mut append: impl FnMut(&[u8]),
    ) -> Result<bool, RequestError> {
        while self.state != ChunkState::Done {
            let Some(&byte) = input.get(*from) else { return Ok(false) };
            if self.state == ChunkState::Data {
                let length = self.remaining.min(input.len() - *from);
                append(&input[*from..*from + length]);
                *from += length;
                self.remaining -= length;
                if self.remaining == 0 {
                    self.state = ChunkState::DataCr;
                }
                continue;
            }
            *from += 1;
            self.state = self.next_state(byte, limits)?;
        }
        Ok(true)
    }

    /// Processes one byte that is not data.
    fn next_state(&mut self, byte: u8, limits: &RequestLimits) -> Result<ChunkState, RequestError> {
        match (self.state, byte) {
            (ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte, limits)
            }
            (ChunkState::Size, b'\r') if self.size_digits > 0 => Ok(ChunkState::SizeLf),
            (ChunkState::Size | ChunkState::BeforeExtension, b'\t' | b' ')
                if self.size_digits > 0 =>
            {
                self.count_extension_byte(ChunkState::BeforeExtension)
            }
            (ChunkState::Size | ChunkState::BeforeExtension, b';') if self.size_digits > 0 => {
                self.count_extension_byte(ChunkState::Extension)
            }
            (ChunkState::Extension, b'\r') => Ok(ChunkState::SizeLf),
            (ChunkState::Extension, _) if is_field_value_byte(byte) => {
                self.count_extension_byte(ChunkState::Extension)
            }
            (ChunkState::SizeLf, b'\n') => {
                self.size_digits = 0;
                self.body_bytes += self.remaining;
                Ok(if self.remaining == 0 { ChunkState::TrailerStart } else { ChunkState::Data })
            }
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataLf, b'\n') => Ok(ChunkState::Size),
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::FinalLf),
            (ChunkState::TrailerName, b':') => {
                self.count_trailer_byte(ChunkState::TrailerValue, limits)
            }
            (ChunkState::TrailerStart | ChunkState::TrailerName, _) if is_token_byte(byte) => {
                self.count_trailer_byte(ChunkState::TrailerName, limits)
            }
            (ChunkState::TrailerValue, b'\r') => Ok(ChunkState::TrailerLf),
            (ChunkState::TrailerValue, _) if is_field_value_byte(byte) => {
                self.count_trailer_byte(ChunkState::TrailerValue, limits)
            }
            (ChunkState::TrailerLf, b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::FinalLf, b'\n') => Ok(ChunkState::Done),
            _ => Err(RequestError::bad_request("malformed chunked body")),
        }
    }

    /// Adds a digit of a chunk size. A chunk over the body limit is rejected before its data.
    fn add_digit(&mut self, digit: u8, limits: &RequestLimits) -> Result<ChunkState, RequestError> {
        if self.size_digits == 0 {
            self.remaining = 0;
        }
        if self.size_digits == SIZE_DIGITS_MAX {
            return Err(RequestError::bad_request("a chunk size has too many digits"));
        }
        self.size_digits += 1;
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        self.remaining = self.remaining.saturating_mul(16).saturating_add(usize::from(value));
        if self.remaining > limits.body_bytes_max.saturating_sub(self.body_bytes) {
            return Err(RequestError::body_too_large());
        }
        Ok(ChunkState::Size)
    }

    fn count_extension_byte(&mut self, next: ChunkState) -> Result<ChunkState, RequestError> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(RequestError::bad_request("too many chunk extensions"));
        }
        Ok(next)
    }

    fn count_trailer_byte(
        &mut self,
        next: ChunkState,
        limits: &RequestLimits,
    ) -> Result<ChunkState, RequestError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > limits.head_bytes_max {
            return Err(RequestError::fields_too_large("the trailer fields are too large"));
        }
        Ok(next)
    }
}
