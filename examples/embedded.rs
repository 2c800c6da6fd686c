//! A server in a program of tokio, which stops it without losing requests.
//!
//! ```sh
//! cargo run --release --example embedded --features tokio
//! ```
//!
//! Press Ctrl-C while this call runs: it still gets its response.
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: wait' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "wait",
//!   "arguments": {"milliseconds": 100},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "waited for 100 ms"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "waiter", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, Options, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    /// Time to wait.
    milliseconds: u16,
}

fn catalog() -> Result<Catalog, CatalogError> {
    // Dropped at its next `await` if the call is cancelled.
    let wait = Tool::new("wait").description("Waits.").tokio(async |Wait { milliseconds }, _| {
        tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
        format!("waited for {milliseconds} ms")
    });
    Catalog::builder(Implementation::new("waiter", "1.0.0")).tool(wait).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let mut options = Options::default();
    options.engine.shards = Some(1);
    // Returns when the server listens. Tokio handlers run on the runtime of this function.
    let mut running = Server::builder(catalog()?).options(options).http(address).start()?;
    for (transport, address) in running.addresses() {
        eprintln!("listening {} {address}", transport.as_str());
    }

    let counters = tokio::select! {
        // A shard has failed, or another part of the program has called `Handle::drain`.
        ended = running.wait() => ended?,
        signal = tokio::signal::ctrl_c() => {
            signal?;
            // Requests in flight complete within this time; later ones get an error to retry.
            running.shutdown(Duration::from_secs(10)).await?
        }
    };
    eprintln!("served {} calls", counters.requests.tools_call);
    Ok(())
}
