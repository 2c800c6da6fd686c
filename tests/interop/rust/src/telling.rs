//! Progress and log messages.
//!
//! A legacy client names a level once (`logging/setLevel`); a modern one names it in each request.

use rmcp::model::{LoggingLevel, RequestMetaObject, SetLevelRequestParams};
use serde_json::{Value, json};

use crate::host::Host;
use crate::server::{Client, Failure, Server};
use crate::told::{call, outcome};

const LOGGING: &str = "test_tool_with_logging";

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let mut seen = json!({ "progress": progress(&client).await });
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
        let mut ended = outcome(client.call_tool(request).await);
        client.service().logs.until(count, None).await;
        ended["logs"] = client.service().logs.take().into();
        seen[name] = ended;
    }
    if !server.is_legacy() {
        let mut ended = outcome(client.call_tool(call(LOGGING, json!({}))).await);
        ended["logs"] = client.service().logs.take().into();
        seen["unasked"] = ended;
    }
    client.cancel().await?;
    Ok(seen)
}

async fn progress(client: &Client) -> Value {
    let mut ended = outcome(client.call_tool(call("test_tool_with_progress", json!({}))).await);
    ended["reports"] = client.service().progress.take().into();
    ended
}
