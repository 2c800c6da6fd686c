//! The stage of every test: a whole server with small rings, and how it ends.

use std::net::SocketAddr;
use std::time::Duration;

use corelane::Catalog;
use corelane::engine::ring::RingOptions;
use corelane::observe::counters::Counters;
use corelane::protocol::message::ServerInfo;
use corelane::server::options::RingBackend;
use corelane::server::{Options, Running, Server};
use corelane::service::demo;

use crate::client::Client;

/// A running server that offers the demo tools.
pub(crate) struct Stage {
    running: Running,
    address: SocketAddr,
}

impl Stage {
    /// Starts a server.
    pub(crate) fn open(options: Options) -> Self {
        let catalog = demo::catalog(ServerInfo::new("malformed", "1.0.0")).expect("demo tools");
        Self::offering(options, catalog)
    }

    /// Starts a server that offers something else.
    pub(crate) fn offering(options: Options, catalog: Catalog) -> Self {
        let running = Server::new(catalog).options(options).start().expect("a server that starts");
        let (_, address) = running.addresses()[0];
        Self { running, address }
    }

    /// A new connection that has said nothing.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A new connection whose handshake agreed on `revision`.
    pub(crate) fn session(&self, revision: &str) -> Client {
        let mut client = self.connect();
        client.handshake(revision);
        client
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        self.running.handle().drain();
    }

    /// Drains and waits for the end. Every connection that was let in must be over by then.
    pub(crate) fn close(self) -> Counters {
        self.drain();
        let counters = self.running.join().expect("no shard panics, whatever it was sent");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        counters
    }
}

/// Default bounds, one shard, a free port, and a ring that fits many to a machine.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.http.address = None;
    options.engine.shards = Some(1);
    options.engine.drain_max = Duration::from_secs(5);
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

/// Runs a test once over each ring.
pub(crate) fn over_each_ring(test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Shown where the test fails.
        eprintln!("over {ring:?}");
        let mut options = options();
        options.engine.ring = ring;
        test(options);
    }
}
