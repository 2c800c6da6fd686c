//! A tool that awaits a library of tokio: the HTTP client reqwest.
//!
//! ```sh
//! cargo run --release --example http_client --features tokio
//! ```
//!
//! The server fetches its own health endpoint:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: fetch' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "fetch",
//!   "arguments": {"url": "http://127.0.0.1:8080/healthz"},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "200 OK: ok\n"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fetcher", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Fetch {
    /// The URL to fetch.
    url: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    // One client for all calls: it keeps connections. A clone of it is cheap.
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let fetch =
        Tool::new("fetch").description("Fetches a web page.").tokio(move |Fetch { url }, _| {
            let client = client.clone();
            async move {
                // A failed request is logged; the model reads "tool failed (request 1)".
                let response = client.get(url).send().await?;
                Ok(format!("{}: {}", response.status(), response.text().await?))
            }
        });
    let catalog = Catalog::builder(Implementation::new("fetcher", "1.0.0")).tool(fetch).build()?;
    let runtime = tokio::runtime::Runtime::new()?;
    Server::builder(catalog).http(address).tokio(runtime.handle().clone()).serve()?;
    Ok(())
}
