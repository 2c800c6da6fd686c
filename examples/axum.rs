//! MCP in an axum program, beside its other routes, with graceful shutdown.
//!
//! ```sh
//! cargo run --release --example axum --features tower
//! ```
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: tea' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "tea",
//!   "arguments": {"seconds": 0},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "Your tea is ready."}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "kitchen", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use corelane::model::Implementation;
use corelane::tower::McpService;
use corelane::{Catalog, Options, Server, Tool};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Tea {
    /// Steeping time in seconds.
    seconds: u8,
}

fn mcp_service() -> Result<McpService, Box<dyn Error>> {
    // Runs on the runtime of the program, as its other code does.
    let tea = Tool::new("tea").description("Makes tea.").tokio(async |tea: Tea, ctx| {
        for second in 1..=tea.seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ctx.progress(second.into(), Some(tea.seconds.into()), Some("steeping"));
        }
        "Your tea is ready."
    });
    let catalog = Catalog::builder(Implementation::new("kitchen", "1.0.0")).tool(tea).build()?;
    let mut options = Options::default();
    // The names under which clients reach this program.
    options.http.hosts = vec!["localhost".into(), "127.0.0.1".into(), "mcp.example.com".into()];
    Ok(McpService::new(Server::builder(catalog).options(options))?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let service = mcp_service()?;
    let server = service.handle();
    let router =
        Router::new().route("/", get(|| async { "MCP is at /mcp" })).nest_service("/mcp", service);
    let listener = TcpListener::bind(address).await?;
    eprintln!("listening http {}", listener.local_addr()?);
    axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                // Ends event streams, which axum would wait for.
                server.drain();
            }
        })
        .await?;
    Ok(())
}
