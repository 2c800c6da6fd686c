//! Embeds Corelane in a glommio program: one shard runs as a task of the program's executor, and a
//! tool reads files through glommio.
//!
//! Run `cargo run --release --example glommio`, then send newline-delimited JSON-RPC to the printed
//! port.

use std::error::Error;
use std::rc::Rc;

use corelane::connection::listener::{self, ListenerOptions};
use corelane::engine::clock::Clock;
use corelane::engine::executor::glommio::{GlommioExecutor, run_shard_cooperatively};
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Registered, Ring, RingOptions, Source};
use corelane::model::Implementation;
use corelane::server::ShardInput;
use corelane::{CallToolResult, Catalog, HandlerError, RequestContext, Server, Tool, Transport};
use glommio::io::BufferedFile;
use glommio::{LocalExecutorBuilder, Placement};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Size {
    /// Path of the file.
    path: String,
}

/// Returns the length of a file without blocking the shard.
async fn size(Size { path }: Size, _: RequestContext) -> Result<CallToolResult, HandlerError> {
    let file = BufferedFile::open(&path).await.map_err(HandlerError::tool)?;
    let bytes = file.file_size().await.map_err(HandlerError::tool)?;
    file.close().await.map_err(HandlerError::tool)?;
    Ok(CallToolResult::text(format!("{bytes} bytes")))
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let tool = Tool::new("size").description("Returns the size of a file in bytes.").local(size);
    let info = Implementation::new("example", env!("CARGO_PKG_VERSION"));
    let server = Server::builder(Catalog::builder(info).tool(tool).build()?);
    let (builders, _handle) = server.shard_builders(1)?;
    let socket = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    eprintln!("listening tcp {}", listener::local_address(&socket)?);

    let mut ring = UringRing::new(&RingOptions::default(), Clock::start())?;
    let Registered::Listener(listener) = ring.register(Source::Listener(socket))? else {
        return Err("registering a listener returned a socket".into());
    };
    let inputs = [ShardInput::Listener { listener, transport: Transport::Tcp }];
    let executor = Rc::new(GlommioExecutor::new());
    let builder = builders.into_iter().next().ok_or("the server has no shard")?;
    let mut shard = builder.build(ring, Rc::<GlommioExecutor>::clone(&executor), &inputs)?;
    Ok(run_shard_cooperatively(&mut shard, &executor).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make()?;
    executor.run(serve())
}
