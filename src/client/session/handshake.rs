//! The handshake: what the client may use, what the server declares, and what follows.
//!
//! MCP 2026-07-28 `basic/versioning`, "Backward compatibility"; 2025-11-25 `basic/lifecycle`.

use std::str::FromStr;
use std::time::Duration;

use corelane_protocol::eras::{
    CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, ClientCapabilities, Method, PROTOCOL_VERSION_KEY,
    SKILLS_EXTENSION,
};
use corelane_protocol::json::{Object, PaddedBuffer, ParseLimits, Parser, Value, write};
use corelane_protocol::model::{Implementation, ServerCapabilities};
use corelane_protocol::revision::Revision;

use crate::error::{ClientError, ClientErrorKind};
use crate::retry::RetryPolicy;

/// Which revisions the client uses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum EraPreference {
    /// 2026-07-28 if the server supports it, else the newest revision that it negotiates.
    #[default]
    Auto,
    /// Only 2026-07-28.
    Modern,
    /// `initialize`, asking for this revision or for 2025-11-25 if it is a modern one.
    Legacy(Revision),
}

/// Reads `auto`, `modern` or a revision, as `--era` of `corelane call` has it.
impl FromStr for EraPreference {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, Revision::parse(text)) {
            ("auto", _) => Ok(Self::Auto),
            ("modern", _) => Ok(Self::Modern),
            (_, Some(revision)) if revision.is_modern() => Ok(Self::Modern),
            (_, Some(revision)) => Ok(Self::Legacy(revision)),
            (_, None) => {
                let known = Revision::ALL.map(Revision::as_str).join(", ");
                let text = format!("write auto, modern, or one of {known}");
                Err(ClientError::new(ClientErrorKind::InvalidInput, text))
            }
        }
    }
}

/// Options of a session, shared by many.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Name and version of the client.
    pub client_info: Implementation,
    /// Which revisions to use. Default [`EraPreference::Auto`].
    pub era: EraPreference,
    /// Time from a call to its response, unless the call has its own. Default 30 s.
    pub request_timeout: Duration,
    /// Time that a server has to answer `server/discover` before the client tries `initialize`
    /// ([`EraPreference::Auto`]). Default 5 s.
    pub discover_timeout: Duration,
    /// Time of the whole handshake on a connection; `server/discover` has at most half of it.
    /// Default `None`: each of its requests has the time of a request.
    pub handshake_timeout: Option<Duration>,
    /// Lets servers answer tool calls with tasks (2026-07-28), whose results the calls wait for.
    /// Default `true`.
    pub tasks: bool,
    /// Requests in flight; further calls wait. Default 1,024. Cost: about 100 bytes each.
    pub in_flight_max: usize,
    /// Calls that wait for the handshake or for a response to others; further calls fail with
    /// [`ClientErrorKind::Busy`](crate::ClientErrorKind::Busy). Default 16,384. Cost: the
    /// encoded params and about 200 bytes each.
    pub waiting_max: usize,
    /// Longest message of the server in bytes. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Which requests are sent again after a failure. Default [`RetryPolicy::safe`].
    pub retry: RetryPolicy,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            client_info: Implementation::new("corelane", env!("CARGO_PKG_VERSION")),
            era: EraPreference::Auto,
            request_timeout: Duration::from_secs(30),
            discover_timeout: Duration::from_secs(5),
            handshake_timeout: None,
            tasks: true,
            in_flight_max: 1_024,
            waiting_max: 16_384,
            message_bytes_max: 16 << 20,
            retry: RetryPolicy::safe(),
        }
    }
}

impl SessionOptions {
    /// Returns the members of `_meta` that every modern request carries, without braces.
    pub(crate) fn modern_meta(&self, capabilities: ClientCapabilities) -> Box<[u8]> {
        let revision = Revision::LATEST;
        let mut out = Vec::new();
        write::string(&mut out, PROTOCOL_VERSION_KEY);
        out.push(b':');
        write::string(&mut out, revision.as_str());
        out.push(b',');
        write::string(&mut out, CLIENT_INFO_KEY);
        out.push(b':');
        self.client_info.write(&mut out, revision);
        out.push(b',');
        write::string(&mut out, CLIENT_CAPABILITIES_KEY);
        out.push(b':');
        capabilities.write_required(&mut out);
        out.into()
    }

