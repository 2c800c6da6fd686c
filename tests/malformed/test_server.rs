//! The server under test, with small rings.

use std::net::SocketAddr;
use std::time::Duration;

use corelane::Catalog;
use corelane::protocol::model::Implementation;
use corelane::server::Options;
use corelane::service::demo;
use corelane::telemetry::counters::Counters;

use crate::client::TestClient;
use crate::loopback::{self, Loopback};

/// A running server with the demo tools.
pub(crate) struct TestServer {
    server: Loopback,
}

impl TestServer {
    pub(crate) fn start(options: Options) -> Self {
        let catalog = demo::catalog(Implementation::new("malformed", "1.0.0"))
            .expect("demo catalog is valid");
        Self::start_with_catalog(options, catalog)
    }

    /// Starts a server with another catalog.
    pub(crate) fn start_with_catalog(options: Options, catalog: Catalog) -> Self {
        Self { server: Loopback::start(catalog, options) }
    }

    /// Connects without sending anything.
    pub(crate) fn connect(&self) -> TestClient {
        TestClient::connect(self.address())
    }

    /// Connects and completes the handshake with protocol version `revision`.
    pub(crate) fn connect_initialized(&self, revision: &str) -> TestClient {
        let mut client = self.connect();
        client.handshake(revision);
        client
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Starts the drain without waiting for it.
    pub(crate) fn drain(&self) {
        self.server.handle().drain();
    }

    /// Drains the server and returns its counters once it has stopped.
    pub(crate) fn stop(self) -> Counters {
        self.server.close()
    }
}

/// Options of a small server with five seconds for its drain.
pub(crate) fn options() -> Options {
    let mut options = loopback::options();
    options.engine.drain_timeout = Duration::from_secs(5);
    options
}

/// Runs a test once with each ring backend.
pub(crate) fn over_each_ring(test: impl Fn(Options)) {
    loopback::over_each_ring(options, test);
}
