//! From options to the limits of one shard.

use std::time::Duration;

use corelane_base::client_address::AddressShare;

use crate::connection::{ConnectionOptions, WebSocketFrameOptions};
use crate::server::acceptance::SPARE_CONNECTIONS_MAX;
use crate::server::memory::MemoryLimit;
use crate::server::memory::input_pool::InputLimits;
use crate::server::options::{HttpOptions, Options, TcpOptions, WebSocketOptions};
use crate::server::shard_message::{
    ConnectionsMax, DrainTimeouts, EventLogLimits, HalfCloseLimits, HttpTimeouts, SessionLimits,
    ShardLimits, StreamLimits, TaskLimits,
};
use crate::server::subscriptions::SubscriptionLimits;
use crate::server::websocket::MessageRules;

/// Ended streams of one session that its client can still resume.
const ENDED_STREAMS_MAX: usize = 16;

/// How long a stream that was sent to its end can be resumed: two keep-alive intervals, after which
/// a client knows that its connection is dead.
const STREAM_RETENTION: Duration = Duration::from_mins(1);

/// Maximum number of such streams on a shard: below 1 MiB besides their events, which have a limit
/// of their own.
const LINGERING_STREAMS_MAX: usize = 4_096;

/// Part of the TCP connections that may wait for their calls after the end of their input.
const HALF_CLOSED_PART: usize = 8;

/// Least number of connections from which no byte has arrived that a shard may have.
const SILENT_CONNECTIONS_MIN: u32 = 64;

/// Connections that may have a place at once, those being rejected and those of operators included.
pub fn connections_max(options: &Options) -> u32 {
    let (served, _) = options.connections_max();
    u32::try_from(served).unwrap_or(u32::MAX).saturating_add(SPARE_CONNECTIONS_MAX)
}

/// Connections of one of `shards` shards from which no byte has arrived, which have no place: of
/// all together as many as have places of TCP and HTTP.
pub fn silent_connections_max(options: &Options, shards: usize) -> u32 {
    let served = options.tcp.connections_max.saturating_add(options.http.connections_max);
    let shards = u32::try_from(shards).unwrap_or(u32::MAX).max(1);
    (served / shards).max(SILENT_CONNECTIONS_MIN)
}

/// The limits of one shard. The kernel distributes connections unevenly, so any shard may get all
/// of them; their memory limit is divided evenly.
pub fn shard_limits(options: &Options, shards: usize) -> ShardLimits {
    let stored_bytes_max = options.limits.stored_bytes_max() / shards.max(1);
    let memory = MemoryLimit::new(options.limits.memory_bytes_max / shards.max(1));
    let silent_max = silent_connections_max(options, shards);
    let connections = ConnectionOptions {
        connections_max: connections_max(options).saturating_add(silent_max) as usize,
        idle_timeout: options.tcp.idle_timeout,
        first_message_timeout: options.tcp.first_message_timeout,
        silent_max: silent_max as usize,
        message_bytes_max: options.limits.message_bytes_max,
        outgoing_bytes_max: options.limits.outgoing_bytes_max,
        large_buffers_bytes_max: memory.large_buffers(),
        websocket: websocket_frame_options(&options.websocket),
        ..ConnectionOptions::default()
    };
    let address_share = AddressShare::new(options.limits.address_share_percent)
        .with_reserve(options.auth.is_enabled());
    ShardLimits {
        connections,
        memory,
        input: input_limits(options, memory, shards),
        address_share,
        connections_max: limits_of_connections(options),
        half_close: half_close_limits(&options.tcp),
        http_request: options.request_limits(),
        http_timeouts: http_timeouts(&options.http),
        websocket: MessageRules::from_options(options),
        sessions: session_limits(options, shards),
        connection_lifetime: options.limits.connection_lifetime,
        requests_in_flight_max: options.limits.requests_in_flight_max as usize,
        request_timeout: options.limits.request_timeout,
        client_request_timeout: options.limits.client_request_timeout,
        request_state_ttl: options.limits.request_state_ttl,
        drain: DrainTimeouts {
            delay: options.engine.drain_delay,
            timeout: options.engine.drain_timeout,
        },
        tasks: TaskLimits {
            tasks_max: options.limits.tasks_max as usize,
            tasks_per_connection_max: options.limits.tasks_per_connection_max as usize,
            address_share,
            ttl: options.limits.task_ttl,
            ttl_max: options.limits.task_ttl_max,
            result_bytes_max: options.limits.task_bytes_max.min(stored_bytes_max),
        },
        subscriptions: SubscriptionLimits {
            streams_max: options.limits.subscriptions_per_connection_max as usize,
            names_max: options.limits.subscription_uris_max as usize,
            name_bytes_max: options.limits.subscription_uri_bytes_max,
            held_bytes_max: (options.limits.subscription_bytes_max / shards.max(1))
                .min(stored_bytes_max),
            address_share,
        },
    }
}

