//! Completion of arguments: from a list, or from the result of a tool.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use serde_json::Value;

use crate::declared::arguments::{Arguments, CompleteDeclaration};
use crate::declared::backend::Runner;
use crate::declared::call::{Call, Output};
use crate::declared::context::{FileContext, ToolIndex};
use crate::declared::services::Services;
use crate::service::{Completion, CompletionContext};

#[expect(clippy::disallowed_types, reason = "locked for the copy of a pointer")]
type Mutex<T> = std::sync::Mutex<T>;

/// The values of an argument.
#[derive(Clone)]
pub enum Values {
    /// Fixed ones.
    Fixed(Arc<[String]>),
    /// Those of a tool.
    OfTool(Arc<ToolValues>),
}

/// The values of the argument `name`, if it has any.
pub fn completion_of(
    name: &str,
    arguments: &Arguments,
    context: &FileContext<'_>,
) -> Option<Values> {
    let declaration = arguments.rules(name)?.complete.as_ref()?;
    Some(Values::new(declaration, context))
}

/// The arguments that have values.
pub fn completions(arguments: &Arguments, context: &FileContext<'_>) -> Vec<(String, Values)> {
    let names = arguments.names();
    names.filter_map(|it| Some((it.to_owned(), completion_of(it, arguments, context)?))).collect()
}

/// Time after which the values of a tool are read again.
const VALUES_TIME: Duration = Duration::from_mins(1);

/// Values that are kept of the result of a tool.
const VALUES_MAX: usize = 10_000;

/// The values that a tool has returned, kept for a minute. Reading them again happens in the
/// background: a completion never waits.
pub struct ToolValues {
    tool: String,
    services: Arc<Services>,
    tools: Arc<ToolIndex>,
    clock: Clock,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    values: Arc<[String]>,
    /// When the last reading began.
    read_at: Option<Instant>,
}

impl Values {
    /// The values of `declaration`.
    fn new(declaration: &CompleteDeclaration, context: &FileContext<'_>) -> Self {
        match declaration {
            CompleteDeclaration::Values(values) => Self::Fixed(values.as_slice().into()),
            CompleteDeclaration::Tool { tool } => Self::OfTool(Arc::new(ToolValues {
                tool: tool.clone(),
                services: Arc::clone(context.services),
                tools: Arc::clone(context.tools),
                clock: Clock::start(),
                kept: Mutex::default(),
            })),
        }
    }

    /// Completes the value that was typed so far.
    pub fn complete(&self, ctx: &CompletionContext<'_>) -> Completion {
        let values = match self {
            Self::Fixed(values) => Arc::clone(values),
            Self::OfTool(values) => values.get(),
        };
        ctx.complete_from(values.iter().cloned())
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Values")
    }
}

impl ToolValues {
    /// The values that are known; reads them again if they are old.
    fn get(self: &Arc<Self>) -> Arc<[String]> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let is_old = kept.read_at.is_none_or(|at| now.since(at) > VALUES_TIME);
        if is_old
            && let Some(runtime) = self.services.runtime()
            && let Some(runner) = self.tools.get(&self.tool)
        {
            kept.read_at = Some(now);
            let values = Arc::clone(self);
            drop(runtime.spawn(async move { values.read(&runner).await }));
        }
        Arc::clone(&kept.values)
    }

    /// Calls the tool. Values stay as they were if it fails.
    async fn read(&self, runner: &Runner) {
        let Ok(output) = runner.call(Call::default()).await else { return };
        let values = match output {
            Output::Text(text) => lines(&text),
            Output::Json(value) => texts(&value),
            Output::JsonText(text) => {
                serde_json::from_str(&text).map(|it| texts(&it)).unwrap_or_default()
            }
            Output::Media { .. } => Vec::new(),
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.values = values.into();
    }
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.take(VALUES_MAX).map(ToOwned::to_owned).collect()
}

/// The texts of a list; of the rows of a statement, the first column.
fn texts(value: &Value) -> Vec<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(object) => object.values().find_map(Value::as_array).map_or(&[][..], |it| it),
        _ => &[],
    };
    let texts = items.iter().filter_map(|item| match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(row) => row.values().next()?.as_str().map(ToOwned::to_owned),
        _ => None,
    });
    texts.take(VALUES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_lines_lists_or_rows() {
        assert_eq!(lines("a\n\nb\n"), ["a", "b"]);
        assert_eq!(texts(&json!(["a", 1, null])), ["a", "1"]);
        assert_eq!(texts(&json!({ "rows": [{ "name": "a" }, { "name": "b" }] })), ["a", "b"]);
        assert!(texts(&json!("a")).is_empty());
    }
}
