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

/// Compresses messages, for a few cycles a byte rather than for the last byte.
#[derive(Debug)]
pub struct Deflater {
    /// A compressor for each window, made when the first peer asks for it.
    windows: [Option<Compress>; WINDOWS],
    window_bits: u8,
    deflated: Vec<u8>,
}

impl Deflater {
    /// A deflater that has compressed nothing, holding no memory. The first message of each window
    /// takes what its compressor needs, about 300 KiB for the widest; the longest message so far is
    /// kept room for.
    pub const fn new() -> Self {
        let windows = [const { None }; WINDOWS];
        Self { windows, window_bits: WINDOW_BITS, deflated: Vec::new() }
    }

    /// The same deflater with the window of another peer: 9 to 15 bits.
    pub fn within(&mut self, window_bits: u8) -> &mut Self {
        self.window_bits = window_bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS);
        self
    }

    /// `text` compressed, without the four bytes that end it; `None` where it is not shorter.
    pub(super) fn deflate(&mut self, text: &[u8]) -> Option<&[u8]> {
        if text.len() <= PLAIN_BYTES_MAX {
            return None;
        }
        let bits = self.window_bits;
        let window = &mut self.windows[usize::from(bits - WINDOW_BITS_MIN)];
        let compress = window.get_or_insert_with(|| {
            Compress::new_with_window_bits(Compression::fast(), false, bits)
        });
        compress.reset();
        self.deflated.clear();
        self.deflated.reserve(text.len());
        compress.compress_vec(text, &mut self.deflated, FlushCompress::Sync).ok()?;
        // What fills the room was cut, or is as long as the text.
        let is_whole = self.deflated.len() < self.deflated.capacity();
        let deflated = self.deflated.strip_suffix(&TAIL).filter(|_| is_whole)?;
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
    /// How many times as long as what was sent a message may become, where it becomes longer than
    /// 64 KiB. Default 100. JSON rarely becomes 20 times as long; the format can do about 1,000.
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
    /// An inflater. Takes about 50 KiB.
    pub fn new() -> Self {
        Self { decompress: Decompress::new(false) }
    }

    /// Inflates the message `deflated` into `out`, in the place of what stands there, and puts
    /// [`PADDING`] zeros behind it. Says how long the message is.
    ///
    /// # Errors
    ///
    /// [`Fault::NOT_DEFLATED`], [`Fault::TOO_BIG`] or [`Fault::INFLATES_FAR`]; what `out` holds
    /// then is no message.
    pub fn inflate(
        &mut self,
        deflated: &[u8],
        out: &mut Vec<u8>,
        limits: &InflateLimits,
    ) -> Result<usize, Fault> {
        self.decompress.reset(false);
        out.clear();
        let ratio_bytes = deflated.len().saturating_mul(limits.ratio_max).max(FREE_BYTES);
        let bytes_max = limits.message_bytes_max.min(ratio_bytes);
        for input in [deflated, &TAIL] {
            let is_over = self.feed(input, out, bytes_max)?;
            if out.len() > limits.message_bytes_max {
                return Err(Fault::TOO_BIG);
            }
            if out.len() > bytes_max {
                return Err(Fault::INFLATES_FAR);
            }
            if is_over {
                break;
            }
        }
        let length = out.len();
        out.resize(length + PADDING, 0);
        Ok(length)
    }

    /// Inflates `input`, to where it ends or where `out` has more than `bytes_max`. Says whether a
    /// block said that it is the last.
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Fault> {
        let start = self.decompress.total_in();
        let mut rest = input;
        loop {
            if out.len() == out.capacity() {
                let room = bytes_max.saturating_sub(out.len()) + 1 + PADDING;
                out.reserve_exact(room.min(out.len().max(rest.len().saturating_mul(4)).max(1024)));
            }
            let status = self.decompress.decompress_vec(rest, out, FlushDecompress::Sync);
            let used = usize::try_from(self.decompress.total_in() - start).unwrap_or(usize::MAX);
            rest = input.get(used..).unwrap_or_default();
            match status {
                // A peer that ends its stream puts an empty block behind it, of which one byte is
                // sent (RFC 7692, section 7.2.3.4).
                Ok(Status::StreamEnd) if matches!(rest, [] | [0]) => return Ok(true),
                Ok(Status::StreamEnd) | Err(_) => return Err(Fault::NOT_DEFLATED),
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

/// What ends every message and is not sent (RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Messages up to here go out as they are: they would hardly become shorter.
const PLAIN_BYTES_MAX: usize = 64;

/// A message may become so long whatever the ratio.
const FREE_BYTES: usize = 64 << 10;

/// How many widths of a window there are.
const WINDOWS: usize = (WINDOW_BITS - WINDOW_BITS_MIN) as usize + 1;
