//! The simulated ring, and the real shard loop over it.

mod echo;
mod network;
mod swarm;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane::engine::ring::RingOptions;

/// Where simulated servers listen.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8888);

/// Longer than anything in a simulated world takes.
const LONG: Duration = Duration::from_mins(1);

/// Small sizes: limits are met within a run.
fn small() -> RingOptions {
    RingOptions {
        sockets_max: 24,
        receive_buffers: 8,
        receive_buffer_bytes: 256,
        accepts_in_flight: 3,
        ..RingOptions::default()
    }
}
