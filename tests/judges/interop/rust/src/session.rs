//! A first session: server info, tools, successful and failing calls.

use rmcp::ServiceError;
use rmcp::model::{CallToolResult, ClientRequest, Request};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::host::Host;
use crate::outcomes::{call, wire};
use crate::server::{Client, Failure, Server};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let info = client.peer_info().ok_or("no server info")?;
    let tools = wire(&client.list_all_tools().await?);
    let each = |pointer: &str| -> Vec<Value> {
        let tools = tools.as_array().into_iter().flatten();
        tools.filter_map(|tool| tool.pointer(pointer).cloned()).collect()
    };
    let plain = async |tool, arguments| plain(client.call_tool(call(tool, arguments)).await);
    let summary = json!({
        "revision": wire(&info.protocol_version),
        "server": info.server_info.as_ref().map(|server| &server.name),
        "has_tools": info.capabilities.tools.is_some(),
        "tools": each("/name"),
        "schemas": each("/inputSchema/type"),
        "echo": plain("echo", json!({ "message": "ünï ☃ \n 𝄞" })).await,
        "add": plain("add", json!({ "a": 2, "b": 40 })).await,
        "slow": slow(&client, 5).await,
        "hash": plain("hash", json!({ "bytes": 65_536 })).await,
        "cancelled": cancelled(&client).await?,
        "unknown_tool": plain("unknown", json!({})).await,
        "bad_argument": plain("add", json!({ "a": "two", "b": 40 })).await,
        "afterwards": plain("echo", json!({ "message": "still here" })).await,
    });
    client.cancel().await?;
    Ok(summary)
}

/// Returns a tool result as plain data, or the error code of the call.
fn plain(outcome: Result<CallToolResult, ServiceError>) -> Value {
    let result = match outcome {
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

/// Calls `slow` and returns its result with the progress notifications.
async fn slow(client: &Client, steps: u32) -> Value {
    let arguments = json!({ "steps": steps, "step_ms": 20 });
    let mut summary = plain(client.call_tool(call("slow", arguments)).await);
    let reports = client.service().progress.take();
    summary["progress"] = reports.iter().map(|report| json!([report[0], report[1]])).collect();
    summary
}

/// Calls `slow` for a minute and cancels it after its first progress notification.
async fn cancelled(client: &Client) -> Result<bool, Failure> {
    let arguments = json!({ "steps": 1_000, "step_ms": 50 });
    let request = ClientRequest::CallToolRequest(Request::new(call("slow", arguments)));
    let options = PeerRequestOptions::no_options();
    let running = client.send_cancellable_request(request, options).await?;
    client.service().progress.wait_for(1, None).await;
    running.cancel(None).await?;
    Ok(true)
}
