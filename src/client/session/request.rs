//! Requests of the client, and their encoding for each era.

use std::mem;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::error::{ClientError, ClientErrorKind};
use corelane_protocol::eras::{ClientCapabilities, LOG_LEVEL_KEY, LoggingLevel, Method};
use corelane_protocol::json::write;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::request_writer::ExtraFields;

/// A header `Mcp-Param-…` of a tool call: the end of its name, and the argument as plain text.
pub type ParameterField = (Box<str>, Box<str>);

/// What `_meta` of a modern request carries by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModernMeta<'a> {
    /// Encoded members, without braces.
    pub(super) members: &'a [u8],
    pub(super) log_level: Option<LoggingLevel>,
}

/// What a call does with a task of the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TaskMode {
    /// A call that becomes a task ends with the result of the task.
    #[default]
    Follow,
    /// A call that becomes a task ends with the task. A legacy server is asked to keep it for this
    /// time, or as long as it likes.
    Create {
        /// Time from the creation of the task.
        ttl: Option<Duration>,
    },
    /// A call that a legacy server is asked to make a task, and that ends with the result of it.
    CreateAndFollow,
    /// `tasks/get` that ends with the result of the task.
    Await,
}

impl TaskMode {
    /// Returns whether a legacy server is asked for a task.
    pub(crate) const fn creates_task(self) -> bool {
        matches!(self, Self::Create { .. } | Self::CreateAndFollow)
    }

