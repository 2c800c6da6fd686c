//! The parity dialect on a shard: sessions, and the way of their messages to the dispatcher.
//!
//! ```text
//! envelope ─▶ session (state machine) ─▶ dispatcher ─▶ OutgoingMessage ─▶ envelope, chunks
//! ```
//!
//! A session is a peer of its own: its calls refer to it, and not to the connection that carries
//! it. The dispatcher serves it as a client of MCP 2025-11-25; the session writes its own envelope
//! around the parts of what the dispatcher answers.
//!
//! A session stays on the shard that it began on. A connection of another shard that resumes it has
//! a front there, which relays its messages.
//!
//! Invariants: at most one connection carries a session, and a connection carries at most one; a
//! session without connection lives as long as its streams can be resumed, and no longer; the
//! number of sessions and the bytes that they keep are bounded.

mod resume_tokens;

mod carrier;

mod session;

mod flow;

mod frontend;

mod output;

mod resume;

mod requests;

mod input;

mod http;

mod relay;

pub(super) use self::frontend::{ParityFrontend, ParitySettings};
pub(super) use self::output::ParityPath;
pub(super) use self::resume_tokens::ResumeTokens;
