//! What the features share: outcomes as plain data, and what was heard unasked.

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

/// What a call ends in: its result, or the error that refuses it.
pub(crate) fn outcome<R: Serialize>(ended: Result<R, ServiceError>) -> Value {
    match ended {
        Ok(result) => json!({ "result": wire(&result) }),
        Err(ServiceError::McpError(error)) => json!({ "error": wire(&error) }),
        Err(other) => json!({ "failure": other.to_string() }),
    }
}

/// A value of the SDK as it stands on the wire.
pub(crate) fn wire<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("what was read from JSON can be written as JSON")
}

/// A call of a tool with these arguments, an object.
pub(crate) fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments: JsonObject = serde_json::from_value(arguments).expect("arguments are an object");
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

/// What was said, in the order of its arrival. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(watch::Sender<Vec<Value>>);

impl Heard {
    pub(crate) fn add(&self, item: Value) {
        self.0.send_modify(|items| items.push(item));
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Vec<Value> {
        self.0.send_replace(Vec::new())
    }

    /// Waits for so many items, or for so many of this one.
    pub(crate) async fn until(&self, count: usize, wanted: Option<&str>) {
        let is_wanted = |item: &&Value| wanted.is_none_or(|wanted| **item == *wanted);
        let is_enough = |items: &Vec<Value>| items.iter().filter(is_wanted).count() >= count;
        self.0.subscribe().wait_for(is_enough).await.expect("the list outlives this borrow of it");
    }
}
