//! State of handlers: a value that all shards share, and a value of each shard.
//!
//! ```sh
//! cargo run --release --example state
//! ```
//!
//! The first request and its response:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: count' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "count",
//!   "arguments": {},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "call 1 of the server, call 1 of its shard"}],
//!   "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "counter", "version": "1.0.0"}}}}
//! ```

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, NoArguments, Server, Tool};

/// What one shard has counted. It stays on the thread of its shard, and needs no lock.
#[derive(Default)]
struct Shard {
    calls: Cell<u64>,
}

fn catalog(all_calls: Arc<AtomicU64>) -> Result<Catalog, CatalogError> {
    let count = Tool::new("count").description("Counts its calls.").state::<Shard>().inline(
        move |_: NoArguments, ctx| {
            let of_shard = ctx.state().calls.get() + 1;
            ctx.state().calls.set(of_shard);
            let of_server = all_calls.fetch_add(1, Ordering::Relaxed) + 1;
            format!("call {of_server} of the server, call {of_shard} of its shard")
        },
    );
    Catalog::builder(Implementation::new("counter", "1.0.0")).tool(count).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let all_calls = Arc::new(AtomicU64::new(0));
    let catalog = catalog(Arc::clone(&all_calls))?;
    Server::with_state(catalog, |_shard| Shard::default()).http(address).serve()?;
    eprintln!("{} calls", all_calls.load(Ordering::Relaxed));
    Ok(())
}
