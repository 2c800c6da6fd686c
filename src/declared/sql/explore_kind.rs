//! What tools for exploring do, and the statements that clients write for them.

use serde_json::Value;

use crate::declared::call::{Call, Failure};
use crate::declared::sql::statement::{Dialect, StatementText};

/// What a tool for exploring does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExploreKind {
    /// Runs one read-only statement, its argument `query`.
    Query,
    /// Lists tables, columns and foreign keys.
    Schema,
}

/// The statement of a call of `NAME_query`.
pub(crate) fn query_text(call: &Call, dialect: Dialect) -> Result<StatementText, Failure> {
    let Some(query) = call.arguments.get("query").and_then(Value::as_str) else {
        return Err(Failure::invalid_argument("query is not a text"));
    };
    let text = StatementText::parse(query, dialect, &[]).map_err(|fault| {
        Failure::invalid_argument(format!("query {}: {}", fault.message, fault.hint))
    })?;
    if !text.parameters().is_empty() {
        let text = "query has parameters: write the values, texts in single quotes";
        return Err(Failure::invalid_argument(text));
    }
    if !["select", "with", "values"].iter().any(|word| text.starts_with_word(word)) {
        let text = "query is not a SELECT statement: it begins with SELECT, WITH or VALUES";
        return Err(Failure::invalid_argument(text));
    }
    Ok(text)
}
