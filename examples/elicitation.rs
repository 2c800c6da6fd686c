//! Elicitation: one tool handler that asks the user, for clients of every protocol revision.
//!
//! ```sh
//! cargo run --release --example elicitation
//! ```
//!
//! A client of MCP 2026-07-28 gets the form as the result of its call:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: order' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "order",
//!   "arguments": {"dish": "soup"},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "inputRequests": {
//!   "details": {"method": "elicitation/create", "params": {"mode": "form", "message": "soup",
//!   "requestedSchema": {"type": "object", "properties": {
//!     "count": {"type": "integer", "title": "How many?", "minimum": 1, "maximum": 20},
//!     "size": {"type": "string", "enum": ["small", "large"], "default": "small"}},
//!   "required": ["count"]}}}}, "requestState": "…",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "kitchen", "version": "1.0.0"}}}}
//! ```
//!
//! It sends the call again, with the answer of the user and the state from that result:
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: order' -d '{"jsonrpc": "2.0", "id": 2,
//!   "method": "tools/call", "params": {"name": "order",
//!   "arguments": {"dish": "soup"},
//!   "requestState": "…", "inputResponses": {"details": {"action": "accept",
//!   "content": {"count": 2, "size": "large"}}},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 2, "result": {
//!   "content": [{"type": "text", "text": "2 large soup ordered"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "kitchen", "version": "1.0.0"}}}}
//! ```
//!
//! An older client gets the same form in a request of the server, `elicitation/create`.

use std::error::Error;

use corelane::model::{ElicitAction, ElicitRequest, Field, Form, Implementation};
use corelane::{Catalog, HandlerError, RequestContext, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What to order.
    dish: String,
}

async fn order(Order { dish }: Order, ctx: RequestContext) -> Result<String, HandlerError> {
    let form = Form::new()
        .field(Field::integer("count").title("How many?").bounds(1, 20).required())
        .field(Field::single_select("size", ["small", "large"]).default("small"));
    // When a client of MCP 2026-07-28 sends the call again, the handler runs from its start: side
    // effects belong after the last elicitation.
    let answer = ctx.elicit("details", ElicitRequest::form(dish.clone(), form)).await?;
    Ok(match answer.action {
        ElicitAction::Accept => {
            let size = answer.content["size"].as_str().unwrap_or("small");
            format!("{} {size} {dish} ordered", answer.content["count"])
        }
        ElicitAction::Decline | ElicitAction::Cancel => "nothing ordered".to_owned(),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let order = Tool::new("order").description("Orders a dish.").local(order);
    let catalog = Catalog::builder(Implementation::new("kitchen", "1.0.0")).tool(order).build()?;
    Server::builder(catalog).http(address).serve()?;
    Ok(())
}