    /// Returns the revision to ask for with `initialize`.
    pub(crate) const fn legacy_revision(&self) -> Revision {
        match self.era {
            EraPreference::Legacy(revision) if !revision.is_modern() => revision,
            _ => Revision::LATEST_LEGACY,
        }
    }
}

/// Revision, capabilities and identity of the server, from `server/discover` or `initialize`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The revision of the session.
    pub revision: Revision,
    /// What the server offers. Extensions are in `extensions`.
    pub capabilities: ServerCapabilities,
    /// Extensions of the server and their settings (2026-07-28 and later).
    pub extensions: serde_json::Map<String, serde_json::Value>,
    /// Name and version; `None` if the server sends neither (2026-07-28 does not require them).
    pub implementation: Option<Implementation>,
    /// How to use the server, for the model.
    pub instructions: Option<String>,
    /// Why `server/discover` did not suffice, if `initialize` followed it
    /// ([`EraPreference::Auto`](self::EraPreference::Auto)).
    pub discover_error: Option<String>,
}

impl ServerInfo {
    /// Reads the result of `server/discover`. Returns `None` if it is not one.
    fn read_discover(result: Value<'_>, revision: Revision) -> Option<Self> {
        let result = result.as_object()?;
        result.find("supportedVersions")?.as_array()?;
        let meta = result.find("_meta").and_then(Value::as_object);
        let info = meta.and_then(|meta| meta.find("io.modelcontextprotocol/serverInfo"));
        Self::read(result, info, revision)
    }

    /// Reads the result of `initialize`. Returns `None` if it is not one.
    fn read_initialize(result: Value<'_>, revision: Revision) -> Option<Self> {
        let result = result.as_object()?;
        Self::read(result, result.find("serverInfo"), revision)
    }

    /// Reads JSON of the shape of the result of `initialize`. Returns `None` if it is not.
    #[doc(hidden)]
    pub fn of_result(text: &str, revision: Revision) -> Option<Self> {
        let mut text = PaddedBuffer::new(text.as_bytes().to_vec());
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(text.text()).ok()?;
        Self::read_initialize(document.root(), revision)
    }

    fn read(result: Object<'_>, info: Option<Value<'_>>, revision: Revision) -> Option<Self> {
        let capabilities = result.find("capabilities")?.as_object()?;
        let extensions = capabilities.find("extensions").map(Value::to_json);
        Some(Self {
            revision,
            capabilities: ServerCapabilities::read(capabilities),
            extensions: match extensions {
                Some(serde_json::Value::Object(extensions)) => extensions,
                _ => serde_json::Map::new(),
            },
            implementation: info.and_then(Value::as_object).map(Implementation::read),
            instructions: result.find("instructions").and_then(Value::as_str).map(str::to_owned),
            discover_error: None,
        })
    }

    /// Returns whether tool calls may become tasks.
    pub(crate) const fn offers_tasks(&self) -> bool {
        let has_tasks = self.revision.is_modern() || self.revision.dialect().core_tasks;
        has_tasks && self.capabilities.tasks.is_some()
    }

