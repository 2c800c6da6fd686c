//! What the features share: outcomes as plain data, and what was heard unasked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

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
pub(crate) struct Heard {
    items: Arc<Mutex<Vec<Value>>>,
    grown: Arc<Notify>,
}

impl Heard {
    pub(crate) fn add(&self, item: Value) {
        self.items().push(item);
        self.grown.notify_waiters();
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.items())
    }

    /// Waits for so many items, or for so many of this one.
    pub(crate) async fn until(&self, count: usize, wanted: Option<&str>) {
        loop {
            // Listening begins before the look, so that nothing falls in between.
            let grown = self.grown.notified();
            let is_wanted = |item: &&Value| wanted.is_none_or(|wanted| **item == *wanted);
            if self.items().iter().filter(is_wanted).count() >= count {
                return;
            }
            grown.await;
        }
    }

    fn items(&self) -> MutexGuard<'_, Vec<Value>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
