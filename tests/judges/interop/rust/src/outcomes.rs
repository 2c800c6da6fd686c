//! Shared by all features: outcomes as plain data, an event log.

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Returns the result or the error of a call.
pub(crate) fn outcome<R: Serialize>(outcome: Result<R, ServiceError>) -> Value {
    match outcome {
        Ok(result) => json!({ "result": wire(&result) }),
        Err(ServiceError::McpError(error)) => json!({ "error": wire(&error) }),
        Err(other) => json!({ "failure": other.to_string() }),
    }
}

/// Returns an SDK value in its wire form.
pub(crate) fn wire<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("an SDK value serializes")
}

/// Parameters of `tools/call`; `arguments` must be an object.
pub(crate) fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments: JsonObject = serde_json::from_value(arguments).expect("arguments are an object");
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

/// Received messages in order of arrival. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(watch::Sender<Vec<Value>>);

impl EventLog {
    pub(crate) fn add(&self, item: Value) {
        self.0.send_modify(|items| items.push(item));
    }

    pub(crate) fn take(&self) -> Vec<Value> {
        self.0.send_replace(Vec::new())
    }

    /// Waits for `count` items, or for `count` items equal to `wanted`.
    pub(crate) async fn wait_for(&self, count: usize, wanted: Option<&str>) {
        let is_wanted = |item: &&Value| wanted.is_none_or(|wanted| **item == *wanted);
        let is_enough = |items: &Vec<Value>| items.iter().filter(is_wanted).count() >= count;
        self.0.subscribe().wait_for(is_enough).await.expect("self holds the sender");
    }
}
