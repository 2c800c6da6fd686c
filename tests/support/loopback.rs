//! A whole server for one test: on a free port of the loopback, with rings so small that many of
//! them fit on a machine.
//!
//! What it keeps true: no shard panics, and every connection that was let in is over when the
//! server is. What it offers, and who speaks to it, is the business of the stage that owns it. Use
//! it with `#[path = "../support/loopback.rs"] mod loopback;`.

use std::net::SocketAddr;

use corelane::Catalog;
use corelane::engine::ring::RingOptions;
use corelane::observe::counters::Counters;
use corelane::server::options::RingBackend;
use corelane::server::{Handle, Options, Running, Server};

/// A running server.
pub(crate) struct Loopback {
    running: Running,
    address: SocketAddr,
}

impl Loopback {
    /// Starts a server.
    pub(crate) fn start(catalog: Catalog, options: Options) -> Self {
        let running = Server::new(catalog).options(options).start().expect("a server that starts");
        let (_, address) = running.addresses()[0];
        Self { running, address }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What changes it while it runs.
    pub(crate) fn handle(&self) -> Handle {
        self.running.handle()
    }

    /// Waits for the end of a server that drains.
    pub(crate) fn join(self) -> Counters {
        let counters = self.running.join().expect("no shard panics, whatever it was sent");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        counters
    }

    /// Drains and waits for the end.
    pub(crate) fn close(self) -> Counters {
        self.handle().drain();
        self.join()
    }
}

/// Default bounds, one shard, a free port and small rings.
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

/// Runs a test once over each ring, with `options` but for that.
pub(crate) fn over_each_ring(options: impl Fn() -> Options, test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Shown where the test fails.
        eprintln!("over {ring:?}");
        let mut options = options();
        options.engine.ring = ring;
        test(options);
    }
}
