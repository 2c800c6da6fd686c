//! Which connections are served: listeners, connection limits, refusals.

mod connection_count;

mod acceptor;

pub(super) use self::acceptor::{
    Acceptor, ConnectionCounts, ListenerEntry, ListenerKind, SPARE_CONNECTIONS_MAX, count_close,
    refusal_error,
};
pub(super) use self::connection_count::ConnectionCount;
