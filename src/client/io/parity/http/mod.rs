//! The parity dialect over HTTP: a request for each message, and one stream of events.
//!
//! [`ParityOutbox`] takes the messages of a session. [`ParityHttp`] sends each of them with a
//! request, and reports what comes of it.

mod outbox;

mod link;

pub(super) use self::link::{HttpInput, ParityHttp};
