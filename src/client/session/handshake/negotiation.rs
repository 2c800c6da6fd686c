//! Which revision a session uses: what follows from the server's answer to `server/discover` and
//! to `initialize`.
//!
//! MCP 2026-07-28 `basic/versioning`, "Backward compatibility"; 2025-11-25 `basic/lifecycle`.

use super::options::{EraPreference, SessionOptions};
use super::server_info::ServerInfo;
use crate::error::{ClientError, ClientErrorKind};
use corelane_protocol::json::Value;
use corelane_protocol::revision::Revision;

/// Code of `UnsupportedProtocolVersion`.
const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// `server/discover` that `initialize` has followed.
#[derive(Debug)]
pub(crate) struct FailedDiscover {
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
pub(crate) enum NextStep {
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
pub(crate) fn after_discover(
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
pub(crate) fn after_discover_failure(options: &SessionOptions, error: ClientError) -> NextStep {
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
pub(crate) fn after_initialize(outcome: Result<Value<'_>, Value<'_>>) -> NextStep {
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
pub(crate) fn handshake_error(method: &str, cause: ClientError) -> ClientError {
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
