//! HTTP: one exchange for each message, over a few connections.
//!
//! [`HttpLink`] has the connections and the exchanges on them, for every dialect. [`HttpRules`] are
//! what a dialect says: which requests it sends, and what their responses mean;
//! [`StreamableHttp`] are those of MCP, whose messages wait in an [`HttpQueue`](queue::HttpQueue).

mod connection;
mod waiting;

mod exchange;

mod path_search;
mod response;

mod queue;

mod session;

mod authorization;
mod pool;
mod stream_retries;

mod rules;

mod link;
mod streamable;

pub(super) use self::authorization::{
    FlowRun, HttpAuthorization, RedirectSender, UpgradeAuthorization, UpgradeVerdict,
};
pub(super) use self::connection::{ExchangeLoss, HttpRequest, HttpResponse, LostExchange};
pub(super) use self::link::HttpLink;
pub(super) use self::pool::HttpPool;
pub(super) use self::rules::HttpRules;
pub(super) use self::session::SessionAccess;
pub(super) use self::streamable::StreamableHttp;
pub(super) use self::waiting::{ExchangeClass, HttpExchange, WaitingExchanges};
