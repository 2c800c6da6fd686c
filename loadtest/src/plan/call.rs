//! The `[[call]]` section of a plan: one kind of request.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::PlanError;
use crate::mcp::{Answers, Expectation, RequestSettings, RequestTemplate, ResultCheck, ValueNames};

/// Default length in bytes of a generated text.
pub const DEFAULT_ECHO_BYTES: usize = 32;

/// One kind of request: a tool call or any other method. Without either, a tool is chosen that the
/// server offers.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CallPlan {
    /// Name of the tool to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool call. `{{uuid}}`, `{{int FIRST LAST}}`, `{{line FILE}}` and `{{id}}`
    /// in them stand for values that differ between requests. Default: made from the schema of the
    /// tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Length in bytes of the text in arguments that are made from the schema. Default 32. If it is
    /// set, the response has to contain the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The method, if the request is not a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Params of `method`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    /// What the result has to be, one text or a list: `TEXT` (exactly one of its texts),
    /// `contains:TEXT`, `regex:PATTERN`, `pointer:/PATH=JSON` or `pointer:/PATH`. Its texts are
    /// those of `content`, `contents` and `messages`, or without any the JSON text of
    /// `structuredContent`. Default: no error, well-formed, and valid against the output schema of
    /// the tool.
    #[schemars(with = "OneOrMany")]
    #[serde(default, deserialize_with = "expectations", skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
    /// Sends a progress token, so that the server responds over HTTP with an event stream. Default
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// Requests the result as a stream, whose chunks are counted; the request is answered by the
    /// end of the stream. Only for the parity dialect. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// Relative frequency of this call among all calls. Default 1.
    #[serde(default = "weight")]
    pub weight: u32,
    /// Output schema of the tool, as the server describes it.
    #[serde(skip)]
    pub output_schema: Option<Value>,
}

const fn weight() -> u32 {
    1
}

/// Reads one expectation, or a list.
fn expectations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Expectation>, D::Error> {
    let source = OneOrMany::deserialize(deserializer)?;
    let sources = match source {
        OneOrMany::One(source) => vec![source],
        OneOrMany::Many(sources) => sources,
    };
    sources.iter().map(|source| source.parse().map_err(serde::de::Error::custom)).collect()
}

/// A text or a list of texts.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or texts in brackets")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for CallPlan {
    fn default() -> Self {
        Self {
            tool: None,
            arguments: None,
            bytes: None,
            method: None,
            params: None,
            expect: Vec::new(),
            progress: false,
            stream: false,
            weight: weight(),
            output_schema: None,
        }
    }
}

impl CallPlan {
    /// Returns a plan that calls `name`.
    pub fn tool(name: impl Into<String>) -> Self {
        Self { tool: Some(name.into()), ..Self::default() }
    }

    /// Returns the name of each call in results: the tool or method, followed by its place in the
    /// plan if several have that name.
    pub fn names(calls: &[Self]) -> Vec<String> {
        let own = |call: &Self| {
            call.tool.as_deref().or(call.method.as_deref()).unwrap_or_default().to_owned()
        };
        let owns: Vec<String> = calls.iter().map(own).collect();
        let name = |(index, own): (usize, &String)| {
            let is_unique = owns.iter().filter(|other| *other == own).count() == 1;
            if is_unique { own.clone() } else { format!("{own} #{}", index + 1) }
        };
        owns.iter().enumerate().map(name).collect()
    }

    /// Describes the request: the tool with its arguments, or the method.
    pub fn describe(&self) -> String {
        let (method, params) = match (&self.tool, &self.method) {
            (Some(tool), _) => (format!("tools/call {tool}"), &self.arguments),
            (None, Some(method)) => (method.clone(), &self.params),
            (None, None) => ("tools/call echo".into(), &self.arguments),
        };
        match params {
            Some(params) => format!("{method} {}", Value::from(params.clone())),
            None => method,
        }
    }

