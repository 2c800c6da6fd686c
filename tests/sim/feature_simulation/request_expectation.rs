//! The expected response to a request, checked against the shared model.

use serde_json::Value;

use crate::feature_simulation::shared_model::{RequestSpan, SharedModel, StateRefusal};

/// What a request was about.
#[derive(Clone, Debug)]
pub(crate) enum RequestExpectation {
    /// A tool call, with its `requestState` if any; the result must contain `words`.
    Call { tool: &'static str, state: Option<String>, texts: Vec<String> },
    /// A request for an existing or former task.
    Task(String),
    /// A request that must be refused.
    Refused,
}

impl RequestExpectation {
    /// Checks the response to `method`; returns the id of the task that it created.
    ///
    /// # Errors
    ///
    /// The reason why the response is wrong.
    pub(crate) fn check_response(
        self,
        message: &Value,
        method: &str,
        is_modern: bool,
        span: RequestSpan,
        model: &mut SharedModel,
    ) -> Result<Option<String>, String> {
        let error = &message["error"];
        let reason = error["message"].as_str().unwrap_or_default();
        if reason.contains(IN_FLIGHT_LIMIT) || reason == SHARD_OVERLOADED {
            // The request was refused before its state was looked at.
            model.totals.in_flight_limit_errors += u64::from(reason != SHARD_OVERLOADED);
            return Ok(None);
        }
        if reason.contains(SHORT_OF_MEMORY) && model.may_exhaust_memory {
            model.totals.memory_limit_errors += 1;
            // The state was used before the arguments were charged.
            return match self {
                Self::Call { state: Some(state), .. } => {
                    model.state_accepted(&state, span).map(|()| None)
                }
                _ => Ok(None),
            };
        }
        match self {
            Self::Call { tool, state, texts: words } => {
                if let Some(state) = &state
                    && !check_state(state, error, span, model)?
                {
                    return Ok(None);
                }
                check_call(message, tool, words, is_modern, span, model)
            }
            Self::Task(id) => check_task(message, &id, method, is_modern, span, model),
            Self::Refused if error.is_object() => Ok(None),
            Self::Refused => Err(format!("{message} must be an error")),
        }
    }
}

fn check_call(
    message: &Value,
    tool: &'static str,
    words: Vec<String>,
    is_modern: bool,
    span: RequestSpan,
    model: &mut SharedModel,
) -> Result<Option<String>, String> {
    let result = &message["result"];
    if result["resultType"] == "input_required" {
        return model.issue_state(result, tool, words, span).map(|()| None);
    }
    if result["resultType"] == "task" || result.get("task").is_some() {
        let task = result.get("task").unwrap_or(result);
        return model.add_task(task, is_modern, span).map(Some);
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let has_failed = message["error"].is_object() || result["isError"] == true;
    if has_failed || words.iter().all(|word| text.contains(word)) {
        return Ok(None);
    }
    Err(format!("{message} does not contain {words:?}"))
}

fn check_task(
    message: &Value,
    id: &str,
    method: &str,
    is_modern: bool,
    span: RequestSpan,
    model: &mut SharedModel,
) -> Result<Option<String>, String> {
    let (result, error) = (&message["result"], &message["error"]);
    if error["message"] == UNKNOWN_TASK {
        return model.task_not_found(id, span).map(|()| None);
    }
    let fits = match method {
        "tasks/get" => return model.update_task(result, Some(span), span.received).map(|()| None),
        "tasks/cancel" if error.is_null() && !is_modern => {
            return model.update_task(result, Some(span), span.received).map(|()| None);
        }
        "tasks/result" => {
            let related = &result["_meta"]["io.modelcontextprotocol/related-task"];
            error.is_object() || related["taskId"] == id
        }
        _ => error.is_null() || error["code"] == INVALID_PARAMS,
    };
    if fits { Ok(None) } else { Err(format!("wrong response to {method} of {id}: {message}")) }
}

/// Records what became of a `requestState`; returns `false` if it was refused.
fn check_state(
    state: &str,
    error: &Value,
    span: RequestSpan,
    model: &mut SharedModel,
) -> Result<bool, String> {
    let reason = error["message"].as_str().unwrap_or_default();
    if !reason.starts_with("params.requestState ") {
        model.state_accepted(state, span)?;
        return Ok(true);
    }
    let why = if reason.contains("was used before") {
        StateRefusal::Used
    } else if reason.contains("has expired") {
        StateRefusal::Expired
    } else {
        return Err(format!("a valid state was refused: {reason}"));
    };
    model.state_refused(state, why, span)?;
    Ok(false)
}

/// Part of the error of a call that exceeds the limit.
const IN_FLIGHT_LIMIT: &str = "requests are in flight on this connection";

/// Part of the error of a request that does not fit into the memory limit.
pub(crate) const SHORT_OF_MEMORY: &str = "the server is short of memory";

/// Error of a request for a task whose shard is slow.
const SHARD_OVERLOADED: &str = "the shard of the task is overloaded; try again later";

/// Error of a request for a task that does not exist.
const UNKNOWN_TASK: &str = "unknown or expired task id";

const INVALID_PARAMS: i64 = -32602;
