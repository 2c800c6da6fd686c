//! Parses a stream of frames into messages and control frames (RFC 6455, sections 5 to 7).
//!
//! Invariants: a message in one frame and one read is unmasked in place and not copied; other
//! messages are copied once, and their text is validated as it arrives; an idle reader holds no
//! memory; a frame over the limit is rejected by its header; the result does not depend on how the
//! stream is split.
//!
//! Messages are not inflated. Text of a message in one frame is not validated here.
//! [`DelimitedMessages`] splits a message into JSON texts separated by line feeds.

use std::mem::take;
use std::ops::Range;

use memchr::memchr;

use super::frame::{
    self, BINARY, CLOSE, CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, HeaderContext, MaskKey,
    MessageKind, PING, TEXT, parse_close_code, to_u8,
};
use super::limits::{CloseCode, FrameLimits, ProtocolError};
use super::utf8::Utf8Validator;
use corelane_base::pool::reserve_part;
use corelane_protocol::json::{PaddedBuffer, padding_of};

/// Memory reserved for a frame of known length. Bounds what a peer gains by announcing a large one.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// The result of reading the next frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameEvent {
    /// A message from several frames or reads: call [`FrameReader::take`]. Text is valid UTF-8,
    /// unless it is compressed.
    Assembled {
        /// Whether the message has to be inflated.
        is_compressed: bool,
    },
    /// A protocol error. Returned once; no further input is read.
    Invalid(ProtocolError),
    /// A close frame, with its code if any; its payload is [`FrameReader::control_payload`].
    /// Returned once; no further input is read.
    Close(Option<CloseCode>),
    /// A message within the input, unmasked in place. UTF-8 is not validated; the JSON parser does
    /// that.
    InPlace {
        /// Start of the message in the input.
        start: usize,
        /// End of the message in the input.
        end: usize,
        /// Whether the message has to be inflated.
        is_compressed: bool,
    },
    /// All input is consumed.
    NeedMore,
    /// A ping; its payload is [`FrameReader::control_payload`].
    Ping,
    /// A pong; its payload is [`FrameReader::control_payload`].
    Pong,
}

/// Splits a stream into messages.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The incomplete message, unmasked.
    message: Vec<u8>,
    /// The payload of the last control frame, if any.
    control_payload: Option<Box<ControlPayload>>,
    state: ReaderState,
    /// Validates the text of a fragmented message.
    utf8: Utf8Validator,
    kind: MessageKind,
    /// Whether compression was negotiated.
    is_compression_negotiated: bool,
    /// Whether a message is incomplete.
    is_inside_fragments: bool,
    /// Whether messages are discarded.
    is_discarding: bool,
}

/// The payload of a control frame.
#[derive(Debug)]
struct ControlPayload {
    bytes: [u8; CONTROL_BYTES_MAX],
    length: u8,
}

/// Reading state.
///
/// ```text
///        ┌──────────────▶ Control ─▶ Idle or BetweenFrames
/// Idle ──┴─▶ Header ─▶ Data ─▶ BetweenFrames ─▶ … ─▶ Data ─▶ Complete ─▶ Idle      any ─▶ Closed
/// ```
#[derive(Clone, Copy, Debug, Default)]
enum ReaderState {
    /// Before a message.
    #[default]
    Idle,
    /// Between two fragments of a message.
    BetweenFrames,
    /// Inside the header of a frame.
    Header { bytes: [u8; HEADER_BYTES_MAX - 1], length: u8 },
    /// Inside the payload of a data frame, which may be the last of its message.
    Data { key: MaskKey, is_final: bool, remaining: usize },
    /// Inside the payload of a control frame.
    Control { opcode: u8, key: MaskKey, remaining: u8 },
    /// A message is complete and waits to be taken.
    Complete,
    /// Closed or failed; no further input is read.
    Closed,
}

/// The payload of a data frame from a piece on.
#[derive(Clone, Copy)]
struct Payload {
    key: MaskKey,
    /// Its bytes, those of the piece included.
    remaining: usize,
    is_final: bool,
}

