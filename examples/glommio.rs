//! A program that lives on glommio and serves MCP from its own executor: one shard as one task
//! among others, and a tool that reads files through glommio.
//!
//! `cargo run --release --example glommio`, then send it lines of JSON-RPC on the port it tells.

use std::error::Error;
use std::rc::Rc;

use corelane::engine::clock::Clock;
use corelane::engine::host::glommio::{Glommio, run_here};
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Registered, Ring, RingOptions, Source};
use corelane::link::listener::{self, ListenerOptions};
use corelane::observe::Transport;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Inlet, Server};
use corelane::service::{Catalog, HandlerError, Live, Outcome, Tool};
use glommio::io::BufferedFile;
use glommio::{LocalExecutorBuilder, Placement};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Size {
    /// Of which file.
    path: String,
}

/// The length of a file, asked through the executor's own ring: the shard goes on meanwhile.
async fn size(Size { path }: Size, _: Live) -> Result<Outcome, HandlerError> {
    let file = BufferedFile::open(&path).await.map_err(HandlerError::failed)?;
    let bytes = file.file_size().await.map_err(HandlerError::failed)?;
    file.close().await.map_err(HandlerError::failed)?;
    Ok(Outcome::text(format!("{bytes} bytes")))
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let tool = Tool::new("size").describe("Tells how long a file is.").local(size);
    let info = ServerInfo::new("example", env!("CARGO_PKG_VERSION"));
    let server = Server::new(Catalog::builder(info).tool(tool).build()?);
    let (seeds, _handle) = server.seeds(1)?;
    let socket = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    eprintln!("listening tcp {}", listener::local_address(&socket)?);

    let mut ring = UringRing::new(&RingOptions::default(), Clock::start())?;
    let Registered::Listener(listener) = ring.register(Source::Listener(socket))? else {
        return Err("a listener is registered as one".into());
    };
    let inlets = [Inlet::Listener { listener, transport: Transport::Tcp }];
    let host = Rc::new(Glommio::new());
    let seed = seeds.into_iter().next().ok_or("one shard was asked for")?;
    let mut shard = seed.build(ring, Rc::<Glommio>::clone(&host), &inlets)?;
    Ok(run_here(&mut shard, &host).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make()?;
    executor.run(serve())
}
