//! Handlers of the input that servers require: elicitation, sampling, roots.

use std::error::Error;
use std::fmt;
use std::pin::Pin;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::{ClientError, ClientErrorKind};
use super::session::InputKind;
use crate::protocol::eras::ClientCapabilities;
use crate::protocol::model::{CreateMessageResult, ElicitResult, Root};

/// Result of a handler of input; an error is reported to the server as its text.
pub type InputResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// An input being provided: a JSON object, or why there is none.
pub(super) type InputFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, ClientError>>>>;

/// Provides one kind of input, from the params of its request.
type InputHandler = Box<dyn Fn(&[u8]) -> InputFuture + Send + Sync>;

/// A question of the server to the user (`elicitation/create`).
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitRequestParams {
    /// The question.
    pub message: String,
    /// `form`, which is the default, or `url`.
    pub mode: Option<String>,
    /// JSON Schema of the form: an object of strings, numbers, booleans and enums.
    #[serde(default)]
    pub requested_schema: Map<String, Value>,
    /// The page to open (`url`). It must be shown in full, and opened only with the consent of the
    /// user; it is never fetched by the client.
    pub url: Option<String>,
    /// Identifies a question of mode `url` (2025-11-25).
    pub elicitation_id: Option<String>,
}

impl ElicitRequestParams {
    /// Returns the fields of the form that have defaults, with these.
    pub fn defaults(&self) -> Map<String, Value> {
        let properties = self.requested_schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten();
        let defaults = fields
            .filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone())));
        defaults.collect()
    }
}

/// A request of the server to the model of the client (`sampling/createMessage`).
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageRequestParams {
    /// The conversation: objects with `role` and `content`.
    pub messages: Vec<Value>,
    /// The most tokens to generate.
    pub max_tokens: u64,
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// Other members, such as `modelPreferences`, `temperature` and `tools`.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The handlers of a client. What has no handler is not declared.
#[derive(Default)]
pub(super) struct InputHandlers {
    elicitation: Option<InputHandler>,
    sampling: Option<InputHandler>,
    roots: Option<InputHandler>,
}

impl InputHandlers {
    pub(super) fn set_elicitation<F, O>(&mut self, handler: F)
    where
        F: Fn(ElicitRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<ElicitResult>> + 'static,
    {
        self.elicitation = Some(handler_of(handler, |result: ElicitResult| {
            let action = result.action.as_str();
            if result.content.is_empty() {
                json!({ "action": action })
            } else {
                json!({ "action": action, "content": result.content })
            }
        }));
    }

    pub(super) fn set_sampling<F, O>(&mut self, handler: F)
    where
        F: Fn(CreateMessageRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<CreateMessageResult>> + 'static,
    {
        self.sampling = Some(handler_of(handler, |result: CreateMessageResult| result.to_json()));
    }

    pub(super) fn set_roots<F, O>(&mut self, handler: F)
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<Vec<Root>>> + 'static,
    {
        self.roots = Some(handler_of(
            move |_: Map<String, Value>| handler(),
            |roots: Vec<Root>| {
                let root = |root: &Root| match &root.name {
                    Some(name) => json!({ "uri": root.uri, "name": name }),
                    None => json!({ "uri": root.uri }),
                };
                json!({ "roots": roots.iter().map(root).collect::<Vec<_>>() })
            },
        ));
    }

    /// Returns the capabilities that have handlers.
    pub(super) const fn capabilities(&self) -> ClientCapabilities {
        let mut declared = ClientCapabilities::NONE;
        if self.elicitation.is_some() {
            declared = declared
                .union(ClientCapabilities::ELICITATION_FORM)
                .union(ClientCapabilities::ELICITATION_URL);
        }
        if self.sampling.is_some() {
            declared = declared.union(ClientCapabilities::SAMPLING);
        }
        if self.roots.is_some() {
            declared = declared.union(ClientCapabilities::ROOTS);
        }
        declared
    }

    /// Begins to provide an input.
    pub(super) fn provide(&self, kind: InputKind, params: &[u8]) -> InputFuture {
        let handler = match kind {
            InputKind::Elicitation => &self.elicitation,
            InputKind::Sampling => &self.sampling,
            InputKind::Roots => &self.roots,
        };
        match handler {
            Some(handler) => handler(params),
            None => failed("the client has no handler for this input".into()),
        }
    }
}

impl fmt::Debug for InputHandlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InputHandlers").finish_non_exhaustive()
    }
}

/// Wraps a handler: reads its params, and writes its result.
fn handler_of<P, R, F, O>(handler: F, to_json: fn(R) -> Value) -> InputHandler
where
    P: for<'a> Deserialize<'a>,
    R: 'static,
    F: Fn(P) -> O + Send + Sync + 'static,
    O: Future<Output = InputResult<R>> + 'static,
{
    Box::new(move |params| match serde_json::from_slice(params) {
        Ok(params) => {
            let future = handler(params);
            Box::pin(async move {
                match future.await {
                    Ok(result) => Ok(to_json(result).to_string().into_bytes()),
                    Err(error) => Err(input_error(error.to_string())),
                }
            })
        }
        Err(error) => failed(format!("the params of the request are invalid: {error}")),
    })
}

fn failed(text: String) -> InputFuture {
    Box::pin(std::future::ready(Err(input_error(text))))
}

fn input_error(text: String) -> ClientError {
    ClientError::new(ClientErrorKind::Input, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_defaults_are_read_from_schema() {
        let params: ElicitRequestParams = serde_json::from_value(json!({
            "message": "Who?",
            "requestedSchema": { "type": "object", "properties": {
                "name": { "type": "string", "default": "Ada" },
                "age": { "type": "integer" },
                "member": { "type": "boolean", "default": true },
            } },
        }))
        .unwrap();
        let defaults = json!({ "name": "Ada", "member": true });
        assert_eq!(Value::Object(params.defaults()), defaults);
    }

    #[test]
    fn handlers_declare_their_capabilities() {
        let mut handlers = InputHandlers::default();
        assert!(handlers.capabilities().is_empty());
        handlers.set_roots(async || Ok(Vec::new()));
        assert!(handlers.capabilities().contains(ClientCapabilities::ROOTS));
        assert!(!handlers.capabilities().contains(ClientCapabilities::SAMPLING));
    }
}
