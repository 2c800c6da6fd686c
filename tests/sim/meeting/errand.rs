//! What a request was about, and whether its answer fits what everybody knows.

use serde_json::Value;

use crate::meeting::commons::{Commons, Span, Why};

/// What a request was about.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// A call, perhaps with a state that somebody brought; what its result must say in the end.
    Call { tool: &'static str, state: Option<String>, words: Vec<String> },
    /// A request for a task that is there or was.
    Task(String),
    /// A request that must be refused.
    Nothing,
}

impl Errand {
    /// The answer to a request by `method` was heard; returns the task that began with it.
    ///
    /// # Errors
    ///
    /// Why it cannot be the answer.
    pub(crate) fn settle(
        self,
        message: &Value,
        (method, is_modern): (&str, bool),
        span: Span,
        commons: &mut Commons,
    ) -> Result<Option<String>, String> {
        let error = &message["error"];
        let reason = error["message"].as_str().unwrap_or_default();
        if reason.contains(BUSY) || reason == BEHIND {
            // Nothing was looked at, not even a state.
            commons.tally.crowded += u64::from(reason != BEHIND);
            return Ok(None);
        }
        match self {
            Self::Call { tool, state, words } => {
                if let Some(state) = &state
                    && !redeem(state, error, span, commons)?
                {
                    return Ok(None);
                }
                settle_call(message, (tool, words), is_modern, span, commons)
            }
            Self::Task(id) => settle_task(message, &id, (method, is_modern), span, commons),
            Self::Nothing if error.is_object() => Ok(None),
            Self::Nothing => Err(format!("{message} ought to be an error")),
        }
    }
}

fn settle_call(
    message: &Value,
    (tool, words): (&'static str, Vec<String>),
    is_modern: bool,
    span: Span,
    commons: &mut Commons,
) -> Result<Option<String>, String> {
    let result = &message["result"];
    if result["resultType"] == "input_required" {
        return commons.give(result, tool, words, span).map(|()| None);
    }
    if result["resultType"] == "task" || result.get("task").is_some() {
        let task = result.get("task").unwrap_or(result);
        return commons.begin(task, is_modern, span).map(Some);
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let has_failed = message["error"].is_object() || result["isError"] == true;
    if has_failed || words.iter().all(|word| text.contains(word)) {
        return Ok(None);
    }
    Err(format!("{message} does not say {words:?}"))
}

fn settle_task(
    message: &Value,
    id: &str,
    (method, is_modern): (&str, bool),
    span: Span,
    commons: &mut Commons,
) -> Result<Option<String>, String> {
    let (result, error) = (&message["result"], &message["error"]);
    if error["message"] == UNKNOWN_TASK {
        return commons.miss(id, span).map(|()| None);
    }
    let fits = match method {
        "tasks/get" => return commons.see(result, Some(span), span.heard).map(|()| None),
        "tasks/cancel" if error.is_null() && !is_modern => {
            return commons.see(result, Some(span), span.heard).map(|()| None);
        }
        "tasks/result" => {
            let related = &result["_meta"]["io.modelcontextprotocol/related-task"];
            error.is_object() || related["taskId"] == id
        }
        _ => error.is_null() || error["code"] == INVALID_PARAMS,
    };
    if fits { Ok(None) } else { Err(format!("{message} answers {method} of {id}")) }
}

/// What became of a state that was brought; `false` where it was refused.
fn redeem(state: &str, error: &Value, span: Span, commons: &mut Commons) -> Result<bool, String> {
    let reason = error["message"].as_str().unwrap_or_default();
    if !reason.starts_with("params.requestState ") {
        commons.take(state, span)?;
        return Ok(true);
    }
    let why = if reason.contains("was used before") {
        Why::Used
    } else if reason.contains("came too late") {
        Why::Late
    } else {
        return Err(format!("a state that was given out was refused: {reason}"));
    };
    commons.refuse(state, why, span)?;
    Ok(false)
}

/// How a call is refused that is one too many.
const BUSY: &str = "requests are in flight on this connection";

/// How a request for a task is refused whose shard is slow.
const BEHIND: &str = "the shard that keeps the task is behind; try again later";

/// How a task is refused that is not there.
const UNKNOWN_TASK: &str = "no such task, or its time is over";

/// The params are not right.
const INVALID_PARAMS: i64 = -32602;
