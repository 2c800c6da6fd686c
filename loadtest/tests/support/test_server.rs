//! A Corelane server with the demo services on free ports, in the test process.

use std::net::SocketAddr;

use corelane::protocol::model::Implementation;
use corelane::server::{Options, Running, Server};
use corelane::service::{CallToolResult, Catalog, NoArguments, RequestContext, Tool, demo};
use corelane::telemetry::label::Transport;

/// A running server, drained on drop.
pub(crate) struct TestServer {
    running: Option<Running>,
    /// Address of the TCP listener.
    pub(crate) tcp: SocketAddr,
    /// Address of the HTTP and WebSocket listener.
    pub(crate) http: SocketAddr,
}

impl TestServer {
    pub(crate) fn new() -> Self {
        let mut options = Options::default();
        options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.engine.shards = Some(1);
        let catalog =
            demo::add_services(Catalog::builder(Implementation::new("load", "1"))).tool(touch());
        let catalog = catalog.build().unwrap();
        let running = Server::new(catalog).options(options).start().unwrap();
        let address = |wanted| {
            let all = running.addresses();
            all.iter().find(|(transport, _)| *transport == wanted).unwrap().1
        };
        let (tcp, http) = (address(Transport::Tcp), address(Transport::Http));
        Self { running: Some(running), tcp, http }
    }
}

/// Returns a tool that notifies of an update of the demo's watched resource.
fn touch() -> Tool {
    Tool::new("touch").local(|_: NoArguments, live: RequestContext| async move {
        live.notify_resource_updated("test://watched-resource");
        Ok(CallToolResult::text("touched"))
    })
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.handle().drain();
            running.join().unwrap();
        }
    }
}
