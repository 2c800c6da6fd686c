//! What the result of a request has to be, besides being no error.
//!
//! Evaluated only for a response that differs from the last correct one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An expected part of a result, written as
///
/// - `TEXT` or `text:TEXT`: a text of the result is exactly this;
/// - `contains:TEXT`: a text contains this;
/// - `regex:PATTERN`: a text matches;
/// - `pointer:/PATH=JSON`: the value at this JSON pointer (RFC 6901) into the result is this;
/// - `pointer:/PATH`: there is a value.
///
/// The texts of a result are those of its content blocks and embedded resources (`content`), of
/// resources (`contents`) and of the messages of a prompt (`messages`); without any it is the JSON
/// text of `structuredContent`.
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
    /// Expects a text that is exactly this.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { source: format!("text:{text}"), kind: ExpectationKind::Text(text) }
    }

    /// Expects a text that contains this.
    pub fn contains(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { source: format!("contains:{text}"), kind: ExpectationKind::Contains(text) }
    }

    fn is_met(&self, texts: &[Cow<'_, str>], result: &Value) -> bool {
        match &self.kind {
            ExpectationKind::Text(expected) => texts.iter().any(|text| text == expected),
            ExpectationKind::Contains(part) => texts.iter().any(|text| text.contains(part)),
            ExpectationKind::Matches(regex) => texts.iter().any(|text| regex.is_match(text)),
            ExpectationKind::Pointer { path, value } => {
                let found = result.pointer(path);
                match value {
                    Some(value) => found == Some(value),
                    None => found.is_some(),
                }
            }
        }
    }

    /// Describes what was received instead.
    fn explain(&self, texts: &[Cow<'_, str>], result: &Value) -> String {
        let received = match &self.kind {
            ExpectationKind::Pointer { path, .. } => result.pointer(path).map_or_else(
                || "there is no value at this path".into(),
                |found| format!("received {}", excerpt(&found.to_string())),
            ),
            _ => match texts {
                [] => "the result has no text".into(),
                [text] => format!("received {:?}", excerpt(text)),
                [text, ..] => format!("received {} texts, first {:?}", texts.len(), excerpt(text)),
            },
        };
        format!("expected {}, {received}", excerpt(&self.source))
    }

    /// Returns the exact text, if that is what is expected.
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

/// Characters of a text that an explanation quotes.
const EXCERPT_CHARACTERS_MAX: usize = 200;

/// Returns the beginning of a text.
fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns the texts of a result.
fn texts_of(result: &Value) -> Vec<Cow<'_, str>> {
    let mut texts = Vec::new();
    for blocks in ["content", "contents"].into_iter().filter_map(|name| result.get(name)) {
        add_texts(blocks, &mut texts);
    }
    let messages = result.get("messages").and_then(Value::as_array);
    for content in messages.into_iter().flatten().filter_map(|message| message.get("content")) {
        add_texts(content, &mut texts);
    }
    if texts.is_empty() {
        texts.extend(result.get("structuredContent").map(|content| content.to_string().into()));
    }
    texts
}

/// Adds the texts of a text, a content block or a list of those.
fn add_texts<'a>(content: &'a Value, texts: &mut Vec<Cow<'a, str>>) {
    match content {
        Value::String(text) => texts.push(text.into()),
        Value::Array(blocks) => blocks.iter().for_each(|block| add_texts(block, texts)),
        Value::Object(block) => {
            let text = block.get("text").or_else(|| block.get("resource")?.get("text"));
            texts.extend(text.and_then(Value::as_str).map(Cow::from));
        }
        _ => {}
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
    /// Expects a text that is exactly this.
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

    /// Returns the exact text that is expected, if it is known.
    pub fn expected_text(&self) -> Option<&str> {
        self.expectations.iter().find_map(Expectation::exact_text)
    }

    /// Returns whether `result`, which is no error, is as expected. `content` are the texts of its
    /// content blocks, if it has any, and spare to parse the rest of it.
    pub(super) fn is_met<'a>(
        &self,
        result: &str,
        content: Option<&(impl Iterator<Item = &'a str> + Clone)>,
    ) -> bool {
        if let Some(record) = &self.record {
            record.get_or_init(|| result.to_owned());
        }
        if let Some(texts) = content {
            let is_met = |it: &Expectation| {
                it.exact_text().is_some_and(|expected| texts.clone().any(|text| text == expected))
            };
            if self.output_schema.is_none() && self.expectations.iter().all(is_met) {
                return true;
            }
        } else if !self.is_tool && self.expectations.is_empty() {
            return true;
        }
        serde_json::from_str(result).is_ok_and(|result| self.mismatch(&result).is_none())
    }

    /// Explains why a result is not as expected.
    pub(super) fn explain(&self, result: &str) -> Option<String> {
        self.mismatch(&serde_json::from_str(result).ok()?)
    }

    /// Returns why a result is not as expected, or `None` if it is.
    fn mismatch(&self, result: &Value) -> Option<String> {
        if !result.is_object() {
            return Some("the result is not an object".into());
        }
        let structured = result.get("structuredContent");
        if self.is_tool
            && structured.is_none()
            && !result.get("content").is_some_and(Value::is_array)
        {
            return Some("the result has no content".into());
        }
        match (&self.output_schema, structured) {
            (Some(_), None) => {
                return Some(
                    "the tool has an outputSchema, the result no structuredContent".into(),
                );
            }
            (Some(schema), Some(structured)) => {
                if let Err(error) = schema.validate(structured) {
                    return Some(format!(
                        "structuredContent{} does not match outputSchema{}: {}",
                        error.instance_path(),
                        error.schema_path(),
                        excerpt(&error.to_string())
                    ));
                }
            }
            (None, _) => {}
        }
        let texts = texts_of(result);
        let missed = self.expectations.iter().find(|it| !it.is_met(&texts, result))?;
        Some(missed.explain(&texts, result))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NO_CONTENT: Option<&std::iter::Empty<&str>> = None;

    fn is_met(expectation: &str, result: &Value) -> bool {
        let check = ResultCheck::new(vec![expectation.parse().unwrap()]);
        let text = result.to_string();
        let is_met = check.is_met(&text, NO_CONTENT);
        assert_eq!(check.explain(&text).is_none(), is_met);
        is_met
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
    fn every_text_of_a_result_is_read() {
        let blocks = json!([{ "type": "image", "data": "" }, { "type": "text", "text": "b c" }]);
        let embedded = json!({ "type": "resource", "resource": { "uri": "a:b", "text": "b c" } });
        for result in [
            json!({ "content": blocks }),
            json!({ "content": [{ "type": "text", "text": "a" }, embedded] }),
            json!({ "contents": [{ "uri": "a:b", "blob": "" }, { "uri": "a:c", "text": "b c" }] }),
            json!({ "messages": [{ "content": { "type": "text", "text": "b c" } }] }),
            json!({ "messages": [{ "content": blocks }, { "content": "a" }] }),
            json!({ "messages": [{ "content": embedded }] }),
        ] {
            for met in ["b c", "contains: c", "regex:^b"] {
                assert!(is_met(met, &result), "{met} {result}");
            }
            assert!(!is_met("b", &result) && !is_met("contains:d", &result), "{result}");
        }
        let structured = json!({ "structuredContent": { "a": "b c" } });
        assert!(is_met("contains:b c", &structured) && !is_met("b c", &structured));
    }

    #[test]
    fn mismatch_names_what_was_expected_and_received() {
        let result = json!({ "content": [{ "text": "a" }, { "text": "b" }], "n": 3 });
        for (expected, why) in [
            ("c", "expected c, received 2 texts, first \"a\""),
            ("pointer:/n=4", "expected pointer:/n=4, received 3"),
            ("pointer:/m", "expected pointer:/m, there is no value at this path"),
        ] {
            let check = ResultCheck::new(vec![expected.parse().unwrap()]);
            assert_eq!(check.explain(&result.to_string()).as_deref(), Some(why));
        }
        let check = ResultCheck::text("x".repeat(300));
        let why = check.explain(r#"{"content":[{"text":"y"}]}"#).unwrap();
        assert!(why.ends_with("xxx…, received \"y\"") && why.len() < 300, "{why}");
        let schema = json!({ "properties": { "n": { "type": "integer" } } });
        let check = ResultCheck::default().of_tool(Some(&schema)).unwrap();
        let why = check.explain(r#"{"content":[],"structuredContent":{"n":"1"}}"#).unwrap();
        assert_eq!(
            why,
            "structuredContent/n does not match outputSchema/properties/n/type: \"1\" is not of \
             type \"integer\""
        );
    }

    #[test]
    fn output_schema_requires_structured_content() {
        let schema = json!({ "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } });
        let check = ResultCheck::default().of_tool(Some(&schema)).unwrap();
        let is_met = |result: Value| check.is_met(&result.to_string(), NO_CONTENT);
        assert!(is_met(json!({ "content": [], "structuredContent": { "n": 1 } })));
        assert!(!is_met(json!({ "content": [], "structuredContent": { "n": "1" } })));
        assert!(!is_met(json!({ "content": [] })));
        let error = ResultCheck::default().of_tool(Some(&json!({ "type": 3 }))).unwrap_err();
        assert!(error.contains("invalid outputSchema"), "{error}");
    }

    #[test]
    fn tool_result_requires_content() {
        let check = ResultCheck::default().of_tool(None).unwrap();
        assert!(!check.is_met("{}", NO_CONTENT));
        assert!(check.is_met("{}", Some(&std::iter::empty())));
        assert!(ResultCheck::default().is_met("{}", NO_CONTENT));
    }
}