    /// Checks that the dialect has streams, or progress.
    fn check_stream(&self, settings: &RequestSettings) -> Result<(), PlanError> {
        match (self.stream, settings.era.is_parity()) {
            (true, false) => Err(PlanError::new(
                "stream = true needs the parity dialect: add --dialect parity, or era = \"parity\" \
                 to the plan",
            )),
            (_, true) if self.progress => Err(PlanError::new(
                "progress = true is not of the parity dialect: use stream = true",
            )),
            _ => Ok(()),
        }
    }

    /// Builds the request. Fails if the call names both a tool and a method, or is streamed where
    /// that is not possible.
    pub(super) fn build(
        &self,
        settings: &RequestSettings,
        seed: u64,
    ) -> Result<RequestTemplate, PlanError> {
        self.build_with(settings, seed, None)
    }

    /// Builds the request of a step, with the names of the values of users.
    pub(super) fn build_step(
        &self,
        settings: &RequestSettings,
        seed: u64,
        names: &ValueNames,
    ) -> Result<RequestTemplate, PlanError> {
        self.build_with(settings, seed, Some(names))
    }

    fn build_with(
        &self,
        settings: &RequestSettings,
        seed: u64,
        names: Option<&ValueNames>,
    ) -> Result<RequestTemplate, PlanError> {
        self.check_stream(settings)?;
        let mut expectations = self.expect.clone();
        let (method, params) = match (&self.tool, &self.method) {
            (Some(_), Some(_)) => {
                return Err(PlanError::new("a call has a tool or a method, not both"));
            }
            (None, Some(method)) => (method.as_str(), self.params.clone()),
            (tool, None) => {
                let tool = tool.as_deref().unwrap_or("echo");
                let arguments = self.tool_arguments(tool, &mut expectations);
                let params = json!({ "name": tool, "arguments": arguments });
                ("tools/call", params.as_object().cloned())
            }
        };
        let mut check = ResultCheck::new(expectations);
        if self.method.is_none() {
            check = check.of_tool(self.output_schema.as_ref()).map_err(|why| {
                PlanError(format!("tool '{}': {why}", self.tool.as_deref().unwrap_or("echo")))
            })?;
        }
        let params =
            if self.progress { Some(RequestTemplate::with_progress(params)) } else { params };
        let is_step = names.is_some();
        let is_varying = is_step || self.method.is_none();
        // A step that may be sent again with answers is written as text.
        let is_answering = is_step && **settings.answers() != Answers::default();
        let is_varying =
            is_answering || is_varying && params.as_ref().is_some_and(|it| varies(it, is_step));
        let template = if is_varying {
            RequestTemplate::varying(settings, method, params.as_ref(), seed, self.stream, names)
                .map_err(PlanError)?
        } else if self.stream {
            RequestTemplate::stream(settings, method, params.as_ref())
        } else {
            RequestTemplate::new(settings, method, params.as_ref(), None)
        };
        Ok(template.with_check(check))
    }

    /// Returns the arguments, and adds what the generated text in them lets expect.
    fn tool_arguments(&self, tool: &str, expectations: &mut Vec<Expectation>) -> Value {
        let text = RequestTemplate::message(self.bytes.unwrap_or(DEFAULT_ECHO_BYTES));
        match &self.arguments {
            None if tool == "echo" => {
                let arguments = json!({ "message": text });
                expectations.push(Expectation::text(text));
                arguments
            }
            None => json!({}),
            Some(arguments) => {
                let is_text = |value: &Value| value.as_str() == Some(&text);
                if self.bytes.is_some() && arguments.values().any(is_text) {
                    expectations.push(Expectation::contains(text));
                }
                Value::from(arguments.clone())
            }
        }
    }
}

/// Returns whether params have placeholders: in arguments of a tool, in a step anywhere.
fn varies(params: &Map<String, Value>, is_step: bool) -> bool {
    let arguments = || Some(params.get("arguments")?.to_string());
    let text = if is_step { Some(Value::from(params.clone()).to_string()) } else { arguments() };
    text.is_some_and(|text| text.contains("{{"))
}
