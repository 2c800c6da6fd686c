//! A tool with its tests, which call it without sockets.
//!
//! ```sh
//! cargo test --example own_tests
//! cargo run --release --example own_tests
//! ```
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: order' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "order",
//!   "arguments": {"cups": 0},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "cups is 0: order at least one"}],
//!   "isError": true, "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tea", "version": "1.0.0"}}}}
//! ```

use std::time::Duration;

use corelane::model::{ElicitAction, ElicitRequest, Field, Form, Implementation};
use corelane::{Catalog, CatalogError, HandlerError, RequestContext, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Number of cups.
    cups: u8,
}

/// Asks for the kind of tea, then reports one step of progress for each cup.
async fn order(Order { cups }: Order, ctx: RequestContext) -> Result<String, HandlerError> {
    if cups == 0 {
        return Err(HandlerError::tool("cups is 0: order at least one"));
    }
    let form = Form::new().field(Field::text("tea").required());
    let answer = ctx.elicit("tea", ElicitRequest::form("Which tea?", form)).await?;
    if answer.action != ElicitAction::Accept {
        return Ok("Nothing was ordered.".to_owned());
    }
    for cup in 1..=cups {
        ctx.sleep(Duration::from_millis(1)).await?;
        ctx.progress(cup.into(), Some(cups.into()), None);
    }
    Ok(format!("{cups} x {}", answer.content["tea"].as_str().unwrap_or("tea")))
}

fn catalog() -> Result<Catalog, CatalogError> {
    let order = Tool::new("order").description("Orders tea.").local(order);
    Catalog::builder(Implementation::new("tea", "1.0.0")).tool(order).build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    Server::builder(catalog()?).http(address).serve()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use corelane::testing::{TestServer, block_on};
    use serde_json::json;

    use super::catalog;

    fn server() -> TestServer {
        TestServer::new(catalog().expect("the catalog is valid")).expect("the server starts")
    }

    #[test]
    fn accepted_order_reports_progress_per_cup() {
        let server =
            server().on_elicitation(|_| json!({"action": "accept", "content": {"tea": "oolong"}}));
        let result = block_on(server.call_tool("order", json!({"cups": 2}))).expect("a result");
        assert_eq!(result.text(), "2 x oolong");
        assert_eq!(result.progress().len(), 2);
    }

    #[test]
    fn declined_order_is_not_an_error() {
        let server = server().on_elicitation(|_| json!({"action": "decline"}));
        let result = block_on(server.call_tool("order", json!({"cups": 1}))).expect("a result");
        assert_eq!(result.text(), "Nothing was ordered.");
    }

    #[test]
    fn order_of_no_cups_is_tool_error() {
        let server = server();
        let result = block_on(server.call_tool("order", json!({"cups": 0}))).expect("a result");
        assert!(result.is_error());
        assert_eq!(result.text(), "cups is 0: order at least one");
    }

    #[test]
    fn order_of_text_names_the_argument() {
        let server = server();
        let result = block_on(server.call_tool("order", json!({"cups": "two"}))).expect("a result");
        assert!(result.is_error());
        assert!(result.text().contains("cups"), "{}", result.text());
    }
}