    /// Appends the param of a legacy request, with a comma after it.
    fn write(self, out: &mut Vec<u8>) {
        let ttl = match self {
            Self::Create { ttl } => ttl,
            Self::CreateAndFollow => None,
            Self::Follow | Self::Await => return,
        };
        out.extend_from_slice(br#""task":{"#);
        if let Some(ttl) = ttl {
            out.extend_from_slice(br#""ttl":"#);
            write::unsigned(out, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        out.extend_from_slice(b"},");
    }
}

/// A request to send.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct CallRequest {
    /// The method.
    pub method: Method,
    /// What the request is about: the name of a tool or prompt, the URI of a resource, the id of a
    /// task. HTTP requests repeat it in `Mcp-Name`.
    pub name: Option<String>,
    /// The params as a JSON object, without `_meta`.
    pub params: Vec<u8>,
    /// Members of `_meta` besides those of the protocol, without braces.
    pub meta: Vec<u8>,
    /// Time to the response. Default: that of the session.
    pub timeout: Option<Duration>,
    /// Asks for progress notifications.
    pub wants_progress: bool,
    /// Each progress notification gives the call its whole time again.
    pub is_extended_by_progress: bool,
    /// Reports the states of the task that the call waits for.
    pub wants_task_status: bool,
    /// Arguments that a modern HTTP request repeats in its head.
    pub parameters: Vec<ParameterField>,
    /// Fields that the head of an HTTP request has besides.
    pub fields: ExtraFields,
    /// What becomes of a task.
    pub task: TaskMode,
    /// The result must not be one that the client has kept.
    pub is_fresh: bool,
    /// The result is read from the message as a
    /// [`CallToolResult`](crate::CallToolResult); its text is not kept.
    pub reads_tool_result: bool,
    /// The server has declared that the tool which is called changes nothing, or nothing more the
    /// second time.
    pub is_idempotent: bool,
    /// `meta` has the members of the protocol, too: a modern session adds none.
    pub has_own_meta: bool,
    /// What the caller declares for this call instead of what the client declares for all. The
    /// input that the call requires is provided by the caller.
    pub declared: Option<ClientCapabilities>,
    /// A result that requires input is the response, instead of being answered with input.
    pub returns_input_required: bool,
}

impl CallRequest {
    /// Creates a request without params.
    pub const fn new(method: Method) -> Self {
        Self {
            method,
            name: None,
            params: Vec::new(),
            meta: Vec::new(),
            timeout: None,
            wants_progress: false,
            is_extended_by_progress: false,
            wants_task_status: false,
            parameters: Vec::new(),
            fields: ExtraFields::new(),
            task: TaskMode::Follow,
            is_fresh: false,
            reads_tool_result: false,
            is_idempotent: false,
            has_own_meta: false,
            declared: None,
            returns_input_required: false,
        }
    }

    /// Creates a request about the task `id`.
    pub(crate) fn of_task(method: Method, id: &str) -> Self {
        let mut params = b"{\"taskId\":".to_vec();
        write::string(&mut params, id);
        params.push(b'}');
        Self { name: Some(id.into()), params, ..Self::new(method) }
    }

    /// Creates a request of the method that is called `method`. The params name what it is about.
    pub(crate) fn with_params(
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Self, ClientError> {
        let invalid = |text| ClientError::new(ClientErrorKind::InvalidInput, text);
        let Some(method) = Method::parse(method) else {
            return Err(invalid(format!("{method} is not a method that clients call")));
        };
        let params = match serde_json::to_value(params) {
            Ok(Value::Object(params)) => params,
            Ok(_) => {
                return Err(invalid("the params do not serialize to a JSON object".to_owned()));
            }
            Err(error) => {
                let text = format!("the params do not serialize to JSON: {error}");
                return Err(ClientError::with_source(ClientErrorKind::InvalidInput, text, error));
            }
        };
        let key = match method {
            Method::ToolsCall | Method::PromptsGet => Some("name"),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                Some("uri")
            }
            Method::TasksGet | Method::TasksUpdate | Method::TasksResult | Method::TasksCancel => {
                Some("taskId")
            }
            _ => None,
        };
        let name = key.and_then(|key| params.get(key)).and_then(Value::as_str).map(str::to_owned);
        let params = Value::Object(params).to_string().into_bytes();
        Ok(Self { name, params, ..Self::new(method) })
    }

    /// Makes this a call of a tool, or a request for a prompt, with arguments, in the memory of the
    /// request that it was.
    pub(crate) fn with_arguments(
        mut self: Box<Self>,
        method: Method,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<Box<Self>, ClientError> {
        let (mut params, mut meta) = (mem::take(&mut self.params), mem::take(&mut self.meta));
        let mut owned_name = self.name.take().unwrap_or_default();
        params.clear();
        meta.clear();
        owned_name.clear();
        owned_name.push_str(name);
        let reads_tool_result = method == Method::ToolsCall;
        *self = Self { name: Some(owned_name), meta, reads_tool_result, ..Self::new(method) };
        params.extend_from_slice(b"{\"name\":");
        write::string(&mut params, name);
        params.extend_from_slice(b",\"arguments\":");
        let start = params.len();
        match serde_json::to_writer(&mut params, arguments) {
            Ok(()) if params[start..].starts_with(b"{") => {
                params.push(b'}');
                self.params = params;
                Ok(self)
            }
            Ok(()) => {
                let text = "the arguments do not serialize to a JSON object";
                Err(ClientError::new(ClientErrorKind::InvalidInput, text))
            }
            Err(error) => {
                let text = format!("the arguments do not serialize to JSON: {error}");
                Err(ClientError::with_source(ClientErrorKind::InvalidInput, text, error))
            }
        }
    }

    /// Appends the message. `modern_meta` is that of a modern session.
    pub(super) fn write(&self, out: &mut Vec<u8>, id: u64, modern_meta: Option<ModernMeta<'_>>) {
        let Self { params, meta, wants_progress, task, .. } = self;
        let params = EncodedParams { params, meta, wants_progress: *wants_progress, task: *task };
        params.write_request(out, id, self.method.as_str(), modern_meta);
    }
}

/// The params of a request, encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodedParams<'a> {
    /// A JSON object without `_meta`; empty for none.
    pub params: &'a [u8],
    /// Members of `_meta` besides those of the protocol, without braces.
    pub meta: &'a [u8],
    /// Asks for progress notifications; their token is the id of the request.
    pub wants_progress: bool,
    /// What becomes of a task.
    pub task: TaskMode,
}

impl EncodedParams<'_> {
    /// Appends the request. `modern_meta` is that of a modern session.
    pub(super) fn write_request(
        &self,
        out: &mut Vec<u8>,
        id: u64,
        method: &str,
        modern_meta: Option<ModernMeta<'_>>,
    ) {
        let modern_members = modern_meta.map_or(&[][..], |meta| meta.members);
        out.reserve(self.params.len() + self.meta.len() + modern_members.len() + 192);
        write_head(out, Some(id), method);
        let has_meta = modern_meta.is_some() || !self.meta.is_empty() || self.wants_progress;
        let members = self.params.strip_prefix(b"{").unwrap_or(b"}");
        if !has_meta {
            if !self.params.is_empty() {
                out.extend_from_slice(br#","params":{"#);
                self.task.write(out);
                out.extend_from_slice(members);
            }
            out.push(b'}');
            return;
        }
        out.extend_from_slice(br#","params":{"_meta":{"#);
        let start = out.len();
        if self.wants_progress {
            out.extend_from_slice(br#""progressToken":"#);
            write::unsigned(out, id);
        }
        for part in [self.meta, modern_members] {
            if !part.is_empty() {
                if out.len() > start {
                    out.push(b',');
                }
                out.extend_from_slice(part);
            }
        }
        if let Some(level) = modern_meta.and_then(|meta| meta.log_level) {
            out.push(b',');
            write::string(out, LOG_LEVEL_KEY);
            out.push(b':');
            write::string(out, level.as_str());
        }
        out.push(b'}');
        if members.trim_ascii_start() != b"}" {
            out.push(b',');
        }
        if modern_meta.is_none() {
            self.task.write(out);
        }
        out.extend_from_slice(members);
        out.push(b'}');
    }
}

/// Appends a message up to its params.
fn write_head(out: &mut Vec<u8>, id: Option<u64>, method: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        write::unsigned(out, id);
        out.push(b',');
    }
    out.extend_from_slice(br#""method":"#);
    write::string(out, method);
}

/// Appends a notification without params.
pub(super) fn write_notification(out: &mut Vec<u8>, method: &str) {
    write_head(out, None, method);
    out.push(b'}');
}

/// Appends `initialize`. `capabilities`, `client_info`, and the member `auth_token`, which may be
/// empty, are encoded.
pub(super) fn write_initialize(
    out: &mut Vec<u8>,
    id: u64,
    revision: Revision,
    [capabilities, client_info, auth_token]: [&[u8]; 3],
) {
    write_head(out, Some(id), Method::Initialize.as_str());
    out.extend_from_slice(br#","params":{"protocolVersion":"#);
    write::string(out, revision.as_str());
    out.extend_from_slice(br#","capabilities":"#);
    out.extend_from_slice(capabilities);
    out.extend_from_slice(br#","clientInfo":"#);
    out.extend_from_slice(client_info);
    if !auth_token.is_empty() {
        out.push(b',');
        out.extend_from_slice(auth_token);
    }
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(request: &CallRequest, members: Option<&[u8]>) -> String {
        let mut out = Vec::new();
        let modern_meta = members.map(|members| ModernMeta { members, log_level: None });
        request.write(&mut out, 7, modern_meta);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn params_name_what_request_is_about() {
        for (method, params, name) in [
            ("tools/call", json!({ "name": "a", "arguments": {} }), Some("a")),
            ("resources/read", json!({ "uri": "test://a" }), Some("test://a")),
            ("tasks/get", json!({ "taskId": "7" }), Some("7")),
            ("tools/list", json!({ "cursor": "a" }), None),
        ] {
            let request = CallRequest::with_params(method, &params).unwrap();
            assert_eq!((request.method.as_str(), request.name.as_deref()), (method, name));
            assert_eq!(request.params, params.to_string().into_bytes());
        }
        for (method, params) in [("tools/none", json!({})), ("ping", json!([]))] {
            let error = CallRequest::with_params(method, &params).unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{method}");
        }
    }

    #[test]
    fn legacy_request_has_no_meta() {
        let mut request = CallRequest::new(Method::Ping);
        assert_eq!(written(&request, None), r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
        request.params = b"{}".to_vec();
        assert_eq!(
            written(&request, None),
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}"#
        );
    }

    #[test]
    fn meta_precedes_params_of_request() {
        let mut request = CallRequest::new(Method::ToolsCall);
        let modern = Some(&br#""v":"1""#[..]);
        let params =
            |text: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call",{text}}}"#);
        assert_eq!(written(&request, modern), params(r#""params":{"_meta":{"v":"1"}}"#));
        request.params = br#"{"name":"a"}"#.to_vec();
        request.wants_progress = true;
        assert_eq!(
            written(&request, None),
            params(r#""params":{"_meta":{"progressToken":7},"name":"a"}"#)
        );
        request.meta = br#""t":2"#.to_vec();
        assert_eq!(
            written(&request, modern),
            params(r#""params":{"_meta":{"progressToken":7,"t":2,"v":"1"},"name":"a"}"#)
        );
    }
}
