//! Reasons why a request before the run got no result.

use std::error::Error;
use std::io::{self, ErrorKind};

use corelane_client::{ClientError, ClientErrorKind};
use corelane_tls::TlsError;

use crate::generator::RunConfig;
use crate::generator::run_config::CONNECT_HINT;
use crate::mcp::HttpField;
use crate::wire::tls::describe_tls_error;

/// Why a request got no result, in one line without secrets.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct RequestError {
    text: String,
    pub(super) cause: RequestCause,
}

/// What a [`RequestError`] tells about the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RequestCause {
    /// The address refuses connections.
    Refused,
    /// There is no connection, for another reason.
    Unopened,
    /// The connection ended first.
    Closed,
    /// There was no response in time.
    Timeout,
    /// The server requires credentials, so that nothing else can be learned.
    Unauthorized,
    /// There is no revision that both know.
    UnknownRevision,
    Other,
}

impl RequestError {
    /// Describes `error` of a client for the run with this configuration.
    pub(super) fn new(error: &ClientError, config: &RunConfig) -> Self {
        let cause = cause_of(error);
        let is_unopened = matches!(cause, RequestCause::Refused | RequestCause::Unopened);
        let text = match (source::<TlsError>(error), source::<io::Error>(error)) {
            (Some(tls), _) => describe_tls_error(tls),
            (None, Some(system)) if is_unopened => match config.endpoint.program() {
                Some(program) => {
                    let name = program.command.first().map_or("", String::as_str);
                    format!("'{name}' cannot be started: {system}")
                }
                None => format!("{system}; {CONNECT_HINT}"),
            },
            _ => error.to_string(),
        };
        let text = HttpField::redact_all(&config.request_settings.fields, text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char });
        Self { text: shown.collect(), cause }
    }

    /// Describes a connection that the system cannot open.
    pub(super) fn unopened(error: &io::Error) -> Self {
        let cause = match error.kind() {
            ErrorKind::ConnectionRefused => RequestCause::Refused,
            _ => RequestCause::Unopened,
        };
        Self { text: format!("{error}; {CONNECT_HINT}"), cause }
    }

    /// Describes a run of one request without an answer, whose text has no secrets.
    pub(super) fn of_run(text: &str) -> Self {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text, cause: RequestCause::Other }
    }

    /// Returns whether there was no connection.
    pub(super) const fn is_unopened(&self) -> bool {
        matches!(self.cause, RequestCause::Refused | RequestCause::Unopened)
    }
}

/// Returns the first source of this type.
fn source<E: Error + 'static>(error: &ClientError) -> Option<&E> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(found) = source.downcast_ref() {
            return Some(found);
        }
        next = source.source();
    }
    None
}

fn cause_of(error: &ClientError) -> RequestCause {
    let cause = || error.source().and_then(<dyn Error>::downcast_ref::<ClientError>);
    match error.kind() {
        ClientErrorKind::Handshake => cause().map_or(RequestCause::UnknownRevision, cause_of),
        ClientErrorKind::Connect => match source::<io::Error>(error).map(io::Error::kind) {
            Some(ErrorKind::ConnectionRefused) => RequestCause::Refused,
            // The upgrade to WebSocket has no answer.
            None if error.source().is_none() => RequestCause::Timeout,
            _ => RequestCause::Unopened,
        },
        ClientErrorKind::InvalidInput | ClientErrorKind::Tls => RequestCause::Unopened,
        ClientErrorKind::Closed => RequestCause::Closed,
        ClientErrorKind::Timeout => RequestCause::Timeout,
        ClientErrorKind::Authorization
        | ClientErrorKind::Unauthorized { .. }
        | ClientErrorKind::Http { status: 403 } => RequestCause::Unauthorized,
        _ => RequestCause::Other,
    }
}