impl FrameReader {
    /// Creates a reader before the first frame, without a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reader for a connection with compression.
    pub fn with_compression() -> Self {
        Self { is_compression_negotiated: true, ..Self::default() }
    }

    /// Reads the next message or control frame from `arrival[*from..]`, unmasks it in place and
    /// advances `from`. `buffer` provides an empty buffer if an incomplete message has to be
    /// stored.
    ///
    /// Call until it returns [`FrameEvent::NeedMore`], [`FrameEvent::Close`] or
    /// [`FrameEvent::Invalid`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        mut buffer: impl FnMut() -> Vec<u8>,
    ) -> FrameEvent {
        if matches!(self.state, ReaderState::Idle) {
            self.control_payload = None;
            match Header::parse(&arrival[*from..], self.header_context(limits)) {
                Ok(Some(header)) if !header.is_control() && header.is_final() => {
                    let start = *from + header.length;
                    if arrival.len() - start >= header.payload_length {
                        let end = start + header.payload_length;
                        frame::apply_mask(&mut arrival[start..end], header.key);
                        *from = end;
                        self.kind = header.kind();
                        return FrameEvent::InPlace {
                            start,
                            end,
                            is_compressed: self.kind.is_compressed(),
                        };
                    }
                }
                Ok(None) if *from == arrival.len() => return FrameEvent::NeedMore,
                Ok(_) => {}
                Err(fault) => return self.fail(fault),
            }
        }
        self.resume(arrival, from, limits, &mut buffer)
    }

    /// Returns the message announced by [`FrameEvent::Assembled`]. Return its buffer to the pool.
    pub fn take(&mut self) -> PaddedBuffer {
        if matches!(self.state, ReaderState::Complete) {
            self.state = ReaderState::Idle;
        }
        PaddedBuffer::new(take(&mut self.message))
    }

    /// Discards messages from now on. They are still announced, fragmented ones as empty; control
    /// frames and errors are reported as before. Returns the buffer of the incomplete message.
    pub fn discard_messages(&mut self) -> Vec<u8> {
        self.is_discarding = true;
        let mut message = take(&mut self.message);
        message.clear();
        message
    }

    /// Returns the payload of the last control frame, at most 125 bytes, until
    /// [`FrameReader::next`] is called again. That of a close frame begins with its code.
    pub fn control_payload(&self) -> &[u8] {
        self.control_payload
            .as_ref()
            .map_or(&[], |control| &control.bytes[..usize::from(control.length)])
    }

    /// Returns whether the last message is binary.
    pub const fn is_binary(&self) -> bool {
        self.kind.is_binary()
    }

    /// Returns whether a message or frame is incomplete.
    pub const fn is_inside_message(&self) -> bool {
        !matches!(self.state, ReaderState::Idle | ReaderState::Closed | ReaderState::Complete)
    }

    /// Returns the bytes held for an incomplete message.
    pub const fn held_bytes(&self) -> usize {
        self.message.len()
    }

    /// Returns the capacity of the buffer of an incomplete message.
    pub const fn held_capacity(&self) -> usize {
        self.message.capacity()
    }

    /// Returns the buffer of an incomplete message, which may be replaced by one with the same
    /// bytes.
    #[cold]
    pub const fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.message
    }

    /// Returns what was read of an incomplete message, unmasked.
    pub const fn held(&self) -> &[u8] {
        self.message.as_slice()
    }

    /// Continues with new input in any state.
    #[inline(never)]
    fn resume(
        &mut self,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> FrameEvent {
        loop {
            let progress = match self.state {
                ReaderState::Idle | ReaderState::BetweenFrames => {
                    self.control_payload = None;
                    self.read_header([0; HEADER_BYTES_MAX - 1], 0, arrival, from, limits)
                }
                ReaderState::Header { bytes, length } => {
                    self.read_header(bytes, length, arrival, from, limits)
                }
                ReaderState::Data { key, is_final, remaining } => {
                    self.read_data(key, is_final, remaining, arrival, from, buffer)
                }
                ReaderState::Control { opcode, key, remaining } => {
                    self.read_control(opcode, key, remaining, arrival, from)
                }
                ReaderState::Complete => ReadProgress::Return(FrameEvent::Assembled {
                    is_compressed: self.kind.is_compressed(),
                }),
                ReaderState::Closed => {
                    *from = arrival.len();
                    ReadProgress::Return(FrameEvent::NeedMore)
                }
            };
            if let ReadProgress::Return(next) = progress {
                return next;
            }
        }
    }

    /// Continues a header of which `length` bytes arrived before.
    fn read_header(
        &mut self,
        mut partial: [u8; HEADER_BYTES_MAX - 1],
        length: u8,
        arrival: &[u8],
        from: &mut usize,
        limits: &FrameLimits,
    ) -> ReadProgress {
        let length = usize::from(length);
        let rest = &arrival[*from..];
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[..length].copy_from_slice(&partial[..length]);
        let count = rest.len().min(HEADER_BYTES_MAX - length);
        bytes[length..length + count].copy_from_slice(&rest[..count]);
        match Header::parse(&bytes[..length + count], self.header_context(limits)) {
            Ok(Some(header)) => {
                *from += header.length - length;
                self.begin_payload(header);
                ReadProgress::Continue
            }
            Ok(None) => {
                *from = arrival.len();
                if count > 0 {
                    partial.copy_from_slice(&bytes[..HEADER_BYTES_MAX - 1]);
                    self.state =
                        ReaderState::Header { bytes: partial, length: to_u8(length + count) };
                }
                ReadProgress::Return(FrameEvent::NeedMore)
            }
            Err(fault) => ReadProgress::Return(self.fail(fault)),
        }
    }

    /// Enters the payload of a frame after its header.
    fn begin_payload(&mut self, header: Header) {
        let Header { key, payload_length: remaining, .. } = header;
        let opcode = header.opcode();
        if header.is_control() {
            self.state = ReaderState::Control { opcode, key, remaining: to_u8(remaining) };
            return;
        }
        if matches!(opcode, TEXT | BINARY) {
            self.is_inside_fragments = true;
            self.kind = header.kind();
            self.utf8 = Utf8Validator::default();
        }
        self.state = ReaderState::Data { key, is_final: header.is_final(), remaining };
    }

    /// Continues the payload of a data frame.
    fn read_data(
        &mut self,
        key: MaskKey,
        is_final: bool,
        remaining: usize,
        arrival: &mut [u8],
        from: &mut usize,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> ReadProgress {
        let count = remaining.min(arrival.len() - *from);
        if count > 0 {
            let piece = &mut arrival[*from..*from + count];
            *from += count;
            let payload = Payload { key, remaining, is_final };
            if !self.is_discarding && !self.append_payload(piece, payload, buffer) {
                return ReadProgress::Return(self.fail(ProtocolError::INVALID_UTF8));
            }
        }
        let remaining = remaining - count;
        if remaining > 0 {
            self.state =
                ReaderState::Data { key: frame::rotate_key(key, count), is_final, remaining };
            return ReadProgress::Return(FrameEvent::NeedMore);
        }
        if !is_final {
            self.state = ReaderState::BetweenFrames;
            return ReadProgress::Continue;
        }
        if !self.is_discarding && !self.utf8.is_complete() {
            return ReadProgress::Return(self.fail(ProtocolError::INVALID_UTF8));
        }
        self.is_inside_fragments = false;
        self.state = ReaderState::Complete;
        ReadProgress::Continue
    }

    /// Appends a piece of a message, reserving memory for the rest of its frame. Returns `false` if
    /// text is not valid UTF-8.
    fn append_payload(
        &mut self,
        piece: &mut [u8],
        Payload { key, remaining, is_final }: Payload,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> bool {
        frame::apply_mask(piece, key);
        if self.kind.is_plain_text() && !self.utf8.push(piece) {
            return false;
        }
        if self.message.capacity() == 0 {
            self.message = buffer();
        }
        let reserved = remaining.min(RESERVED_BYTES_MAX).max(piece.len());
        let length = self.message.len() + remaining;
        let padding = padding_of(length);
        let length_max = if is_final { length + padding } else { usize::MAX };
        reserve_part(&mut self.message, reserved + padding, length_max);
        self.message.extend_from_slice(piece);
        true
    }

    /// Continues the payload of a control frame.
    fn read_control(
        &mut self,
        opcode: u8,
        key: MaskKey,
        remaining: u8,
        arrival: &mut [u8],
        from: &mut usize,
    ) -> ReadProgress {
        let count = usize::from(remaining).min(arrival.len() - *from);
        if count > 0 {
            let piece = &mut arrival[*from..*from + count];
            *from += count;
            frame::apply_mask(piece, key);
            self.control_payload.get_or_insert_default().push(piece);
        }
        let remaining = remaining - to_u8(count);
        if remaining > 0 {
            let key = frame::rotate_key(key, count);
            self.state = ReaderState::Control { opcode, key, remaining };
            return ReadProgress::Return(FrameEvent::NeedMore);
        }
        self.state =
            if self.is_inside_fragments { ReaderState::BetweenFrames } else { ReaderState::Idle };
        ReadProgress::Return(match opcode {
            CLOSE => self.handle_close(),
            PING => FrameEvent::Ping,
            _ => FrameEvent::Pong,
        })
    }

    /// Handles a complete close frame.
    #[cold]
    fn handle_close(&mut self) -> FrameEvent {
        let code = match parse_close_code(self.control_payload()) {
            Ok(code) => code,
            Err(fault) => return self.fail(fault),
        };
        self.message.clear();
        self.is_inside_fragments = false;
        self.state = ReaderState::Closed;
        FrameEvent::Close(code)
    }

    #[cold]
    fn fail(&mut self, fault: ProtocolError) -> FrameEvent {
        self.message.clear();
        self.control_payload = None;
        self.is_inside_fragments = false;
        self.state = ReaderState::Closed;
        FrameEvent::Invalid(fault)
    }

    #[inline]
    const fn header_context(&self, limits: &FrameLimits) -> HeaderContext {
        HeaderContext {
            is_inside_message: self.is_inside_fragments,
            is_compression_negotiated: self.is_compression_negotiated,
            is_binary_allowed: limits.is_binary_allowed,
            is_masked: true,
            bytes_max: limits.message_bytes_max.saturating_sub(self.message.len()),
        }
    }
}

/// Whether reading continues or an event is returned.
enum ReadProgress {
    Continue,
    Return(FrameEvent),
}

impl ControlPayload {
    /// Appends payload; the header guarantees that it fits.
    fn push(&mut self, piece: &[u8]) {
        let length = usize::from(self.length);
        self.bytes[length..length + piece.len()].copy_from_slice(piece);
        self.length += to_u8(piece.len());
    }
}

impl Default for ControlPayload {
    fn default() -> Self {
        Self { bytes: [0; CONTROL_BYTES_MAX], length: 0 }
    }
}

/// Iterator over the JSON texts of a message, as byte ranges. Empty lines are ignored. The last
/// line feed is optional unless the delimiter is strict.
#[derive(Clone, Debug)]
pub struct DelimitedMessages<'t> {
    text: &'t [u8],
    from: usize,
}

impl<'t> DelimitedMessages<'t> {
    /// Creates an iterator; the last text may lack its line feed.
    #[inline]
    pub const fn new(text: &'t [u8]) -> Self {
        Self { text, from: 0 }
    }

    /// Creates an iterator; the last text must have its line feed.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::MISSING_DELIMITER`] if it has none.
    #[inline]
    pub const fn strict(text: &'t [u8]) -> Result<Self, ProtocolError> {
        match text {
            [.., b'\n'] => Ok(Self::new(text)),
            _ => Err(ProtocolError::MISSING_DELIMITER),
        }
    }
}

impl Iterator for DelimitedMessages<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        while self.from < self.text.len() {
            let start = self.from;
            let rest = &self.text[start..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            self.from = start + length + 1;
            let line = &rest[..length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                return Some(start..start + line.len());
            }
        }
        None
    }
}
