//! A server on a free port of 127.0.0.1, with rings so small that many fit on a machine.
//!
//! Checks when it ends: no shard panicked, and every accepted connection was closed. Include it
//! with `#[path = "../support/loopback.rs"] mod loopback;`.

use std::net::SocketAddr;

use corelane::Catalog;
use corelane::engine::ring::RingOptions;
use corelane::server::options::RingBackend;
use corelane::server::{Handle, Options, Running, Server};
use corelane::telemetry::counters::Counters;

/// A running server.
pub(crate) struct Loopback {
    running: Running,
    address: SocketAddr,
}

impl Loopback {
    pub(crate) fn start(catalog: Catalog, options: Options) -> Self {
        let running = Server::new(catalog).options(options).start().expect("server starts");
        let (_, address) = running.addresses()[0];
        Self { running, address }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the handle that changes the server while it runs.
    pub(crate) fn handle(&self) -> Handle {
        self.running.handle()
    }

    /// Waits until a draining server has stopped and returns its counters.
    pub(crate) fn join(self) -> Counters {
        let counters = self.running.join().expect("no shard panics");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        counters
    }

    /// Drains the server, waits until it has stopped and returns its counters.
    pub(crate) fn close(self) -> Counters {
        self.handle().drain();
        self.join()
    }
}

/// Default options but for one shard, a free port and small rings.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.http.address = None;
    options.engine.shards = Some(1);
    options.engine.ring_sizes = RingOptions {
        sockets_max: 256,
        submissions_max: 256,
        completions_max: 1024,
        receive_buffers: 64,
        receive_buffer_bytes: 4096,
        ..RingOptions::default()
    };
    options
}

/// Runs `test` once with each ring backend, otherwise with `options`.
pub(crate) fn over_each_ring(options: impl Fn() -> Options, test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Shown for a failed test.
        eprintln!("ring {ring:?}");
        let mut options = options();
        options.engine.ring = ring;
        test(options);
    }
}