    /// Returns why `method` cannot be called on this server, or `None` if it can.
    pub(crate) fn missing_support(&self, method: Method) -> Option<String> {
        if let Method::ResourcesDirectoryRead | Method::SkillsList | Method::SkillsGet = method {
            let is_declared = self.extensions.contains_key(SKILLS_EXTENSION);
            return (!is_declared)
                .then(|| format!("the server has no extension {SKILLS_EXTENSION}"));
        }
        // The session itself answers it for a legacy server.
        let is_emulated = method == Method::SubscriptionsListen;
        if !method.is_defined_in(self.revision) && !is_emulated {
            return Some(format!("{} is not part of MCP {}", method.as_str(), self.revision));
        }
        let declared = &self.capabilities;
        let (is_declared, capability) = match method {
            Method::ToolsCall | Method::ToolsList => (declared.tools.is_some(), "tools"),
            Method::ResourcesList | Method::ResourcesRead | Method::ResourcesTemplatesList => {
                (declared.resources.is_some(), "resources")
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                let is_declared = declared.resources.is_some_and(|options| options.subscribe);
                (is_declared, "resources.subscribe")
            }
            Method::PromptsGet | Method::PromptsList => (declared.prompts.is_some(), "prompts"),
            Method::CompletionComplete => {
                // 2024-11-05 has no such capability.
                let is_implied = !self.revision.dialect().completions_capability;
                (declared.completions || is_implied, "completions")
            }
            Method::LoggingSetLevel => (declared.logging, "logging"),
            Method::TasksGet | Method::TasksUpdate | Method::TasksResult => {
                (declared.tasks.is_some(), "tasks")
            }
            Method::TasksList => (declared.tasks.is_some_and(|tasks| tasks.list), "tasks.list"),
            Method::TasksCancel => {
                (declared.tasks.is_some_and(|tasks| tasks.cancel), "tasks.cancel")
            }
            Method::Ping
            | Method::Initialize
            | Method::Discover
            | Method::ResourcesDirectoryRead
            | Method::SkillsList
            | Method::SkillsGet
            | Method::SubscriptionsListen => return None,
        };
        (!is_declared).then(|| {
            format!(
                "the server does not declare the capability \"{capability}\", which {} needs",
                method.as_str()
            )
        })
    }
}

/// Code of `UnsupportedProtocolVersion`.
const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// `server/discover` that `initialize` has followed.
#[derive(Debug)]
pub(super) struct FailedDiscover {
    /// Its id on this connection, where its response may still arrive.
    pub(crate) id: Option<u64>,
    /// Why it did not suffice.
    pub(crate) error: ClientError,
}

impl FailedDiscover {
    /// Returns the error of a handshake that then failed because of `cause`.
    pub(crate) fn explain(&self, cause: ClientError) -> ClientError {
        if concerns_each_method(&cause) {
            return cause;
        }
        let text = format!("{cause}; server/discover: {}", self.error);
        ClientError::with_source(cause.kind(), text, cause)
    }
}

/// The next step of a handshake.
#[derive(Debug)]
pub(super) enum NextStep {
    /// It is complete.
    Ready(Box<ServerInfo>),
    /// Send `server/discover`.
    Discover {
        /// It is sent again if the server refuses the revision that it supports.
        may_repeat: bool,
    },
    /// Send `initialize`.
    Initialize {
        /// Ask for this revision.
        revision: Revision,
        /// Why `server/discover` did not suffice.
        cause: ClientError,
    },
    /// It has failed.
    Fail(ClientError),
}

/// Decides after the response to `server/discover`. `may_repeat` allows to send it again, if the
/// server refuses the revision of the request but lists it as supported.
pub(super) fn after_discover(
    outcome: Result<Value<'_>, Value<'_>>,
    options: &SessionOptions,
    may_repeat: bool,
) -> NextStep {
    let supported = match outcome {
        Ok(result) => result.as_object().and_then(|result| result.find("supportedVersions")),
        Err(error) => unsupported_version_data(error),
    };
    let supports = |revision: Revision| {
        let mut names = supported.and_then(Value::as_array).into_iter().flatten();
        names.any(|name| name.as_str() == Some(revision.as_str()))
    };
    if let Ok(result) = outcome
        && supports(Revision::LATEST)
    {
        return match ServerInfo::read_discover(result, Revision::LATEST) {
            Some(server) => NextStep::Ready(Box::new(server)),
            None => NextStep::Fail(invalid_result("server/discover")),
        };
    }
    if outcome.is_err() && supports(Revision::LATEST) && may_repeat {
        return NextStep::Discover { may_repeat: false };
    }
    if let Err(error) = outcome
        && supported.is_none()
    {
        // A server refuses every method without a valid token, and closes the connection.
        let error = ClientError::from_response(error);
        if let ClientErrorKind::Unauthorized { .. } = error.kind() {
            return NextStep::Fail(error);
        }
    }
    let newest = Revision::ALL.into_iter().rev().find(|revision| supports(*revision));
    let names = supported.and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).take(16).collect();
    match (options.era, newest, outcome) {
        (EraPreference::Auto, Some(revision), _) if !revision.is_modern() => {
            let text = format!("the server supports {}", names.join(", "));
            let cause = ClientError::new(ClientErrorKind::Handshake, text);
            NextStep::Initialize { revision, cause }
        }
        (EraPreference::Auto, None, _) if supported.is_none() => {
            let invalid = |_| invalid_result("server/discover");
            let cause = outcome.map_or_else(ClientError::from_response, invalid);
            NextStep::Initialize { revision: options.legacy_revision(), cause }
        }
        (_, _, Err(error)) if supported.is_none() => {
            NextStep::Fail(handshake_error("server/discover", ClientError::from_response(error)))
        }
        _ => NextStep::Fail(unsupported_revisions(&names)),
    }
}

