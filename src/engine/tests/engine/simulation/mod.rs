//! The simulated ring, and the shard loop over it.

mod echo_driver;
mod network;
mod random_faults;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane_engine::ring::RingOptions;

/// Listening address of simulated servers.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8888);

/// Longer than any simulated run takes.
const MAX_RUN_TIME: Duration = Duration::from_mins(1);

/// Small sizes, so that runs reach the limits.
fn small_ring() -> RingOptions {
    RingOptions {
        sockets_max: 24,
        receive_buffers: 8,
        receive_buffer_bytes: 256,
        accepts_in_flight: 3,
        ..RingOptions::default()
    }
}
