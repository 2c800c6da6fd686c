//! A running Corelane with its demo services, on free ports, in the process of the test.

use std::net::SocketAddr;

use corelane::observe::label::Transport;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Options, Running, Server};
use corelane::service::{Catalog, Live, NoArguments, Outcome, Tool, demo};

/// A running Corelane; it is drained when it goes.
pub(crate) struct Stage {
    running: Option<Running>,
    /// Where it hears lines.
    pub(crate) tcp: SocketAddr,
    /// Where it hears HTTP, and upgrades to WebSocket.
    pub(crate) http: SocketAddr,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let mut options = Options::default();
        options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.engine.shards = Some(1);
        let catalog = demo::offer(Catalog::builder(ServerInfo::new("load", "1"))).tool(touch());
        let catalog = catalog.build().unwrap();
        let running = Server::new(catalog).options(options).start().unwrap();
        let address = |door| {
            let all = running.addresses();
            all.iter().find(|(transport, _)| *transport == door).unwrap().1
        };
        let (tcp, http) = (address(Transport::Tcp), address(Transport::Http));
        Self { running: Some(running), tcp, http }
    }
}

/// Tells those that subscribed to the demo's watched resource that it has changed.
fn touch() -> Tool {
    Tool::new("touch").local(|_: NoArguments, live: Live| async move {
        live.updated("test://watched-resource");
        Ok(Outcome::text("touched"))
    })
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.handle().drain();
            running.join().unwrap();
        }
    }
}
