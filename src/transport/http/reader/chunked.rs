//! A body in chunks (RFC 9112, section 7.1), decoded as it comes.
//!
//! What it keeps true: every byte is looked at once; only what the chunks hold is kept; a line ends
//! in a carriage return and a line feed and nowhere else; what is not data (sizes, extensions,
//! trailers) is bounded over the whole body, so that it cannot cost more than data would.
//!
//! What it does not do: keep extensions or trailers. None means anything to MCP.

use crate::transport::http::grammar::{is_text, is_token};
use crate::transport::http::limits::{Limits, Refusal};

/// Bytes of extensions of all chunks of one body, at most: nobody sends any, and each could make a
/// chunk of one byte thousands of bytes wide.
const EXTENSION_BYTES_MAX: usize = 4 << 10;

/// Digits of the size of one chunk, at most: leading zeros have no bound of their own.
const SIZE_DIGITS_MAX: u8 = 16;

/// Decodes one body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkDecoder {
    place: Place,
    /// The size of the chunk that is being read, then what is still to come of it.
    remaining: usize,
    size_digits: u8,
    body_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
}

/// Where in the grammar the next byte stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    /// In the size of a chunk, or before it.
    #[default]
    Size,
    /// In white space behind the size, which only an extension may follow.
    BeforeExtension,
    /// In the extensions of a chunk.
    Extension,
    /// Before the line feed behind a size.
    SizeEnd,
    /// In the data of a chunk.
    Data,
    /// Before the carriage return behind the data.
    DataReturn,
    /// Before the line feed behind the data.
    DataEnd,
    /// At the beginning of a trailer line, or of the empty line that ends the body.
    TrailerStart,
    /// In the name of a trailer field.
    TrailerName,
    /// In the value of a trailer field.
    TrailerValue,
    /// Before the line feed behind a trailer field.
    TrailerEnd,
    /// Before the very last line feed.
    LastEnd,
    /// Behind the body.
    Over,
}

impl ChunkDecoder {
    /// Decodes `input[*from..]` to the end of the body or of the input, hands the data to `keep`
    /// piece by piece and moves `from` behind what was used. Says whether the body is over.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        from: &mut usize,
        limits: &Limits,
        mut keep: impl FnMut(&[u8]),
    ) -> Result<bool, Refusal> {
        while self.place != Place::Over {
            let Some(&byte) = input.get(*from) else { return Ok(false) };
            if self.place == Place::Data {
                let length = self.remaining.min(input.len() - *from);
                keep(&input[*from..*from + length]);
                *from += length;
                self.remaining -= length;
                if self.remaining == 0 {
                    self.place = Place::DataReturn;
                }
                continue;
            }
            *from += 1;
            self.place = self.step(byte, limits)?;
        }
        Ok(true)
    }

    /// One byte that is not data.
    fn step(&mut self, byte: u8, limits: &Limits) -> Result<Place, Refusal> {
        match (self.place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.add_digit(byte, limits),
            (Place::Size, b'\r') if self.size_digits > 0 => Ok(Place::SizeEnd),
            (Place::Size | Place::BeforeExtension, b'\t' | b' ') if self.size_digits > 0 => {
                self.pass_extension(Place::BeforeExtension)
            }
            (Place::Size | Place::BeforeExtension, b';') if self.size_digits > 0 => {
                self.pass_extension(Place::Extension)
            }
            (Place::Extension, b'\r') => Ok(Place::SizeEnd),
            (Place::Extension, _) if is_text(byte) => self.pass_extension(Place::Extension),
            (Place::SizeEnd, b'\n') => {
                self.size_digits = 0;
                self.body_bytes += self.remaining;
                Ok(if self.remaining == 0 { Place::TrailerStart } else { Place::Data })
            }
            (Place::DataReturn, b'\r') => Ok(Place::DataEnd),
            (Place::DataEnd, b'\n') => Ok(Place::Size),
            (Place::TrailerStart, b'\r') => Ok(Place::LastEnd),
            (Place::TrailerName, b':') => self.pass_trailer(Place::TrailerValue, limits),
            (Place::TrailerStart | Place::TrailerName, _) if is_token(byte) => {
                self.pass_trailer(Place::TrailerName, limits)
            }
            (Place::TrailerValue, b'\r') => Ok(Place::TrailerEnd),
            (Place::TrailerValue, _) if is_text(byte) => {
                self.pass_trailer(Place::TrailerValue, limits)
            }
            (Place::TrailerEnd, b'\n') => Ok(Place::TrailerStart),
            (Place::LastEnd, b'\n') => Ok(Place::Over),
            _ => Err(Refusal::bad("the chunks of the body are malformed")),
        }
    }

    /// One more digit of a size. A chunk that would pass the limit is refused before it comes.
    fn add_digit(&mut self, digit: u8, limits: &Limits) -> Result<Place, Refusal> {
        if self.size_digits == 0 {
            self.remaining = 0;
        }
        if self.size_digits == SIZE_DIGITS_MAX {
            return Err(Refusal::bad("the size of a chunk has too many digits"));
        }
        self.size_digits += 1;
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        self.remaining = self.remaining.saturating_mul(16).saturating_add(usize::from(value));
        if self.remaining > limits.body_bytes_max.saturating_sub(self.body_bytes) {
            return Err(Refusal::large_body());
        }
        Ok(Place::Size)
    }

    fn pass_extension(&mut self, next: Place) -> Result<Place, Refusal> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Refusal::bad("the chunks of the body have too many extensions"));
        }
        Ok(next)
    }

    fn pass_trailer(&mut self, next: Place, limits: &Limits) -> Result<Place, Refusal> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > limits.head_bytes_max {
            return Err(Refusal::large_fields("the trailers are too large"));
        }
        Ok(next)
    }
}
