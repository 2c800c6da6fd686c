//! The client's side of each transport: bytes into messages, without a socket.
//!
//! A [`Reader`] cuts what a server sends into [`Heard`] events; the three framings stand in files
//! of their own. What it keeps true: any cut of a stream gives the same events; what breaks the
//! framing is told once, as [`Broken`], and nothing behind it is read; no event holds more than
//! [`MESSAGE_BYTES_MAX`].
//!
//! Below them, where a connection is encrypted, a [`tls::TlsFilter`] makes bytes of ciphertext.
//!
//! What it does not do: look into a message. That is [`crate::dialogue`]'s.

pub mod events;
pub mod frames;
pub mod lines;
pub mod responses;
pub mod unsealed;

pub mod trust;

pub mod tls;

/// The longest message that is waited for: 64 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What the next bytes of a stream say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard<'a> {
    /// A message.
    Text(&'a [u8]),
    /// A response of HTTP is over. A message that was its body came before this.
    Over {
        /// Its status.
        status: u16,
        /// `Mcp-Session-Id`, where it had one.
        session: Option<&'a [u8]>,
        /// The server closes the connection after it.
        closes: bool,
        /// Its body was a stream of events.
        is_stream: bool,
    },
    /// Something that asks for these bytes in return: a pong.
    Reply(&'a [u8]),
    /// The server says that it closes.
    Close,
}

/// The server does not keep to the framing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub &'static str);

/// What one look at the bytes has brought.
pub type Look<'a> = Result<Option<(usize, Option<Heard<'a>>)>, Broken>;

/// Shows `read` what has begun together with what arrived; it tells how far it came, and the rest
/// has begun. Nothing is copied that came and was read whole.
///
/// # Errors
///
/// What `read` has; nothing has begun then.
#[inline]
pub fn piece_together<E>(
    begun: &mut Vec<u8>,
    arrived: &[u8],
    read: impl FnOnce(&[u8]) -> Result<usize, E>,
) -> Result<(), E> {
    if begun.is_empty() {
        let done = read(arrived)?;
        begun.extend_from_slice(&arrived[done..]);
        return Ok(());
    }
    begun.extend_from_slice(arrived);
    let done = read(begun)?;
    begun.drain(..done);
    Ok(())
}

/// Cuts what a server sends on one connection into events.
#[derive(Debug)]
pub enum Reader {
    /// Lines: TCP and standard output.
    Lines(lines::LineReader),
    /// Responses of HTTP/1.1.
    Responses(Box<responses::ResponseReader>),
    /// Frames of WebSocket, behind the answer to the upgrade.
    Frames(Box<frames::FrameReader>),
}

impl Reader {
    /// Whether nothing has been seen of the next message or response.
    #[inline]
    pub const fn is_at_start(&self) -> bool {
        match self {
            Self::Lines(reader) => reader.is_at_start(),
            Self::Responses(reader) => reader.is_at_start(),
            Self::Frames(reader) => reader.is_at_start(),
        }
    }

    /// Gives back buffers beyond so many bytes that nothing is in.
    #[inline]
    pub fn rest(&mut self, kept_bytes_max: usize) {
        match self {
            Self::Lines(_) => {}
            Self::Responses(reader) => reader.rest(kept_bytes_max),
            Self::Frames(reader) => reader.rest(kept_bytes_max),
        }
    }

    /// Whether the response that is being read is a stream of events and no refusal: its head has
    /// come.
    #[inline]
    pub const fn is_in_stream(&self) -> bool {
        match self {
            Self::Responses(reader) => reader.is_in_stream(),
            Self::Lines(_) | Self::Frames(_) => false,
        }
    }

    /// Looks at `bytes` for the next event: how many bytes of it are done with, and the event if
    /// there is one. `None` until more bytes have come. What was not done with must be shown again
    /// with what comes behind it.
    #[inline]
    pub fn look<'a>(&'a mut self, bytes: &'a [u8]) -> Look<'a> {
        match self {
            Self::Lines(reader) => reader.look(bytes),
            Self::Responses(reader) => reader.look(bytes),
            Self::Frames(reader) => reader.look(bytes),
        }
    }
}
