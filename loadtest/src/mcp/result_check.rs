//! What the result of a request has to be, besides being no error.
//!
//! Evaluated only for a response that differs from the last correct one.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An expected part of a result, written as
///
/// - `TEXT` or `text:TEXT`: the first text is exactly this;
/// - `contains:TEXT`: the first text contains this;
/// - `regex:PATTERN`: the first text matches;
/// - `pointer:/PATH=JSON`: the value at this JSON pointer (RFC 6901) into the result is this;
/// - `pointer:/PATH`: there is a value.
#[derive(Clone, Debug)]
pub struct Expectation {
    source: String,
    kind: ExpectationKind,
}

#[derive(Clone, Debug)]
enum ExpectationKind {
    Text(String),
    Contains(String),
    Matches(Regex),
    Pointer { path: String, value: Option<Value> },
}

impl Expectation {
    /// Expects exactly this first text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { source: format!("text:{text}"), kind: ExpectationKind::Text(text) }
    }

    /// Expects a first text that contains this.
    pub fn contains(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { source: format!("contains:{text}"), kind: ExpectationKind::Contains(text) }
    }

    fn is_met(&self, first_text: Option<&str>, result: &Value) -> bool {
        match &self.kind {
            ExpectationKind::Text(text) => first_text == Some(text),
            ExpectationKind::Contains(part) => first_text.is_some_and(|text| text.contains(part)),
            ExpectationKind::Matches(regex) => first_text.is_some_and(|text| regex.is_match(text)),
            ExpectationKind::Pointer { path, value } => {
                let found = result.pointer(path);
                match value {
                    Some(value) => found == Some(value),
                    None => found.is_some(),
                }
            }
        }
    }

    /// Returns the exact first text, if that is what is expected.
    fn exact_text(&self) -> Option<&str> {
        match &self.kind {
            ExpectationKind::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(source: &str) -> Result<Self, String> {
        let kind = match source.split_once(':') {
            Some(("text", text)) => ExpectationKind::Text(text.into()),
            Some(("contains", text)) => ExpectationKind::Contains(text.into()),
            Some(("regex", pattern)) => {
                let regex = Regex::new(pattern);
                ExpectationKind::Matches(regex.map_err(|error| {
                    let error = error.to_string();
                    let last = error.lines().last().unwrap_or_default();
                    format!("invalid pattern '{pattern}': {}", last.trim_start_matches("error: "))
                })?)
            }
            Some(("pointer", pointer)) => {
                let (path, value) = match pointer.split_once('=') {
                    Some((path, value)) => (path, Some(value)),
                    None => (pointer, None),
                };
                if !path.is_empty() && !path.starts_with('/') {
                    return Err(format!("invalid JSON pointer '{path}': it begins with /"));
                }
                // What is no JSON is a text without its quotes.
                let value = value
                    .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)));
                ExpectationKind::Pointer { path: path.into(), value }
            }
            _ => ExpectationKind::Text(source.into()),
        };
        Ok(Self { source: source.into(), kind })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.source)
    }
}

impl PartialEq for Expectation {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl<'de> Deserialize<'de> for Expectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Expectation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

/// What the result of a request has to be.
#[derive(Clone, Debug, Default)]
pub struct ResultCheck {
    /// Whether it has to be the result of a tool call.
    is_tool: bool,
    expectations: Vec<Expectation>,
    output_schema: Option<Arc<Validator>>,
    /// Receives the first result.
    record: Option<Arc<OnceLock<String>>>,
}

impl ResultCheck {
    /// Expects exactly this first text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { expectations: vec![Expectation::text(text)], ..Self::default() }
    }

    /// Expects all of `expectations`.
    pub const fn new(expectations: Vec<Expectation>) -> Self {
        Self { is_tool: false, expectations, output_schema: None, record: None }
    }

    /// Accepts every result, and stores the JSON text of the first in `record`.
    pub fn recording(record: Arc<OnceLock<String>>) -> Self {
        Self { record: Some(record), ..Self::default() }
    }

