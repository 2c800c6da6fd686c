//! The conformance services in an axum router on a free port.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use corelane::internal::demo;
use corelane::model::Implementation;
use corelane::tower::McpService;
use corelane::{Catalog, Server};
use corelane_test_support::http_options;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A running axum server, until it is dropped.
pub(crate) struct MountedServer {
    address: SocketAddr,
    _runtime: Runtime,
}

impl MountedServer {
    pub(crate) fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let builder = Catalog::builder(Implementation::new("mounted", "1.0.0"));
        let catalog = demo::add_services(builder).build().expect("valid catalog");
        let mut options = http_options();
        options.engine.shards = Some(2);
        let service = McpService::new(Server::builder(catalog).options(options));
        let router = Router::new().nest_service("/mcp", service.expect("the server starts"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(listener).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        runtime.spawn(axum::serve(listener, router).into_future());
        Self { address, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}
