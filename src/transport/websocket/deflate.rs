//! Compressed messages (RFC 7692, section 7): each by itself, so that one compressor and one
//! decompressor serve every connection of a shard.
//!
//! What it keeps true: no message is compressed with another in mind, in either direction
//! (`server_no_context_takeover`, `client_no_context_takeover`); inflating stops at a bound on the
//! bytes and at one on the ratio, so that a few bytes cannot ask for much memory.
//!
//! What it does not do: keep anything of a connection.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::limits::Fault;
use super::reader::PADDING;

/// Bits of the window of a peer that said nothing of it (RFC 7692, section 7.1.2.1).
pub const WINDOW_BITS: u8 = 15;

/// Bits of the smallest window that is spoken: the compressor knows none of 8.
pub const WINDOW_BITS_MIN: u8 = 9;

/// Messages shorter than this go out as they are: they would hardly become shorter.
const PLAIN_BYTES_MAX: usize = 64;

/// Compresses messages.
#[derive(Debug)]
pub struct Deflater {
    /// A compressor for each window, made when the first peer asks for it.
    windows: [Option<Compress>; (WINDOW_BITS - WINDOW_BITS_MIN) as usize + 1],
    window_bits: u8,
    deflated: Vec<u8>,
}

impl Deflater {
    /// A deflater that has compressed nothing, holding no memory. The first message of each window
    /// takes about 260 KiB for the widest.
    pub const fn new() -> Self {
        Self { windows: [const { None }; 7], window_bits: WINDOW_BITS, deflated: Vec::new() }
    }

    /// The same deflater with the window of another peer, from 9 to 15 bits.
    pub fn within(&mut self, window_bits: u8) -> &mut Self {
        self.window_bits = window_bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS);
        self
    }

    /// `text` compressed, without the four bytes that end it; `None` where it is not shorter.
    pub(super) fn deflate(&mut self, text: &[u8]) -> Option<&[u8]> {
        if text.len() <= PLAIN_BYTES_MAX {
            return None;
        }
        let window = &mut self.windows[usize::from(self.window_bits - WINDOW_BITS_MIN)];
        let compress = window.get_or_insert_with(|| {
            Compress::new_with_window_bits(Compression::fast(), false, self.window_bits)
        });
        compress.reset();
        self.deflated.clear();
        self.deflated.reserve(text.len());
        loop {
            let used = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
            let rest = text.get(used..).unwrap_or_default();
            compress.compress_vec(rest, &mut self.deflated, FlushCompress::Sync).ok()?;
            let is_over = compress.total_in() == text.len() as u64;
            if is_over && self.deflated.len() < self.deflated.capacity() {
                break;
            }
            if self.deflated.len() >= text.len() {
                return None;
            }
            self.deflated.reserve(text.len());
        }
        let deflated = self.deflated.strip_suffix(&TAIL)?;
        (deflated.len() < text.len()).then_some(deflated)
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Self::new()
    }
}

/// How much a compressed message may become.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InflateLimits {
    /// Bytes of a message, inflated. Default 4 MiB.
    pub message_bytes_max: usize,
    /// How many times as long as what was sent a message may become, beyond 64 KiB. Default 100.
    /// JSON rarely becomes 20 times as long; the most that the format can do is about 1,000.
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
    /// An inflater. Takes about 40 KiB.
    pub fn new() -> Self {
        Self { decompress: Decompress::new(false) }
    }

    /// Inflates the message `deflated` into `out`, which is empty, and puts [`PADDING`] zeros
    /// behind it. Says how long the message is.
    ///
    /// # Errors
    ///
    /// [`Fault::NOT_DEFLATED`], [`Fault::TOO_BIG`], [`Fault::INFLATES_FAR`].
    pub fn inflate(
        &mut self,
        deflated: &[u8],
        out: &mut Vec<u8>,
        limits: &InflateLimits,
    ) -> Result<usize, Fault> {
        out.clear();
        self.decompress.reset(false);
        let ratio_bytes = deflated.len().saturating_mul(limits.ratio_max).max(FREE_BYTES);
        let bytes_max = limits.message_bytes_max.min(ratio_bytes);
        out.reserve(deflated.len().saturating_mul(4).clamp(1024, bytes_max.max(1024)));
        for input in [deflated, &TAIL] {
            if self.feed(input, out, bytes_max)? {
                break;
            }
            if out.len() > bytes_max {
                let is_too_big = bytes_max == limits.message_bytes_max;
                return Err(if is_too_big { Fault::TOO_BIG } else { Fault::INFLATES_FAR });
            }
        }
        if out.len() > bytes_max {
            let is_too_big = bytes_max == limits.message_bytes_max;
            return Err(if is_too_big { Fault::TOO_BIG } else { Fault::INFLATES_FAR });
        }
        let length = out.len();
        out.resize(length + PADDING, 0);
        Ok(length)
    }

    /// Inflates `input`, up to a little more than `bytes_max`. Says whether the stream has ended.
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Fault> {
        let start = self.decompress.total_in();
        loop {
            let used = usize::try_from(self.decompress.total_in() - start).unwrap_or(usize::MAX);
            let rest = input.get(used..).unwrap_or_default();
            let status = self.decompress.decompress_vec(rest, out, FlushDecompress::Sync);
            match status {
                Ok(Status::StreamEnd) => return Ok(true),
                Ok(Status::Ok | Status::BufError) => {}
                Err(_) => return Err(Fault::NOT_DEFLATED),
            }
            if out.len() > bytes_max {
                return Ok(false);
            }
            if out.len() < out.capacity() {
                return Ok(false);
            }
            out.reserve(out.len().clamp(1024, RESERVED_BYTES_MAX));
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

/// What ends every message and is not sent (RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// A message may become so long whatever the ratio.
const FREE_BYTES: usize = 64 << 10;

/// Memory taken at once while inflating, at most.
const RESERVED_BYTES_MAX: usize = 64 << 10;
