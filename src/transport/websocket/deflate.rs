//! Message compression, `permessage-deflate` (RFC 7692, section 7), without context takeover, so
//! that one compressor and one decompressor serve all connections of a shard.
//!
//! Inflating is bounded by size and by ratio, to prevent decompression bombs.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::limits::ProtocolError;
use corelane_protocol::json::PADDING_BYTES;

/// Window bits of a peer that did not negotiate them (RFC 7692, section 7.1.2.1).
pub const WINDOW_BITS: u8 = 15;

/// Smallest supported window; zlib's compressor does not support 8 bits.
pub const WINDOW_BITS_MIN: u8 = 9;

/// Compresses messages, optimized for speed.
#[derive(Debug)]
pub struct Deflater {
    /// One compressor per window size, created on first use.
    compressors: [Option<Compress>; WINDOW_COUNT],
    window_bits: u8,
    deflated: Vec<u8>,
}

impl Deflater {
    /// Creates a deflater without memory. The first message of each window size allocates its
    /// compressor, about 300 KiB for the largest; the output buffer keeps its largest size.
    pub const fn new() -> Self {
        let compressors = [const { None }; WINDOW_COUNT];
        Self { compressors, window_bits: WINDOW_BITS, deflated: Vec::new() }
    }

    /// Selects the window of a peer: 9 to 15 bits.
    pub fn with_window_bits(&mut self, window_bits: u8) -> &mut Self {
        self.window_bits = window_bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS);
        self
    }

    /// Compresses `text`, without the final four bytes. Returns `None` if it does not get shorter.
    pub(super) fn deflate(&mut self, text: &[u8]) -> Option<&[u8]> {
        if text.len() <= UNCOMPRESSED_BYTES_MAX {
            return None;
        }
        let bits = self.window_bits;
        let window = &mut self.compressors[usize::from(bits - WINDOW_BITS_MIN)];
        let compress = window.get_or_insert_with(|| {
            Compress::new_with_window_bits(Compression::fast(), false, bits)
        });
        compress.reset();
        self.deflated.clear();
        self.deflated.reserve(text.len());
        compress.compress_vec(text, &mut self.deflated, FlushCompress::Sync).ok()?;
        // A full buffer is truncated output, or output as long as the text.
        let is_whole = self.deflated.len() < self.deflated.capacity();
        let deflated = self.deflated.strip_suffix(&SYNC_FLUSH_TAIL).filter(|_| is_whole)?;
        (deflated.len() < text.len()).then_some(deflated)
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Self::new()
    }
}

/// Limits of inflated messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InflateLimits {
    /// Bytes of an inflated message. Default 4 MiB.
    pub message_bytes_max: usize,
    /// Inflated size over compressed size, for messages that inflate to more than 64 KiB. Default
    /// 100. JSON rarely exceeds 20; the format allows about 1,000.
    pub ratio_max: usize,
}

impl Default for InflateLimits {
    fn default() -> Self {
        Self { message_bytes_max: 4 << 20, ratio_max: 100 }
    }
}

/// Decompresses messages.
#[derive(Debug)]
pub struct Inflater {
    decompress: Decompress,
}

impl Inflater {
    /// Creates an inflater. Allocates about 50 KiB.
    pub fn new() -> Self {
        Self { decompress: Decompress::new(false) }
    }

    /// Inflates the message `deflated` into `out`, replacing its content. [`PADDING_BYTES`] zero
    /// bytes follow.
    /// Returns the length of the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::INVALID_DEFLATE`], [`ProtocolError::MESSAGE_TOO_BIG`] or
    /// [`ProtocolError::INFLATE_RATIO`]; the content of `out` is then unspecified.
    pub fn inflate(
        &mut self,
        deflated: &[u8],
        out: &mut Vec<u8>,
        limits: &InflateLimits,
    ) -> Result<usize, ProtocolError> {
        self.decompress.reset(false);
        out.clear();
        let ratio_bytes = deflated.len().saturating_mul(limits.ratio_max).max(RATIO_EXEMPT_BYTES);
        let bytes_max = limits.message_bytes_max.min(ratio_bytes);
        for input in [deflated, &SYNC_FLUSH_TAIL] {
            let is_over = self.inflate_chunk(input, out, bytes_max)?;
            if out.len() > limits.message_bytes_max {
                return Err(ProtocolError::MESSAGE_TOO_BIG);
            }
            if out.len() > bytes_max {
                return Err(ProtocolError::INFLATE_RATIO);
            }
            if is_over {
                break;
            }
        }
        let length = out.len();
        out.resize(length + PADDING_BYTES, 0);
        Ok(length)
    }

    /// Inflates `input` until it ends or `out` exceeds `bytes_max`. Returns whether the final block
    /// was found.
    fn inflate_chunk(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<bool, ProtocolError> {
        let start = self.decompress.total_in();
        let mut rest = input;
        loop {
            if out.len() == out.capacity() {
                let available = bytes_max.saturating_sub(out.len()) + 1 + PADDING_BYTES;
                let wanted = out.len().max(rest.len().saturating_mul(4)).max(1024);
                out.reserve_exact(available.min(wanted));
            }
            let status = self.decompress.decompress_vec(rest, out, FlushDecompress::Sync);
            let used = usize::try_from(self.decompress.total_in() - start).unwrap_or(usize::MAX);
            rest = input.get(used..).unwrap_or_default();
            match status {
                // A peer that ends its deflate stream appends an empty block, of which one byte is
                // sent (RFC 7692, section 7.2.3.4).
                Ok(Status::StreamEnd) if matches!(rest, [] | [0]) => return Ok(true),
                Ok(Status::StreamEnd) | Err(_) => return Err(ProtocolError::INVALID_DEFLATE),
                Ok(Status::Ok | Status::BufError) => {}
            }
            if out.len() > bytes_max || out.len() < out.capacity() {
                return Ok(false);
            }
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

/// The end of every message, which is not sent (RFC 7692, section 7.2.1).
const SYNC_FLUSH_TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Messages up to this size are not compressed: they would hardly get shorter.
const UNCOMPRESSED_BYTES_MAX: usize = 64;

/// Inflated size up to which the ratio is not checked.
const RATIO_EXEMPT_BYTES: usize = 64 << 10;

/// Number of window sizes.
const WINDOW_COUNT: usize = (WINDOW_BITS - WINDOW_BITS_MIN) as usize + 1;
