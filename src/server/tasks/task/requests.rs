//! The requests of a task's handler to the client.

use std::rc::Rc;

use crate::server::client_requests::{OpenRequests, TaskInputs};

/// Requests to the client in the forms of both protocol generations; a task uses one of them.
#[derive(Debug, Default)]
pub struct TaskRequests {
    /// Input requests (2026-07-28).
    pub inputs: Rc<TaskInputs>,
    /// Requests from the server to the client (2025-11-25).
    pub client_requests: OpenRequests,
}

impl TaskRequests {
    /// Returns whether a request has no response yet.
    pub(super) fn is_open(&self) -> bool {
        self.inputs.is_open() || self.client_requests.is_open()
    }
}
