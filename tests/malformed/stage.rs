//! The stage of every test: a whole server with small rings, and how it ends.

use std::net::SocketAddr;
use std::time::Duration;

use corelane::Catalog;
use corelane::observe::counters::Counters;
use corelane::protocol::message::ServerInfo;
use corelane::server::Options;
use corelane::service::demo;

use crate::client::Client;
use crate::loopback::{self, Loopback};

/// A running server that offers the demo tools.
pub(crate) struct Stage {
    server: Loopback,
}

impl Stage {
    /// Starts a server.
    pub(crate) fn open(options: Options) -> Self {
        let catalog = demo::catalog(ServerInfo::new("malformed", "1.0.0")).expect("demo tools");
        Self::offering(options, catalog)
    }

    /// Starts a server that offers something else.
    pub(crate) fn offering(options: Options, catalog: Catalog) -> Self {
        Self { server: Loopback::start(catalog, options) }
    }

    /// A new connection that has said nothing.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// A new connection whose handshake agreed on `revision`.
    pub(crate) fn session(&self, revision: &str) -> Client {
        let mut client = self.connect();
        client.handshake(revision);
        client
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        self.server.handle().drain();
    }

    /// Drains and waits for the end.
    pub(crate) fn close(self) -> Counters {
        self.server.close()
    }
}

/// The small server, with time for its drain.
pub(crate) fn options() -> Options {
    let mut options = loopback::options();
    options.engine.drain_max = Duration::from_secs(5);
    options
}

/// Runs a test once over each ring.
pub(crate) fn over_each_ring(test: impl Fn(Options)) {
    loopback::over_each_ring(options, test);
}
