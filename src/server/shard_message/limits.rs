//! The limits of a shard that can change while it runs.

use std::time::Duration;

use crate::base::client_address::AddressShare;
use crate::connection::ConnectionOptions;
use crate::server::memory::MemoryLimit;
use crate::server::options::SecondStream;
use crate::server::subscriptions::SubscriptionLimits;
use crate::server::websocket::MessageRules;
use crate::transport::http::limits::RequestLimits;

/// The limits that can change while a shard runs.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct ShardLimits {
    pub(in crate::server) connections: ConnectionOptions,
    /// What peers may make the shard hold.
    pub(in crate::server) memory: MemoryLimit,
    /// What one client address may take of the connections.
    pub(in crate::server) address_share: AddressShare,
    pub(in crate::server) connections_max: ConnectionsMax,
    pub(in crate::server) half_close: HalfCloseLimits,
    /// Limits of one HTTP request.
    pub(in crate::server) http_request: RequestLimits,
    pub(in crate::server) http_timeouts: HttpTimeouts,
    /// Limits of WebSocket messages.
    pub(in crate::server) websocket: MessageRules,
    pub(in crate::server) sessions: SessionLimits,
    pub(in crate::server) requests_in_flight_max: usize,
    pub(in crate::server) request_timeout: Duration,
    pub(in crate::server) client_request_timeout: Duration,
    pub(in crate::server) request_state_ttl: Duration,
    pub(in crate::server) drain: DrainTimeouts,
    pub(in crate::server) tasks: TaskLimits,
    pub(in crate::server) subscriptions: SubscriptionLimits,
}

/// Open connections of each transport, over all shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct ConnectionsMax {
    pub(in crate::server) tcp: usize,
    pub(in crate::server) http: usize,
    pub(in crate::server) websocket: usize,
    /// Of each transport, those of one address.
    pub(in crate::server) per_address: usize,
}

/// Times of a drain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct DrainTimeouts {
    /// Time from the request to drain to its begin, in which everything is served.
    pub(in crate::server) delay: Duration,
    /// Time of requests in flight from then on.
    pub(in crate::server) timeout: Duration,
}

/// Limits of TCP connections whose client has ended its input while calls are in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct HalfCloseLimits {
    /// Time of the calls; zero cancels them at once.
    pub(in crate::server) timeout: Duration,
    /// Connections that may wait for their calls, over all shards.
    pub(in crate::server) waiting_max: usize,
}

/// Limits of the tasks of a shard.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct TaskLimits {
    /// Tasks, running or completed.
    pub(in crate::server) tasks_max: usize,
    /// Tasks of one connection.
    pub(in crate::server) tasks_per_connection_max: usize,
    /// What one client address may take of the tasks and of the bytes of results.
    pub(in crate::server) address_share: AddressShare,
    /// Default ttl.
    pub(in crate::server) ttl: Duration,
    /// Longest ttl that a caller may request.
    pub(in crate::server) ttl_max: Duration,
    /// Bytes of results.
    pub(in crate::server) result_bytes_max: usize,
}

/// Delays of event streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct HttpTimeouts {
    /// Time after which a request without a response is answered as an event stream.
    pub(in crate::server) sse_start_delay: Duration,
    /// Time after which a silent stream gets a comment.
    pub(in crate::server) sse_keepalive_interval: Duration,
    /// Reconnection time sent when a stream is closed early.
    pub(in crate::server) sse_retry_ms: u32,
}

/// Limits of the sessions of a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct SessionLimits {
    /// Number of sessions.
    pub(in crate::server) sessions_max: usize,
    /// Time after which an idle session expires.
    pub(in crate::server) idle_timeout: Duration,
    /// Streams of one session.
    pub(in crate::server) streams: StreamLimits,
    /// Bytes of the stored events of all streams.
    pub(in crate::server) event_bytes_max: usize,
    /// Time for which a delivered stream lingers, for a client whose connection broke before
    /// everything arrived.
    pub(in crate::server) linger_timeout: Duration,
    /// Number of lingering streams.
    pub(in crate::server) lingering_streams_max: usize,
}

/// Limits of the streams of one session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct StreamLimits {
    /// Streams of requests that are attached or not finished.
    pub(in crate::server) streams_max: usize,
    /// Finished streams that can be resumed.
    pub(in crate::server) retained_streams_max: usize,
    /// What happens to an attached listening stream when another one is requested.
    pub(in crate::server) second_stream: SecondStream,
    /// Stored events of each stream.
    pub(in crate::server) log: EventLogLimits,
}

/// Limits of the stored events of one stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct EventLogLimits {
    /// Stored events.
    pub(in crate::server) events_max: usize,
    /// Bytes of stored events, each with its overhead ([`EVENT_OVERHEAD_BYTES`]). A larger event
    /// may use half of the shard's free bytes instead, so that later events find some, too.
    pub(in crate::server) bytes_max: usize,
}
