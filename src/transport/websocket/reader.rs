//! Messages and control frames from a stream of frames (RFC 6455, sections 5 to 7).
//!
//! What it keeps true: a message that came in one frame and one arrival is unmasked where it lies
//! and never copied; one that came in several is copied once, and its text is checked as it comes;
//! an idle reader holds no memory; what outgrows a limit is refused by its header, before it has
//! come; the same stream gives the same messages wherever it is cut.
//!
//! What it does not do: answer, wait, inflate, or look into the text of a message that came whole.

use std::mem::take;

use super::code::CloseCode;
use super::frame::{
    BINARY, CLOSE, CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Kind, PING, Place, TEXT, short,
};
use super::limits::{Fault, FrameLimits};
use super::mask::{self, Key};
use super::utf8::Checker;

/// Bytes of zeros behind an assembled message, so that a parser may read it in whole vectors.
pub const PADDING: usize = 64;

/// Memory taken ahead for a frame whose length is known, at most: a peer that only says that it
/// will send much gets no more for it.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// What the next bytes of a stream are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// A whole message that came in several frames or arrivals: fetch it with
    /// [`FrameReader::take`]. Text is UTF-8, unless it is compressed.
    Assembled {
        /// Whether it has to be inflated.
        is_compressed: bool,
    },
    /// The peer broke the protocol. Said once; nothing more is read.
    Broken(Fault),
    /// The peer closes, for this reason if it said one; the payload of its frame is
    /// [`FrameReader::control`]. Said once; nothing more is read.
    Close(Option<CloseCode>),
    /// A whole message, unmasked inside the arrival itself. Nobody has looked whether it is UTF-8:
    /// the parser of its JSON does.
    Inside {
        /// Where it begins in the arrival.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Whether it has to be inflated.
        is_compressed: bool,
    },
    /// The arrival is used up.
    NeedMore,
    /// The peer asks for a sign of life: a pong with the payload [`FrameReader::control`].
    Ping,
    /// The peer gave a sign of life; the payload of its frame is [`FrameReader::control`].
    Pong,
}

/// Cuts one stream into messages.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub struct FrameReader {
    /// The message that is not whole, unmasked, as far as it has come.
    message: Vec<u8>,
    /// The payload of the control frame that came last, where it has one.
    control: Option<Box<Control>>,
    state: State,
    /// Checks the text of a message that comes in pieces.
    text: Checker,
    kind: Kind,
    /// Whether compressed messages were agreed on.
    is_deflating: bool,
    /// Whether a message has begun that is not over.
    is_inside: bool,
    /// Whether messages are thrown away as they come.
    is_discarding: bool,
    /// Whether the frame that comes is the last of its message.
    is_final: bool,
}

/// The payload of a control frame.
#[derive(Debug)]
struct Control {
    bytes: [u8; CONTROL_BYTES_MAX],
    length: u8,
}

/// What is read.
///
/// ```text
///        ┌──────────────▶ Control ─▶ Idle or Between
/// Idle ──┴─▶ Header ─▶ Data ─▶ Between ─▶ … ─▶ Data ─▶ Whole ─▶ Idle          any ─▶ Over
/// ```
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Nothing of a message or a frame has come.
    #[default]
    Idle,
    /// Between two fragments of a message.
    Between,
    /// The header of a frame has begun.
    Header { bytes: [u8; HEADER_BYTES_MAX - 1], length: u8 },
    /// The payload of a message.
    Data { key: Key, remaining: usize },
    /// The payload of a control frame.
    Control { opcode: u8, key: Key, remaining: u8 },
    /// A message is whole and waits to be taken.
    Whole,
    /// Nothing is read any more.
    Over,
}

impl FrameReader {
    /// A reader before the first frame, holding no memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same where compressed messages were agreed on.
    pub fn compressed() -> Self {
        Self { is_deflating: true, ..Self::default() }
    }

