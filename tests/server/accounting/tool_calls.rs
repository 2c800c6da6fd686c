//! Calls of tools by a client of the modern protocol version.

use corelane::{Catalog, Options, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{call, modern};
use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

/// Starts a server with `tools`.
pub(crate) fn start_server(options: Options, tools: impl IntoIterator<Item = Tool>) -> TestServer {
    let catalog = Catalog::builder(Implementation::new("accounting", "1")).tools(tools);
    TestServer::with_catalog(options, catalog.build().unwrap())
}

/// A call of `tool` without arguments.
pub(crate) fn tool_call(tool: &str) -> Value {
    modern(call(tool, tool, json!({})))
}

/// Calls `tool` and returns the response.
pub(crate) fn call_tool(client: &mut LineClient, tool: &str) -> Value {
    let response = client.exchange(tool_call(tool));
    assert_eq!(response["id"], tool, "{response}");
    response
}

/// Calls `tool`; returns the next message, or `None` if the connection is closed.
pub(crate) fn try_call_tool(client: &mut LineClient, tool: &str) -> Option<Value> {
    client.try_send(tool_call(tool)).ok()?;
    serde_json::from_str(&client.receive_line_or_reset()?).ok()
}
