//! Streamable HTTP: one exchange for each message, over a few connections.
//!
//! [`HttpQueue`] takes the messages of a session. [`HttpLink`] sends each of them with a request,
//! and passes the messages of the responses to the session.

mod closing;
mod connection;
mod request_writer;
mod seen_events;
mod waiting;

mod exchange;

mod http_session;
mod legacy_sse;
mod path_search;
mod response;

mod queue;

mod session_input;

mod authorization;
mod carrier;
mod pool;
mod stream_retries;

mod link;

pub(super) use self::authorization::{
    FlowRun, RedirectSender, UpgradeAuthorization, UpgradeFlow, UpgradeVerdict,
};
pub(super) use self::carrier::HttpCarrier;
pub(super) use self::closing::Closing;
pub(super) use self::connection::Response;
pub(super) use self::link::HttpLink;
pub(super) use self::pool::HttpPool;
pub(super) use self::request_writer::request_writer;
pub(super) use self::session_input::SessionInput;
pub(super) use self::waiting::{ExchangeClass, HttpExchange, WaitingExchanges};
