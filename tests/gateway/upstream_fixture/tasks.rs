//! Calls that are tasks, of 2025-11-25 and of the extension of 2026-07-28.

use serde_json::{Value, json};

use crate::server::{Answer, Request, RpcError, Server, TASKS};

/// Requests for the state of a task until it is completed.
const POLLS: u32 = 2;
/// Text of a job that is never completed.
const ENDLESS: &str = "endless";
/// Any time.
const TIME: &str = "2026-07-28T00:00:00Z";

/// The tasks, which are named by their places.
#[derive(Default)]
pub(crate) struct Tasks(Vec<Task>);

struct Task {
    text: String,
    polls: u32,
    is_cancelled: bool,
}

impl Tasks {
    pub(crate) fn describe(&self) -> Value {
        let cancelled = self.0.iter().filter(|task| task.is_cancelled).count();
        json!({"created": self.0.len(), "cancelled": cancelled})
    }
}

impl Task {
    fn status(&self) -> &'static str {
        match self {
            Self { is_cancelled: true, .. } => "cancelled",
            Self { polls, text, .. } if *polls >= POLLS && text != ENDLESS => "completed",
            Self { .. } => "working",
        }
    }

    fn result(&self) -> Value {
        json!({"content": [{"type": "text", "text": self.text}]})
    }

    fn state(&self, id: usize, is_modern: bool) -> Value {
        let mut state = json!({
            "taskId": id.to_string(), "status": self.status(), "createdAt": TIME,
            "lastUpdatedAt": TIME,
        });
        if is_modern {
            state["ttlMs"] = json!(60_000);
            state["pollIntervalMs"] = json!(10);
            if self.status() == "completed" {
                state["result"] = self.result();
            }
        } else {
            state["ttl"] = json!(60_000);
            state["pollInterval"] = json!(10);
        }
        state
    }
}

impl Server {
    /// A call of `job`, which must be a task.
    pub(crate) fn create_task(&mut self, request: &Request) -> Answer {
        if request.is_modern {
            if self.client_capabilities(request)["extensions"].get(TASKS).is_none() {
                let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
                return Err(RpcError { data, ..RpcError::new(-32021, "tasks are required") });
            }
        } else if request.params.get("task").is_none() {
            return Err(RpcError::new(-32601, "the tool requires params.task"));
        }
        let text = request.params["arguments"]["message"].as_str().unwrap_or_default().to_owned();
        let task = Task { text, polls: 0, is_cancelled: false };
        let mut state = task.state(self.tasks.0.len(), request.is_modern);
        self.tasks.0.push(task);
        if request.is_modern {
            state["resultType"] = json!("task");
            return Ok(state);
        }
        Ok(json!({"task": state}))
    }

    /// `tasks/get`, `tasks/result` or `tasks/cancel`.
    pub(crate) fn answer_about_task(&mut self, method: &str, request: &Request) -> Answer {
        let id = request.params["taskId"].as_str().and_then(|id| id.parse::<usize>().ok());
        let task = id.and_then(|id| self.tasks.0.get_mut(id).map(|task| (id, task)));
        let (id, task) = task.ok_or_else(|| RpcError::invalid_params("no such task"))?;
        match method {
            "tasks/get" => task.polls += 1,
            "tasks/cancel" => task.is_cancelled = true,
            _ => return Ok(task.result()),
        }
        Ok(task.state(id, request.is_modern))
    }
}