    /// Looks at `arrival[*from..]` for the next message or control frame, unmasks it there and
    /// moves `from` behind what was used. `buffer` provides the memory when a message has to be
    /// kept (an empty buffer from a pool).
    ///
    /// Call it until it says [`Next::NeedMore`], [`Next::Close`] or [`Next::Broken`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        mut buffer: impl FnMut() -> Vec<u8>,
    ) -> Next {
        if matches!(self.state, State::Idle) {
            self.control = None;
            match Header::read(&arrival[*from..], self.place(limits)) {
                Ok(Some(header)) if !header.is_control() && header.is_final() => {
                    let start = *from + header.bytes;
                    if arrival.len() - start >= header.payload {
                        let end = start + header.payload;
                        mask::apply(&mut arrival[start..end], header.key);
                        *from = end;
                        self.kind = header.kind();
                        return Next::Inside {
                            start,
                            end,
                            is_compressed: self.kind.is_compressed(),
                        };
                    }
                }
                Ok(None) if *from == arrival.len() => return Next::NeedMore,
                Ok(_) => {}
                Err(fault) => return self.fail(fault),
            }
        }
        self.go_on(arrival, from, limits, &mut buffer)
    }

    /// The message announced by [`Next::Assembled`], followed by [`PADDING`] bytes of zeros: the
    /// buffer and the length of the message in it. Give the buffer back to its pool.
    pub fn take(&mut self) -> (Vec<u8>, usize) {
        let mut message = take(&mut self.message);
        let length = message.len();
        message.resize(length + PADDING, 0);
        if matches!(self.state, State::Whole) {
            self.state = State::Idle;
        }
        (message, length)
    }

    /// Drops the message that has begun and reads nothing more; hands its memory back.
    pub fn give_up(&mut self) -> Vec<u8> {
        self.state = State::Over;
        self.is_inside = false;
        let mut message = take(&mut self.message);
        message.clear();
        message
    }

    /// Throws messages away from here on: those that come are still announced, and one in pieces is
    /// empty. Control frames and faults are told as ever. Hands back the memory of the message that
    /// has begun.
    pub fn discard(&mut self) -> Vec<u8> {
        self.is_discarding = true;
        let mut message = take(&mut self.message);
        message.clear();
        message
    }

    /// The payload of the control frame that was announced last, until [`FrameReader::next`] is
    /// called again: at most 125 bytes. That of a close frame begins with its code.
    pub fn control(&self) -> &[u8] {
        self.control.as_ref().map_or(&[], |control| &control.bytes[..usize::from(control.length)])
    }

    /// Whether the message that was announced last is binary.
    pub const fn is_binary(&self) -> bool {
        self.kind.is_binary()
    }

    /// Whether a message or a frame has begun that is not whole.
    pub const fn is_inside_message(&self) -> bool {
        !matches!(self.state, State::Idle | State::Over | State::Whole)
    }

    /// Bytes held for a message that is not whole.
    pub const fn held_bytes(&self) -> usize {
        self.message.len()
    }

    /// Goes on wherever the last arrival ended.
    #[inline(never)]
    fn go_on(
        &mut self,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> Next {
        loop {
            let step = match self.state {
                State::Idle | State::Between => {
                    self.control = None;
                    self.read_header([0; HEADER_BYTES_MAX - 1], 0, arrival, from, limits)
                }
                State::Header { bytes, length } => {
                    self.read_header(bytes, length, arrival, from, limits)
                }
                State::Data { key, remaining } => {
                    self.read_data(key, remaining, arrival, from, buffer)
                }
                State::Control { opcode, key, remaining } => {
                    self.read_control(opcode, key, remaining, arrival, from)
                }
                State::Whole => {
                    Step::Say(Next::Assembled { is_compressed: self.kind.is_compressed() })
                }
                State::Over => {
                    *from = arrival.len();
                    Step::Say(Next::NeedMore)
                }
            };
            if let Step::Say(next) = step {
                return next;
            }
        }
    }

    /// Goes on with a header of which `length` bytes have come before.
    fn read_header(
        &mut self,
        mut begun: [u8; HEADER_BYTES_MAX - 1],
        length: u8,
        arrival: &[u8],
        from: &mut usize,
        limits: &FrameLimits,
    ) -> Step {
        let length = usize::from(length);
        let rest = &arrival[*from..];
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[..length].copy_from_slice(&begun[..length]);
        let count = rest.len().min(HEADER_BYTES_MAX - length);
        bytes[length..length + count].copy_from_slice(&rest[..count]);
        match Header::read(&bytes[..length + count], self.place(limits)) {
            Ok(Some(header)) => {
                *from += header.bytes - length;
                self.begin(header);
                Step::On
            }
            Ok(None) => {
                *from = arrival.len();
                if count > 0 {
                    begun.copy_from_slice(&bytes[..HEADER_BYTES_MAX - 1]);
                    self.state = State::Header { bytes: begun, length: short(length + count) };
                }
                Step::Say(Next::NeedMore)
            }
            Err(fault) => Step::Say(self.fail(fault)),
        }
    }

    /// A header is whole: what follows is its payload.
    fn begin(&mut self, header: Header) {
        let Header { key, payload: remaining, .. } = header;
        let opcode = header.opcode();
        if header.is_control() {
            self.state = State::Control { opcode, key, remaining: short(remaining) };
            return;
        }
        if matches!(opcode, TEXT | BINARY) {
            self.is_inside = true;
            self.kind = header.kind();
            self.text = Checker::default();
        }
        self.is_final = header.is_final();
        self.state = State::Data { key, remaining };
    }

    /// Goes on with the payload of a message.
    fn read_data(
        &mut self,
        key: Key,
        remaining: usize,
        arrival: &mut [u8],
        from: &mut usize,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> Step {
        let count = remaining.min(arrival.len() - *from);
        if count > 0 {
            let piece = &mut arrival[*from..*from + count];
            *from += count;
            if !self.is_discarding && !self.keep(piece, key, remaining, buffer) {
                return Step::Say(self.fail(Fault::NOT_UTF8));
            }
        }
        let remaining = remaining - count;
        if remaining > 0 {
            self.state = State::Data { key: mask::turned(key, count), remaining };
            return Step::Say(Next::NeedMore);
        }
        if !self.is_final {
            self.state = State::Between;
            return Step::On;
        }
        if !self.is_discarding && !self.text.is_whole() {
            return Step::Say(self.fail(Fault::NOT_UTF8));
        }
        self.is_inside = false;
        self.state = State::Whole;
        Step::On
    }

    /// Keeps a piece of a message, and takes memory for the `remaining` bytes of its frame; `false`
    /// where it is no text and should be.
    fn keep(
        &mut self,
        piece: &mut [u8],
        key: Key,
        remaining: usize,
        buffer: &mut dyn FnMut() -> Vec<u8>,
    ) -> bool {
        mask::apply(piece, key);
        if self.kind.is_plain_text() && !self.text.push(piece) {
            return false;
        }
        if self.message.capacity() == 0 {
            self.message = buffer();
        }
        self.message.reserve(remaining.min(RESERVED_BYTES_MAX).max(piece.len()) + PADDING);
        self.message.extend_from_slice(piece);
        true
    }

    /// Goes on with the payload of a control frame.
    fn read_control(
        &mut self,
        opcode: u8,
        key: Key,
        remaining: u8,
        arrival: &mut [u8],
        from: &mut usize,
    ) -> Step {
        let count = usize::from(remaining).min(arrival.len() - *from);
        if count > 0 {
            let piece = &mut arrival[*from..*from + count];
            *from += count;
            mask::apply(piece, key);
            self.control.get_or_insert_default().push(piece);
        }
        let remaining = remaining - short(count);
        if remaining > 0 {
            let key = mask::turned(key, count);
            self.state = State::Control { opcode, key, remaining };
            return Step::Say(Next::NeedMore);
        }
        self.state = if self.is_inside { State::Between } else { State::Idle };
        Step::Say(match opcode {
            CLOSE => self.close(),
            PING => Next::Ping,
            _ => Next::Pong,
        })
    }

    /// A close frame is whole.
    #[cold]
    fn close(&mut self) -> Next {
        let code = match read_close(self.control()) {
            Ok(code) => code,
            Err(fault) => return self.fail(fault),
        };
        self.message.clear();
        self.is_inside = false;
        self.state = State::Over;
        Next::Close(code)
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> Next {
        self.message.clear();
        self.control = None;
        self.is_inside = false;
        self.state = State::Over;
        Next::Broken(fault)
    }

    #[inline]
    const fn place(&self, limits: &FrameLimits) -> Place {
        Place {
            is_inside: self.is_inside,
            is_deflating: self.is_deflating,
            is_binary_allowed: limits.is_binary_allowed,
            bytes_max: limits.message_bytes_max.saturating_sub(self.message.len()),
        }
    }
}

/// Whether there is something to say.
enum Step {
    On,
    Say(Next),
}

impl Control {
    /// Appends what has come; a header promised no more than there is room for.
    fn push(&mut self, piece: &[u8]) {
        let length = usize::from(self.length);
        self.bytes[length..length + piece.len()].copy_from_slice(piece);
        self.length += short(piece.len());
    }
}

impl Default for Control {
    fn default() -> Self {
        Self { bytes: [0; CONTROL_BYTES_MAX], length: 0 }
    }
}

/// The code of a close frame (RFC 6455, sections 5.5.1 and 7.4).
fn read_close(payload: &[u8]) -> Result<Option<CloseCode>, Fault> {
    match payload {
        [] => Ok(None),
        [_] => Err(Fault::HALF_CODE),
        [high, low, reason @ ..] => {
            let Some(code) = CloseCode::read(u16::from_be_bytes([*high, *low])) else {
                return Err(Fault::BAD_CODE);
            };
            match std::str::from_utf8(reason) {
                Ok(_) => Ok(Some(code)),
                Err(_) => Err(Fault::BAD_REASON),
            }
        }
    }
}
