//! Checks every message of a connection against the schema of its revision.

use std::cell::RefCell;
use std::collections::HashSet;

use serde_json::{Value, json};

use crate::mcp_schema::expect_valid;
use crate::messages::MODERN;

thread_local! {
    /// Messages that passed the check: revision, method of the request, and text.
    static CHECKED: RefCell<HashSet<(&'static str, Option<String>, String)>> = RefCell::default();
}

/// The requests of a connection, by which responses are checked.
pub(crate) struct SchemaChecker {
    pub(crate) revision: &'static str,
    /// Ids and methods of requests without a response so far.
    pending_requests: Vec<(Value, String)>,
    /// Whether errors may have no id. They belong to no revision: the newest schema applies.
    allows_errors_without_id: bool,
}

impl SchemaChecker {
    pub(crate) const fn new(revision: &'static str, allows_errors_without_id: bool) -> Self {
        Self { revision, pending_requests: Vec::new(), allows_errors_without_id }
    }

    /// Records the ids and methods of a message or batch, so that responses can be checked.
    pub(crate) fn register(&mut self, message: &Value) {
        for message in items(message) {
            if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
                self.pending_requests.push((id.clone(), method.to_owned()));
            }
        }
    }

    /// Checks a message or batch of the server.
    pub(crate) fn check(&mut self, message: &Value) {
        assert_ne!(message, &json!([]));
        for message in items(message) {
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            let is_response = message.get("method").is_none();
            let id = message.get("id").filter(|_| is_response);
            let index = self.pending_requests.iter().position(|(pending, _)| Some(pending) == id);
            let method = index.map(|index| self.pending_requests.swap_remove(index).1);
            let has_no_id = is_response && message.get("id").is_none();
            let newest = self.allows_errors_without_id && has_no_id;
            check_once(if newest { MODERN } else { self.revision }, message, method.as_deref());
        }
    }
}

fn items(message: &Value) -> &[Value] {
    message.as_array().map_or_else(|| std::slice::from_ref(message), Vec::as_slice)
}

/// Checks a message against the schema of `revision`, unless an equal one has passed before.
pub(crate) fn check_once(revision: &'static str, message: &Value, method: Option<&str>) {
    let key = (revision, method.map(str::to_owned), message.to_string());
    if CHECKED.with_borrow_mut(|checked| checked.insert(key)) {
        expect_valid(revision, message, method);
    }
}
