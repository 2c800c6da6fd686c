//! A tool that calls another MCP server, over the ring of the shard that has received its request.
//!
//! ```sh
//! cargo run --release --example call_server
//! ```
//!
//! The other server is this one as well:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: introduce' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "introduce",
//!   "arguments": {"server": "http://127.0.0.1:8080/mcp", "name": "Ada"},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "It says: Hello, Ada!"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "host", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::sync::Arc;

use corelane::client::ClientPool;
use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, HandlerError, RequestContext, Server, Tool};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Introduce {
    /// The URL of the server.
    server: String,
    name: String,
}

async fn introduce(
    Introduce { server, name }: Introduce,
    ctx: RequestContext,
    pool: Arc<ClientPool>,
) -> Result<String, HandlerError> {
    // The first call connects this shard to the server.
    let call = pool.call_tool(server.as_str(), "greet", &json!({ "name": name }));
    // A client that cancels its request cancels the call too.
    let result = ctx.run_until_cancelled(call.into_future()).await?;
    // A failed call is logged; `HandlerError::tool` would let the model read why.
    Ok(format!("It says: {}", result?.text()))
}

fn catalog(pool: Arc<ClientPool>) -> Result<Catalog, CatalogError> {
    let greet = Tool::new("greet").inline(|Greet { name }, _| format!("Hello, {name}!"));
    let introduce = Tool::new("introduce")
        .description("Introduces a person to another server.")
        .local(move |args, ctx| introduce(args, ctx, Arc::clone(&pool)));
    Catalog::builder(Implementation::new("host", "1.0.0")).tool(greet).tool(introduce).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let pool = Arc::new(ClientPool::on_shards());
    Server::builder(catalog(Arc::clone(&pool))?).http(address).client_pool(&*pool).serve()?;
    Ok(())
}
