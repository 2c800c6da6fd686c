//! Handlers of the input that servers require: elicitation, sampling, roots.

use std::error::Error;
use std::fmt;
use std::pin::Pin;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::{ClientError, ClientErrorKind};
use super::session::InputKind;
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::model::{CreateMessageResult, ElicitResult, Root};
use corelane_protocol::revision::Revision;

/// Result of a handler of input; an error is reported to the server as its text.
pub type InputResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// An input being provided: a JSON object, or why there is none.
pub type InputFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, ClientError>>>>;

/// Provides one kind of input, from the params of its request.
type InputHandler = Box<dyn Fn(&[u8]) -> InputFuture + Send + Sync>;

/// An input that one call requires, as the server has asked for it.
#[doc(hidden)]
#[derive(Debug)]
pub struct CallInput {
    pub kind: InputKind,
    /// The params, a JSON object.
    pub params: Vec<u8>,
    /// The revision of the session.
    pub revision: Revision,
}

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

    /// Checks what the mode requires (MCP 2025-11-25 client/elicitation, "Error Handling").
    fn check(&self) -> Result<(), String> {
        match self.mode.as_deref() {
            None | Some("form") => {
                let type_name = self.requested_schema.get("type").map(Value::as_str);
                if self.requested_schema.is_empty() {
                    return Err("requestedSchema is missing".to_owned());
                }
                match type_name {
                    None | Some(Some("object")) => Ok(()),
                    Some(_) => Err("the type of requestedSchema is not object".to_owned()),
                }
            }
            Some("url") if self.url.as_deref().is_none_or(str::is_empty) => {
                Err("url is missing, which the mode url requires".to_owned())
            }
            Some("url") => Ok(()),
            Some(mode) => {
                let mode: String = mode.chars().take(100).collect();
                Err(format!("the mode {mode} is unknown; the client has form and url"))
            }
        }
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
    /// What is declared without a handler: the callers provide it.
    declared: ClientCapabilities,
}

impl InputHandlers {
    pub(super) fn set_elicitation<F, O>(&mut self, handler: F)
    where
        F: Fn(ElicitRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<ElicitResult>> + 'static,
    {
        let check = ElicitRequestParams::check;
        self.elicitation = Some(handler_of(handler, check, |result: ElicitResult| {
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
        let to_json = |result: CreateMessageResult| result.to_json();
        self.sampling = Some(handler_of(handler, |_| Ok(()), to_json));
    }

    pub(super) fn set_roots<F, O>(&mut self, handler: F)
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<Vec<Root>>> + 'static,
    {
        self.roots = Some(handler_of(
            move |_: Map<String, Value>| handler(),
            |_| Ok(()),
            |roots: Vec<Root>| {
                let root = |root: &Root| match &root.name {
                    Some(name) => json!({ "uri": root.uri, "name": name }),
                    None => json!({ "uri": root.uri }),
                };
                json!({ "roots": roots.iter().map(root).collect::<Vec<_>>() })
            },
        ));
    }

    /// Declares what the callers provide.
    pub(super) const fn declare(&mut self, capabilities: ClientCapabilities) {
        self.declared = capabilities;
    }

    /// Returns the capabilities that have handlers, and those that the callers provide.
    pub(super) const fn capabilities(&self) -> ClientCapabilities {
        let mut declared = self.declared;
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

    /// Begins to provide an input to a server of `revision`.
    pub(super) fn provide(
        &self,
        kind: InputKind,
        params: &[u8],
        revision: Revision,
    ) -> InputFuture {
        if kind == InputKind::Elicitation && !revision.dialect().elicitation_url {
            let params: Value = serde_json::from_slice(params).unwrap_or_default();
            if params["mode"] == "url" {
                let text = format!("MCP {} has no mode url", revision.as_str());
                return invalid_params(&text);
            }
        }
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

/// Wraps a handler: reads and checks its params, and writes its result.
fn handler_of<P, R, F, O>(
    handler: F,
    check: fn(&P) -> Result<(), String>,
    to_json: fn(R) -> Value,
) -> InputHandler
where
    P: for<'a> Deserialize<'a> + 'static,
    R: 'static,
    F: Fn(P) -> O + Send + Sync + 'static,
    O: Future<Output = InputResult<R>> + 'static,
{
    let read = move |params: &[u8]| -> Result<P, String> {
        let params = serde_json::from_slice(params).map_err(|error| error.to_string())?;
        check(&params)?;
        Ok(params)
    };
    Box::new(move |params| match read(params) {
        Ok(params) => {
            let future = handler(params);
            Box::pin(async move {
                match future.await {
                    Ok(result) => Ok(to_json(result).to_string().into_bytes()),
                    Err(error) => Err(input_error(error.to_string())),
                }
            })
        }
        Err(error) => invalid_params(&error),
    })
}

/// The failure of a request that violates the protocol: the server gets -32602.
fn invalid_params(reason: &str) -> InputFuture {
    let text = format!("the params of the request are invalid: {reason}");
    Box::pin(std::future::ready(Err(ClientError::new(ClientErrorKind::Protocol, text))))
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
    use corelane_protocol::model::ElicitAction;

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
    fn invalid_elicitation_is_refused() {
        let mut handlers = InputHandlers::default();
        let accepted = || ElicitResult { action: ElicitAction::Decline, content: Map::new() };
        handlers.set_elicitation(move |_| std::future::ready(Ok(accepted())));
        let schema = json!({ "type": "object", "properties": {} });
        let newest = Revision::LATEST_LEGACY;
        for (revision, params, is_valid) in [
            (newest, json!({ "message": "m", "requestedSchema": schema }), true),
            (newest, json!({ "message": "m", "mode": null, "requestedSchema": schema }), true),
            (newest, json!({ "message": "m", "mode": "form", "requestedSchema": schema }), true),
            (newest, json!({ "message": "m", "mode": "url", "url": "https://a" }), true),
            (newest, json!({ "message": "m" }), false),
            (newest, json!({ "message": "m", "requestedSchema": { "type": "string" } }), false),
            (newest, json!({ "message": "m", "requestedSchema": [] }), false),
            (newest, json!({ "requestedSchema": schema }), false),
            (newest, json!({ "message": "m", "mode": "video" }), false),
            (newest, json!({ "message": "m", "mode": "url" }), false),
            (newest, json!({ "message": "m", "mode": "url", "url": "" }), false),
            (newest, json!({ "message": "m", "mode": "url", "url": 7 }), false),
            (
                Revision::V2025_06_18,
                json!({ "message": "m", "mode": "url", "url": "https://a" }),
                false,
            ),
        ] {
            let text = params.to_string();
            let input = handlers.provide(InputKind::Elicitation, text.as_bytes(), revision);
            let kind = crate::block_on(input).err().map(|error| error.kind());
            assert_eq!(kind, (!is_valid).then_some(ClientErrorKind::Protocol), "{params}");
        }
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
