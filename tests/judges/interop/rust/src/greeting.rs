//! Lists and calls the tools of the servers `greeting_server`, one of which asks for a name.

use serde_json::{Value, json};

use crate::host::Host;
use crate::outcomes::{call, outcome, wire};
use crate::server::{Failure, Server};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::declared()).await?;
    let revision = client.peer_info().map(|info| wire(&info.protocol_version));
    let tools = client.list_all_tools().await?;
    let summary = json!({
        "revision": revision,
        "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "echo": outcome(client.call_tool(call("echo", json!({ "text": "ünï ☃" }))).await),
        "greet": outcome(client.call_tool(call("greet", json!({}))).await),
        "requests": client.service().requests.take(),
    });
    client.cancel().await?;
    Ok(summary)
}
