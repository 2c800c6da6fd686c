//! A first session: who the server is, its tools, calls that end well and calls that do not.

use rmcp::ServiceError;
use rmcp::model::{CallToolResult, ClientRequest, Request};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::host::Host;
use crate::server::{Client, Failure, Server};
use crate::told::{call, wire};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let info = client.peer_info().ok_or("the server told nothing of itself")?;
    let tools = wire(&client.list_all_tools().await?);
    let each = |pointer: &str| -> Vec<Value> {
        let tools = tools.as_array().into_iter().flatten();
        tools.filter_map(|tool| tool.pointer(pointer).cloned()).collect()
    };
    let told = async |tool, given| told(client.call_tool(call(tool, given)).await);
    let seen = json!({
        "revision": wire(&info.protocol_version),
        "server": info.server_info.as_ref().map(|server| &server.name),
        "has_tools": info.capabilities.tools.is_some(),
        "tools": each("/name"),
        "schemas": each("/inputSchema/type"),
        "echo": told("echo", json!({ "message": "ünï ☃ \n 𝄞" })).await,
        "add": told("add", json!({ "a": 2, "b": 40 })).await,
        "slow": slow(&client, 5).await,
        "hash": told("hash", json!({ "bytes": 65_536 })).await,
        "cancelled": cancelled(&client).await?,
        "unknown_tool": told("nobody", json!({})).await,
        "bad_argument": told("add", json!({ "a": "two", "b": 40 })).await,
        "afterwards": told("echo", json!({ "message": "still here" })).await,
    });
    client.cancel().await?;
    Ok(seen)
}

/// A tool result as plain data, or the code of the error that refused the call.
fn told(ended: Result<CallToolResult, ServiceError>) -> Value {
    let result = match ended {
        Ok(result) => wire(&result),
        Err(ServiceError::McpError(error)) => return json!({ "code": error.code }),
        Err(other) => return json!({ "failure": other.to_string() }),
    };
    let blocks = result["content"].as_array().into_iter().flatten();
    json!({
        "text": blocks.filter_map(|block| block.get("text")).collect::<Vec<_>>(),
        "structured": result["structuredContent"],
        "is_error": result["isError"] == true,
    })
}

/// Runs `slow` to its end; the progress that was reported comes back with the result.
async fn slow(client: &Client, steps: u32) -> Value {
    let arguments = json!({ "steps": steps, "step_ms": 20 });
    let mut seen = told(client.call_tool(call("slow", arguments)).await);
    let reports = client.service().progress.take();
    seen["progress"] = reports.iter().map(|report| json!([report[0], report[1]])).collect();
    seen
}

/// Starts a `slow` that would take a minute and walks away after its first progress.
async fn cancelled(client: &Client) -> Result<bool, Failure> {
    let arguments = json!({ "steps": 1_000, "step_ms": 50 });
    let request = ClientRequest::CallToolRequest(Request::new(call("slow", arguments)));
    let options = PeerRequestOptions::no_options();
    let running = client.send_cancellable_request(request, options).await?;
    client.service().progress.until(1, None).await;
    running.cancel(None).await?;
    Ok(true)
}