/// Decides after a failure that is no response: the request timed out, or HTTP refused it.
pub(super) fn after_discover_failure(options: &SessionOptions, error: ClientError) -> NextStep {
    match options.era {
        // Every method needs the same authorization.
        _ if error.kind() == ClientErrorKind::Authorization => NextStep::Fail(error),
        EraPreference::Auto if error.kind() != ClientErrorKind::Tls => {
            NextStep::Initialize { revision: options.legacy_revision(), cause: error }
        }
        _ => NextStep::Fail(handshake_error("server/discover", error)),
    }
}

/// Decides after the response to `initialize`.
pub(super) fn after_initialize(outcome: Result<Value<'_>, Value<'_>>) -> NextStep {
    let result = match outcome {
        Ok(result) => result,
        Err(error) => {
            return NextStep::Fail(handshake_error(
                "initialize",
                ClientError::from_response(error),
            ));
        }
    };
    let version = result.as_object().and_then(|result| result.find("protocolVersion"));
    let Some(version) = version.and_then(Value::as_str) else {
        return NextStep::Fail(invalid_result("initialize"));
    };
    let revision = Revision::parse(version).filter(|revision| !revision.is_modern());
    let Some(revision) = revision else { return NextStep::Fail(unsupported_revisions(&[version])) };
    match ServerInfo::read_initialize(result, revision) {
        Some(server) => NextStep::Ready(Box::new(server)),
        None => NextStep::Fail(invalid_result("initialize")),
    }
}

/// Returns `data.supported` of an unsupported protocol version error.
fn unsupported_version_data(error: Value<'_>) -> Option<Value<'_>> {
    let error = error.as_object()?;
    let code = error.find("code").and_then(Value::as_i64)?;
    if code != UNSUPPORTED_PROTOCOL_VERSION {
        return None;
    }
    error.find("data")?.as_object()?.find("supported")
}

/// A handshake that failed because of `cause`.
pub(super) fn handshake_error(method: &str, cause: ClientError) -> ClientError {
    if concerns_each_method(&cause) {
        return cause;
    }
    let text = format!("the handshake failed at {method}: {cause}");
    ClientError::with_source(ClientErrorKind::Handshake, text, cause)
}

/// Returns whether an error of a handshake does not depend on the request that has failed.
fn concerns_each_method(error: &ClientError) -> bool {
    matches!(
        error.kind(),
        ClientErrorKind::Authorization
            | ClientErrorKind::Unauthorized { .. }
            | ClientErrorKind::Tls
    )
}

fn invalid_result(method: &str) -> ClientError {
    let text = format!("the server answered {method} with an invalid result");
    ClientError::new(ClientErrorKind::Protocol, text)
}

fn unsupported_revisions(offered: &[&str]) -> ClientError {
    let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
    let offered: String = offered.chars().take(200).collect();
    let known = Revision::ALL.map(Revision::as_str).join(", ");
    let text = format!(
        "no revision of MCP that both know: the client knows {known}, the server {offered}"
    );
    ClientError::new(ClientErrorKind::Handshake, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn era_names_revision() {
        for (text, era) in [
            ("auto", EraPreference::Auto),
            ("modern", EraPreference::Modern),
            ("2026-07-28", EraPreference::Modern),
            ("2025-06-18", EraPreference::Legacy(Revision::V2025_06_18)),
        ] {
            assert_eq!(text.parse::<EraPreference>().unwrap(), era);
        }
        let error = "2025".parse::<EraPreference>().unwrap_err();
        assert!(error.message().contains("2024-11-05"), "{error}");
    }
}
