//! `Mounted`: axum on a free port with an `McpService` at `/mcp`.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use corelane::tower::McpService;
use corelane_test_support::HttpClient;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running axum server. Dropping it ends its connections.
pub(crate) struct Mounted {
    pub(crate) address: SocketAddr,
    runtime: Runtime,
    server: JoinHandle<std::io::Result<()>>,
    shutdown: oneshot::Sender<()>,
}

impl Mounted {
    /// Mounts the service that `service` returns, which is called within the runtime.
    pub(crate) fn start(service: impl FnOnce() -> McpService) -> Self {
        Self::serve(|| Router::new().nest_service("/mcp", service()))
    }

    /// Serves the router that `router` returns, which is called within the runtime.
    pub(crate) fn serve(router: impl FnOnce() -> Router) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(listener).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (shutdown, requested) = oneshot::channel::<()>();
        let entered = runtime.enter();
        let router = router();
        drop(entered);
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // Pending forever if the test drops the sender.
            if requested.await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        let server = runtime.spawn(server.into_future());
        Self { address, runtime, server, shutdown }
    }

    pub(crate) fn connect(&self) -> HttpClient {
        HttpClient::connect(self.address)
    }

    /// Requests a graceful shutdown and waits until no connection is left.
    pub(crate) fn shut_down(self) {
        self.shutdown.send(()).expect("the server runs");
        let ended = self.runtime.block_on(self.server).expect("the server does not panic");
        ended.expect("the listener does not fail");
    }
}
