//! The limits of a shard that can change while it runs.

use std::time::Duration;

use corelane_base::client_address::AddressShare;
use corelane_transport::http::head::RequestLimits;

use crate::connection::ConnectionOptions;
use crate::server::memory::MemoryLimit;
use crate::server::memory::input_pool::InputLimits;
use crate::server::options::SecondStream;
use crate::server::subscriptions::SubscriptionLimits;
use crate::server::websocket::MessageRules;

/// The limits that can change while a shard runs.
#[derive(Clone, Copy, Debug)]
pub struct ShardLimits {
    pub connections: ConnectionOptions,
    /// What peers may make the shard hold.
    pub memory: MemoryLimit,
    /// What incomplete messages of unproven peers may take of it.
    pub input: InputLimits,
    /// What one client address may take of the connections.
    pub address_share: AddressShare,
    pub connections_max: ConnectionsMax,
    pub half_close: HalfCloseLimits,
    /// Limits of one HTTP request.
    pub http_request: RequestLimits,
    pub http_timeouts: HttpTimeouts,
    /// Limits of WebSocket messages.
    pub websocket: MessageRules,
    pub sessions: SessionLimits,
    /// Time for which a connection is open; zero is no limit.
    pub connection_lifetime: Duration,
    pub requests_in_flight_max: usize,
    pub request_timeout: Duration,
    pub client_request_timeout: Duration,
    pub request_state_ttl: Duration,
    pub drain: DrainTimeouts,
    pub tasks: TaskLimits,
    pub subscriptions: SubscriptionLimits,
}

/// Open connections of each transport, over all shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionsMax {
    pub tcp: usize,
    pub http: usize,
    pub websocket: usize,
    /// Of each transport, those of one address.
    pub per_address: usize,
}

/// Times of a drain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DrainTimeouts {
    /// Time from the request to drain to its begin, in which everything is served.
    pub delay: Duration,
    /// Time of requests in flight from then on.
    pub timeout: Duration,
}

/// Limits of TCP connections whose client has ended its input while calls are in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HalfCloseLimits {
    /// Time of the calls; zero cancels them at once.
    pub timeout: Duration,
    /// Connections that may wait for their calls, over all shards.
    pub waiting_max: usize,
}

/// Limits of the tasks of a shard.
#[derive(Clone, Copy, Debug)]
pub struct TaskLimits {
    /// Tasks, running or completed.
    pub tasks_max: usize,
    /// Tasks of one connection.
    pub tasks_per_connection_max: usize,
    /// What one client address may take of the tasks and of the bytes of results.
    pub address_share: AddressShare,
    /// Default ttl.
    pub ttl: Duration,
    /// Longest ttl that a caller may request.
    pub ttl_max: Duration,
    /// Bytes of results.
    pub result_bytes_max: usize,
}

/// Delays of event streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HttpTimeouts {
    /// Time after which a request without a response is answered as an event stream.
    pub sse_start_delay: Duration,
    /// Time after which a silent stream gets a comment.
    pub sse_keepalive_interval: Duration,
    /// Reconnection time sent when a stream is closed early.
    pub sse_retry_ms: u32,
}

/// Limits of the sessions of a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionLimits {
    /// Number of sessions.
    pub sessions_max: usize,
    /// Time after which an idle session expires.
    pub idle_timeout: Duration,
    /// Streams of one session.
    pub streams: StreamLimits,
    /// Bytes of the stored events of all streams.
    pub event_bytes_max: usize,
    /// Time for which a delivered stream lingers, for a client whose connection broke before
    /// everything arrived.
    pub linger_timeout: Duration,
    /// Number of lingering streams.
    pub lingering_streams_max: usize,
}

/// Limits of the streams of one session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamLimits {
    /// Streams of requests that are attached or not finished.
    pub streams_max: usize,
    /// Finished streams that can be resumed.
    pub retained_streams_max: usize,
    /// What happens to an attached listening stream when another one is requested.
    pub second_stream: SecondStream,
    /// Stored events of each stream.
    pub log: EventLogLimits,
}

/// Limits of the stored events of one stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventLogLimits {
    /// Stored events.
    pub events_max: usize,
    /// Bytes of stored events, each with its overhead (twice the size of a `Bytes`). A larger event
    /// may use half of the shard's free bytes instead, so that later events find some, too.
    pub bytes_max: usize,
}
