//! The profile for tests: every limit shrunk.
//!
//! What it keeps true: each limit is below the one of the standard profile; doors take free ports.

use std::time::Duration;

use super::{
    EngineOptions, FileOptions, HttpOptions, KIB, LimitOptions, LogOptions, Options, Profile,
    ServiceOptions, StdioOptions, TcpOptions, WebSocketOptions, loopback,
};
use crate::engine::mesh::MeshOptions;
use crate::engine::ring::RingOptions;

impl Options {
    /// Every limit shrunk to a size that a test reaches in microseconds.
    pub fn tiny() -> Self {
        Self {
            profile: Profile::Tiny,
            tcp: TcpOptions {
                address: Some(loopback(0)),
                connections_max: 4,
                idle_max: Duration::from_millis(200),
                lease_max: Duration::from_millis(100),
                receive_buffer_bytes: 4 * KIB,
                send_buffer_bytes: 4 * KIB,
                backlog_max: 8,
                ..TcpOptions::default()
            },
            http: HttpOptions {
                address: Some(loopback(0)),
                connections_max: 4,
                head_bytes_max: 1024,
                sessions_max: 4,
                session_idle_max: Duration::from_millis(200),
                events_max: 8,
                event_bytes_max: 8 * 1024,
                answer_max: Duration::from_millis(50),
                silence_max: Duration::from_millis(100),
                retry: Duration::from_millis(10),
                ..HttpOptions::default()
            },
            websocket: tiny_websocket(),
            stdio: StdioOptions { buffer_bytes: 512 },
            limits: LimitOptions {
                message_bytes_max: 4096,
                nesting_max: 8,
                requests_in_flight_max: 4,
                request_max: Duration::from_millis(500),
                question_max: Duration::from_millis(200),
                round_max: Duration::from_secs(2),
                outgoing_bytes_max: 8192,
                memory_bytes_max: 64 * 1024,
                tasks_max: 4,
                tasks_per_connection_max: 3,
                task_ttl: Duration::from_millis(500),
                task_ttl_max: Duration::from_secs(1),
                task_bytes_max: 4096,
                subscriptions_per_connection_max: 3,
                subscription_uris_max: 4,
                subscription_uri_bytes_max: 64,
                subscription_bytes_max: 16 * 1024,
            },
            engine: EngineOptions {
                shards: Some(1),
                ring_sizes: tiny_ring(),
                mesh: tiny_mesh(),
                drain_max: Duration::from_millis(500),
                blocking_threads: 1,
                blocking_queue_max: 2,
                ..EngineOptions::default()
            },
            service: ServiceOptions { demo: true, page_length_max: 2 },
            files: FileOptions {
                file_bytes_max: 1024,
                entries_max: 16,
                depth_max: 3,
                ..FileOptions::default()
            },
            log: LogOptions::default(),
        }
    }
}

/// Peers that are soon asked for a sign of life, and soon closed.
fn tiny_websocket() -> WebSocketOptions {
    WebSocketOptions {
        ping: Duration::from_millis(50),
        idle_max: Duration::from_millis(200),
        fragment_max: Duration::from_millis(100),
        frame_buffer_bytes_max: 4096,
        drain_max: Duration::from_millis(100),
        deflate_ratio_max: 10,
        ..WebSocketOptions::default()
    }
}

/// A ring that runs out of everything soon.
fn tiny_ring() -> RingOptions {
    RingOptions {
        sockets_max: 16,
        submissions_max: 8,
        completions_max: 16,
        receive_buffers: 4,
        receive_buffer_bytes: 256,
        burst_buffers_max: 2,
        accepts_in_flight: 2,
        ..RingOptions::default()
    }
}

/// A mesh that is full after a few letters.
fn tiny_mesh() -> MeshOptions {
    MeshOptions { lane_letters_max: 2, post_letters_max: 4, ..MeshOptions::default() }
}
