//! What the shard of a connection and the shard of a session write to each other, where they are
//! not the same.
//!
//! ```text
//!   connection ── Asked ──▶ session
//!              ◀── Told ───
//!              ── Left ──▶
//! ```
//!
//! What it keeps true: a letter names its exchange, so that one which comes late is passed over.

use bytes::Bytes;

use super::identity::SessionId;
use super::stream::ExchangeAddress;
use crate::server::party::Said;
use crate::transport::http::ladder::Step;
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

/// One letter about an exchange.
#[derive(Debug)]
pub(in crate::server) enum HttpLetter {
    /// A request for a session of the addressee.
    Asked {
        /// Which session.
        session: SessionId,
        /// Where the answer goes.
        from: ExchangeAddress,
        /// What is wanted.
        wish: Wish,
    },
    /// The exchange is over; `is_sent` where everything that it was given has left.
    Left {
        /// Which session it belonged to.
        session: SessionId,
        /// Which exchange.
        exchange: ExchangeAddress,
        /// Whether the client has got everything.
        is_sent: bool,
    },
    /// The exchange has waited long: its stream is to begin, where its request is at work.
    Waits {
        /// Which session it belongs to.
        session: SessionId,
        /// Which exchange.
        exchange: ExchangeAddress,
    },
    /// What is to be said.
    Told {
        /// To whom.
        to: ExchangeAddress,
        /// What.
        utterance: Utterance,
    },
}

/// What a request wants of a session.
#[derive(Debug)]
pub(in crate::server) enum Wish {
    /// Carry this message.
    Carry {
        /// Its text, in a buffer with room for what the parser needs behind it.
        text: Vec<u8>,
        /// Whether it came to the endpoint for clients of 2024-11-05.
        is_pair: bool,
    },
    /// End.
    End,
    /// Tell what belongs to no request, or go on after this event.
    Listen(Option<EventId>),
}

/// What a session says over one exchange.
#[derive(Debug)]
pub(in crate::server) enum Utterance {
    /// The answer, where nothing was said before it.
    Answer {
        /// What it is.
        said: Said,
        /// Its text.
        text: Vec<u8>,
    },
    /// Nothing but a status.
    Bare(Status),
    /// The stream ends without an answer; `retry_ms` is when to come back for what follows.
    End {
        /// Milliseconds, where it is worth coming back.
        retry_ms: Option<u32>,
    },
    /// One event of a stream. One without a text is a place to come back to.
    Event {
        /// Its name.
        id: EventId,
        /// What it is.
        said: Said,
        /// Its text.
        text: Bytes,
    },
    /// Where a client of 2024-11-05 posts its messages.
    Endpoint(Box<str>),
    /// The stream begins.
    Open,
    /// An error that says at which step the request failed.
    Refused(Step),
    /// A text that nobody can come back for: on the stream of a client of 2024-11-05.
    Word(Bytes),
}
