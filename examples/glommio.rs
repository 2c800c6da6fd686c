//! Embeds Corelane in a glommio program: one shard runs as a task of the program's executor, and a
//! tool reads files through glommio.
//!
//! ```sh
//! cargo run --release --example glommio
//! ```
//!
//! A request and its response:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: size' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "size",
//!   "arguments": {"path": "/dev/null"},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "0 bytes"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "example", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::rc::Rc;

use corelane::internal::{ListenerOptions, ShardInput, listener};
use corelane::model::Implementation;
use corelane::{CallToolResult, Catalog, HandlerError, RequestContext, Server, Tool, Transport};
use corelane_engine::clock::Clock;
use corelane_engine::executor::glommio::{GlommioExecutor, run_shard_cooperatively};
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Registered, Ring, RingOptions, Source};
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
    let info = Implementation::new("example", "1.0.0");
    let server = Server::builder(Catalog::builder(info).tool(tool).build()?);
    let (builders, _handle) = server.shard_builders(1)?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let socket = listener::listen(address.parse()?, &ListenerOptions::default())?;
    eprintln!("listening http {}", listener::local_address(&socket)?);

    let mut ring = UringRing::new(&RingOptions::default(), Clock::start())?;
    let Registered::Listener(listener) = ring.register(Source::Listener(socket))? else {
        return Err("registering a listener returned a socket".into());
    };
    let inputs = [ShardInput::Listener { listener, transport: Transport::Http }];
    let executor = Rc::new(GlommioExecutor::new());
    let builder = builders.into_iter().next().ok_or("the server has no shard")?;
    let mut shard = builder.build(ring, Rc::<GlommioExecutor>::clone(&executor), &inputs)?;
    Ok(run_shard_cooperatively(&mut shard, &executor).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make()?;
    executor.run(serve())
}
