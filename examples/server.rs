//! A minimal server: two tools over HTTP, until SIGINT or SIGTERM.
//!
//! ```sh
//! cargo run --release --example server
//! ```
//!
//! A request and its response:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: greet' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "greet",
//!   "arguments": {"name": "Ada"},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "Hello, Ada!"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "example", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Name of the person to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Tea {
    /// Steeping time in minutes.
    minutes: u8,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Corelane logs with `tracing`: without a subscriber nothing is printed.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let greet = Tool::new("greet")
        .description("Greets a person.")
        .inline(|Greet { name }, _| format!("Hello, {name}!"));
    let tea = Tool::new("tea").description("Makes tea.").local(async |tea: Tea, ctx| {
        for minute in 1..=tea.minutes {
            ctx.sleep(Duration::from_mins(1)).await?;
            ctx.progress(minute.into(), Some(tea.minutes.into()), Some("steeping"));
        }
        Ok("Your tea is ready.")
    });
    let info = Implementation::new("example", "1.0.0");
    let catalog = Catalog::builder(info).tool(greet).tool(tea).build()?;
    Server::builder(catalog).http(address).serve()?;
    Ok(())
}
