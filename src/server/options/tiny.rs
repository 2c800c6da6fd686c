//! The profile for tests, with small limits.
//!
//! Invariants: each limit is below that of the standard profile, unless it is off there; listeners
//! take free ports.

use std::time::Duration;

use super::{
    AdminOptions, AuthOptions, BreakerOptions, EngineOptions, FileOptions, HttpOptions, KIB,
    LimitOptions, ListenerTlsOptions, MemoryGuardOptions, Options, OverloadOptions, ParityOptions,
    ParityTimeouts, Profile, RateOptions, ServiceOptions, StdioOptions, TcpOptions,
    WebSocketOptions, loopback,
};
use crate::engine::mesh::MeshOptions;
use crate::engine::ring::RingOptions;

impl Options {
    /// Returns options with limits that a test reaches in microseconds.
    pub fn tiny() -> Self {
        Self {
            profile: Profile::Tiny,
            tcp: TcpOptions {
                address: Some(loopback(0)),
                connections_max: 4,
                idle_timeout: Duration::from_millis(200),
                first_message_timeout: Duration::from_millis(100),
                receive_buffer_bytes: 4 * KIB,
                send_buffer_bytes: 4 * KIB,
                backlog_max: 8,
                ..TcpOptions::default()
            },
            http: tiny_http(),
            admin: AdminOptions::default(),
            websocket: tiny_websocket(),
            tls: tiny_tls(),
            auth: tiny_auth(),
            overload: tiny_overload(),
            rate: RateOptions { keys_max: 64, ..RateOptions::default() },
            parity: tiny_parity(),
            stdio: StdioOptions { buffer_bytes: 512, ..StdioOptions::default() },
            limits: LimitOptions {
                message_bytes_max: 4096,
                nesting_max: 8,
                requests_in_flight_max: 4,
                request_timeout: Duration::from_millis(500),
                client_request_timeout: Duration::from_millis(200),
                request_state_ttl: Duration::from_secs(2),
                outgoing_bytes_max: 8192,
                memory_bytes_max: 64 * 1024,
                address_share_percent: 75,
                tasks_max: 4,
                tasks_per_connection_max: 3,
                task_ttl: Duration::from_millis(500),
                task_ttl_max: Duration::from_secs(1),
                task_bytes_max: 4096,
                subscriptions_per_connection_max: 3,
                subscription_uris_max: 4,
                subscription_uri_bytes_max: 64,
                subscription_bytes_max: 8 * 1024,
            },
            engine: EngineOptions {
                shards: Some(1),
                ring_sizes: tiny_ring(),
                mesh: tiny_mesh(),
                drain_timeout: Duration::from_millis(500),
                blocking_threads: 1,
                blocking_queue_max: 2,
                ..EngineOptions::default()
            },
            service: ServiceOptions { page_size: 2, ..ServiceOptions::default() },
            files: FileOptions {
                file_bytes_max: 1024,
                entries_max: 16,
                depth_max: 3,
                ..FileOptions::default()
            },
            ..Self::default()
        }
    }
}

fn tiny_parity() -> ParityOptions {
    ParityOptions {
        timeouts: ParityTimeouts {
            handshake: Duration::from_millis(100),
            capabilities: Duration::from_millis(100),
            keepalive: Duration::from_millis(100),
            sse_keepalive: Duration::from_millis(100),
            idle: Duration::from_millis(200),
            ..ParityTimeouts::default()
        },
        concurrent_max: 4,
        resume_window_chunks: 8,
        resume_window_bytes: 4096,
        resume_window: Duration::from_millis(500),
        streams_max: 3,
        idempotency_keys_max: 4,
        ..ParityOptions::default()
    }
}

/// Short waits and few probes; everything is off as in the standard options.
fn tiny_overload() -> OverloadOptions {
    OverloadOptions {
        breaker: BreakerOptions {
            slow_after: Duration::from_millis(50),
            window: Duration::from_millis(500),
            calls_min: 4,
            wait: Duration::from_millis(100),
            wait_max: Duration::from_secs(1),
            probes_max: 1,
            ..BreakerOptions::default()
        },
        memory: MemoryGuardOptions { message_bytes_max: 1024, ..MemoryGuardOptions::default() },
        ..OverloadOptions::default()
    }
}

fn tiny_http() -> HttpOptions {
    HttpOptions {
        address: Some(loopback(0)),
        connections_max: 4,
        head_bytes_max: 1024,
        sessions_max: 4,
        session_idle_timeout: Duration::from_millis(200),
        replay_events_max: 8,
        replay_bytes_max: 8 * 1024,
        sse_start_delay: Duration::from_millis(50),
        sse_keepalive_interval: Duration::from_millis(100),
        sse_retry: Duration::from_millis(10),
        ..HttpOptions::default()
    }
}

/// Short ping intervals and timeouts.
fn tiny_websocket() -> WebSocketOptions {
    WebSocketOptions {
        connections_max: 4,
        ping_interval: Duration::from_millis(50),
        idle_timeout: Duration::from_millis(200),
        first_message_timeout: Duration::from_millis(100),
        fragment_timeout: Duration::from_millis(100),
        outgoing_bytes_max: 4096,
        send_timeout: Duration::from_millis(100),
        deflate_ratio_max: 10,
        ..WebSocketOptions::default()
    }
}

/// A ring with few slots and buffers.
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

/// A mesh with short queues.
fn tiny_mesh() -> MeshOptions {
    MeshOptions { channel_messages_max: 2, inbox_messages_max: 4, ..MeshOptions::default() }
}

fn tiny_auth() -> AuthOptions {
    AuthOptions {
        verified_tokens_max: 4,
        checks_per_turn_max: 2,
        introspections_max: 8,
        dpop_proofs_max: 64,
        check_interval: Duration::ZERO,
        ..AuthOptions::default()
    }
}

fn tiny_tls() -> ListenerTlsOptions {
    ListenerTlsOptions {
        handshake_timeout: Duration::from_millis(200),
        handshakes_max: 4,
        handshakes_per_address_max: 3,
        check_interval: Duration::from_millis(100),
        ..ListenerTlsOptions::default()
    }
}