/// The sessions of one shard, an equal part of all.
fn session_limits(options: &Options, shards: usize) -> SessionLimits {
    let stored_bytes_max = options.limits.stored_bytes_max() / shards.max(1);
    SessionLimits {
        // At least one: a client may reach any shard.
        sessions_max: (options.http.sessions_max as usize / shards.max(1)).max(1),
        idle_timeout: options.http.session_idle_timeout,
        streams: StreamLimits {
            // One for each request in flight, and one for each connection that is still
            // receiving the end of one.
            streams_max: (options.limits.requests_in_flight_max as usize)
                .saturating_add(options.http.connections_max as usize),
            retained_streams_max: ENDED_STREAMS_MAX,
            second_stream: options.http.second_stream,
            log: EventLogLimits {
                events_max: options.http.replay_events_max as usize,
                bytes_max: options.limits.outgoing_bytes_max,
            },
        },
        event_bytes_max: (options.http.replay_bytes_max / shards.max(1)).min(stored_bytes_max),
        linger_timeout: STREAM_RETENTION,
        lingering_streams_max: LINGERING_STREAMS_MAX,
    }
}

fn input_limits(options: &Options, memory: MemoryLimit, shards: usize) -> InputLimits {
    let limits = &options.limits;
    let bytes = limits.unproven_bytes_max / shards.max(1);
    let address_share = AddressShare::new(limits.address_share_percent);
    InputLimits::new(bytes, memory, limits.message_bytes_max, address_share)
}

fn limits_of_connections(options: &Options) -> ConnectionsMax {
    ConnectionsMax {
        tcp: options.tcp.connections_max as usize,
        http: options.http.connections_max as usize,
        websocket: options.websocket.connections_max as usize,
        per_address: match options.rate.connections_per_address_max {
            0 => usize::MAX,
            most => most as usize,
        },
    }
}

fn half_close_limits(options: &TcpOptions) -> HalfCloseLimits {
    HalfCloseLimits {
        timeout: options.half_close_timeout,
        waiting_max: (options.connections_max as usize / HALF_CLOSED_PART).max(1),
    }
}

const fn websocket_frame_options(options: &WebSocketOptions) -> WebSocketFrameOptions {
    WebSocketFrameOptions {
        outgoing_bytes_max: options.outgoing_bytes_max,
        send_timeout: options.send_timeout,
        first_message_timeout: options.first_message_timeout,
        fragment_timeout: options.fragment_timeout,
        idle_timeout: options.idle_timeout,
        ping_interval: options.ping_interval,
    }
}

fn http_timeouts(options: &HttpOptions) -> HttpTimeouts {
    HttpTimeouts {
        sse_start_delay: options.sse_start_delay,
        sse_keepalive_interval: options.sse_keepalive_interval,
        sse_retry_ms: u32::try_from(options.sse_retry.as_millis()).unwrap_or(u32::MAX),
    }
}

/// Returns all limits as text, for a test that compares them.
#[cfg(all(test, feature = "cli"))]
pub fn describe_limits(options: &Options) -> String {
    format!("{:?} {:?}", shard_limits(options, 1), options.overload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of task results, subscriptions and stored events of one of `shards`.
    fn stored_bytes(options: &Options, shards: usize) -> [usize; 3] {
        let limits = shard_limits(options, shards);
        let events = limits.sessions.event_bytes_max;
        [limits.tasks.result_bytes_max, limits.subscriptions.held_bytes_max, events]
    }

    #[test]
    fn stored_bytes_are_an_eighth_of_memory() {
        let mut options = Options::default();
        assert_eq!(stored_bytes(&options, 1), [64 << 20; 3]);
        assert_eq!(stored_bytes(&options, 2), [64 << 20, 32 << 20, 32 << 20]);
        assert_eq!(stored_bytes(&options, 4), [32 << 20, 16 << 20, 16 << 20]);
        options.limits.memory_bytes_max = 64 << 20;
        assert_eq!(stored_bytes(&options, 1), [8 << 20; 3]);
        assert_eq!(stored_bytes(&options, 2), [4 << 20; 3]);
        assert_eq!(stored_bytes(&Options::tiny(), 1), [4 << 10, 8 << 10, 8 << 10]);
    }
}
