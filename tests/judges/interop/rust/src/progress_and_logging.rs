//! Progress and log messages.
//!
//! A legacy client sets the log level once (`logging/setLevel`), a modern one in each request.

use rmcp::model::{LoggingLevel, RequestMetaObject, SetLevelRequestParams};
use serde_json::{Value, json};

use crate::host::Host;
use crate::outcomes::{call, outcome};
use crate::server::{Client, Failure, Server};

const LOGGING: &str = "test_tool_with_logging";

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let mut results = json!({ "progress": progress(&client).await });
    for (name, level, count) in [("info", LoggingLevel::Info, 3), ("error", LoggingLevel::Error, 0)]
    {
        let mut request = call(LOGGING, json!({}));
        if server.is_legacy() {
            client.set_level(SetLevelRequestParams::new(level)).await?;
        } else {
            let mut meta = RequestMetaObject::default();
            meta.set_log_level(level);
            request.meta = Some(meta);
        }
        let mut result = outcome(client.call_tool(request).await);
        client.service().logs.wait_for(count, None).await;
        result["logs"] = client.service().logs.take().into();
        results[name] = result;
    }
    if !server.is_legacy() {
        let mut result = outcome(client.call_tool(call(LOGGING, json!({}))).await);
        result["logs"] = client.service().logs.take().into();
        results["no_level"] = result;
    }
    client.cancel().await?;
    Ok(results)
}

async fn progress(client: &Client) -> Value {
    let mut result = outcome(client.call_tool(call("test_tool_with_progress", json!({}))).await);
    result["reports"] = client.service().progress.take().into();
    result
}
