//! The client of the parity dialect, sans-IO: requests of a session that may span several
//! connections.
//!
//! [`ParityRequests`] runs the state machine of
//! [`ClientSession`](corelane_parity::client_session::ClientSession), and adds what a
//! caller expects of it: requests that wait, time out, are cancelled and repeated; streams that
//! continue on another connection. Time is an argument; messages leave through a [`ParitySink`].

mod event;
mod options;

mod call_table;

mod requests;

mod receive;

#[cfg(test)]
mod tests;

pub use self::call_table::ParityCallRequest;
pub use self::event::{
    ParityChunk, ParityContext, ParityMessage, ParityMessageKind, ParityServerInfo,
    ParitySessionEvent, ParitySink,
};
pub use self::options::{ParityConfig, ParityKeepaliveOptions, ParityRetryOptions};
pub use self::requests::ParityRequests;