    /// Expects the result of a tool call with this output schema.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if the schema is invalid.
    pub fn of_tool(mut self, output_schema: Option<&Value>) -> Result<Self, String> {
        self.is_tool = true;
        self.output_schema = match output_schema {
            Some(schema) => Some(Arc::new(jsonschema::validator_for(schema).map_err(|error| {
                let error = error.to_string();
                format!("invalid outputSchema: {}", error.lines().next().unwrap_or_default())
            })?)),
            None => None,
        };
        Ok(self)
    }

    /// Returns the expected first text, if it is known.
    pub fn expected_text(&self) -> Option<&str> {
        self.expectations.iter().find_map(Expectation::exact_text)
    }

    /// Returns whether `result`, which is no error, is as expected. `first_text` is the text of its
    /// first content block.
    pub(super) fn is_met(&self, result: &str, first_text: Option<&str>, has_content: bool) -> bool {
        if let Some(record) = &self.record {
            record.get_or_init(|| result.to_owned());
        }
        let is_simple = self.output_schema.is_none()
            && self.expectations.iter().all(|it| it.exact_text().is_some());
        if is_simple {
            let is_right = |it: &Expectation| it.exact_text() == first_text;
            return (has_content || !self.is_tool) && self.expectations.iter().all(is_right);
        }
        let Ok(result) = serde_json::from_str::<Value>(result) else { return false };
        let structured = result.get("structuredContent");
        let is_valid = match &self.output_schema {
            Some(schema) => structured.is_some_and(|content| schema.is_valid(content)),
            None => true,
        };
        is_valid
            && (has_content || structured.is_some() || !self.is_tool)
            && self.expectations.iter().all(|it| it.is_met(first_text, &result))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_met(expectation: &str, result: &Value) -> bool {
        let text = result.pointer("/content/0/text").and_then(Value::as_str);
        let check = ResultCheck::new(vec![expectation.parse().unwrap()]);
        check.is_met(&result.to_string(), text, text.is_some())
    }

    #[test]
    fn expectation_compares_text_and_values() {
        let result = json!({ "content": [{ "type": "text", "text": "Echo: a=1" }],
            "structuredContent": { "sum": 3, "name": "x" } });
        for met in [
            "Echo: a=1",
            "text:Echo: a=1",
            "contains:a=1",
            "regex:^Echo: [a-z]=\\d$",
            "pointer:/structuredContent/sum=3",
            "pointer:/structuredContent/name=x",
            "pointer:/structuredContent/name=\"x\"",
            "pointer:/structuredContent",
        ] {
            assert!(is_met(met, &result), "{met}");
        }
        for missed in [
            "Echo",
            "contains:b",
            "regex:^a",
            "pointer:/structuredContent/sum=4",
            "pointer:/structuredContent/none",
        ] {
            assert!(!is_met(missed, &result), "{missed}");
        }
    }

    #[test]
    fn invalid_expectation_is_reported() {
        let error = "regex:(".parse::<Expectation>().unwrap_err();
        assert!(error.contains("invalid pattern '('") && error.lines().count() == 1, "{error}");
        assert!("pointer:a=1".parse::<Expectation>().unwrap_err().contains("begins with /"));
    }

    #[test]
    fn output_schema_requires_structured_content() {
        let schema = json!({ "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } });
        let check = ResultCheck::default().of_tool(Some(&schema)).unwrap();
        let is_met = |result: Value| check.is_met(&result.to_string(), None, true);
        assert!(is_met(json!({ "content": [], "structuredContent": { "n": 1 } })));
        assert!(!is_met(json!({ "content": [], "structuredContent": { "n": "1" } })));
        assert!(!is_met(json!({ "content": [] })));
        let error = ResultCheck::default().of_tool(Some(&json!({ "type": 3 }))).unwrap_err();
        assert!(error.contains("invalid outputSchema"), "{error}");
    }

    #[test]
    fn tool_result_requires_content() {
        let check = ResultCheck::default().of_tool(None).unwrap();
        assert!(!check.is_met("{}", None, false) && check.is_met("{}", None, true));
        assert!(ResultCheck::default().is_met("{}", None, false));
    }
}
