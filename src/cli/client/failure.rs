//! Why a client command failed.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use corelane_client::{ClientError, ClientErrorKind, ParityErrorCode};
use corelane_tls::TlsError;

use super::text::printable;
use crate::cli::{USAGE_EXIT_CODE, print_diagnostic};

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The connection or the call failed.
    Call {
        /// What failed.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A file or standard output could not be written.
    Output(io::Error),
}

impl Failure {
    /// The failure of a call, with what to do.
    pub(crate) fn call(message: impl Into<String>, hint: impl Into<Option<String>>) -> Self {
        Self::Call { message: message.into(), hint: hint.into() }
    }

    /// Replaces what to do, if there is something better.
    pub(crate) fn with_hint(self, better: Option<String>) -> Self {
        match self {
            Self::Call { message, hint } => Self::Call { message, hint: better.or(hint) },
            other => other,
        }
    }

    /// Prints the failure and returns the exit code. A reader that closed standard output early, as
    /// `head` does, is no failure.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                print_diagnostic("error", &printable(message));
                ExitCode::from(USAGE_EXIT_CODE)
            }
            Self::Call { message, hint } => {
                let text = first_line(message, hint.as_deref());
                print_diagnostic("error", &printable(&text));
                ExitCode::FAILURE
            }
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                print_diagnostic("error", &format!("output: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

/// Puts the hint on the first line; the other lines of the message follow.
fn first_line(message: &str, hint: Option<&str>) -> String {
    let message = message.trim_end();
    let Some(hint) = hint else { return message.to_owned() };
    match message.split_once('\n') {
        Some((first, rest)) => format!("{first}; {hint}\n{rest}"),
        None => format!("{message}; {hint}"),
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let hint = match error.kind() {
            _ if is_unauthorized(&error) => {
                Some("log in with --login, or send a token with --token-file or CORELANE_TOKEN")
            }
            // RFC 8707, section 2.
            ClientErrorKind::Authorization if error.message().contains("invalid_target") => {
                Some("log in with --login --no-resource if the login server knows no resources")
            }
            ClientErrorKind::Authorization => Some("log in again with --login"),
            ClientErrorKind::Parity { code: ParityErrorCode::Unauthorized } => {
                Some("send a token with --token-file or CORELANE_TOKEN")
            }
            ClientErrorKind::InvalidInput => return Self::Usage(error.to_string()),
            ClientErrorKind::Connect | ClientErrorKind::Tls if tls_hint(&error).is_some() => {
                tls_hint(&error)
            }
            ClientErrorKind::Connect => Some("check the target, and that the server runs"),
            ClientErrorKind::Handshake => {
                Some("check that the target serves MCP, or name a revision with --era")
            }
            ClientErrorKind::Timeout => Some("allow more time with --timeout"),
            ClientErrorKind::Closed => Some("check that the target serves MCP, and its log"),
            ClientErrorKind::Protocol => Some("check that the target serves MCP"),
            _ => None,
        };
        let after = error.retry_after().map(|time| format!("; retry in {time:?}"));
        let after = after.unwrap_or_default();
        let message = match error.data() {
            Some(data) => format!("{error}{after}\ndata: {data}"),
            None => format!("{error}{after}"),
        };
        Self::call(message, hint.map(str::to_owned))
    }
}

/// Returns whether the server has refused a request without a login.
fn is_unauthorized(error: &ClientError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<ClientError>().map(ClientError::kind);
        if matches!(kind, Some(ClientErrorKind::Unauthorized { .. })) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns what to do about the TLS error behind `error`.
fn tls_hint(error: &ClientError) -> Option<&'static str> {
    error.source()?.downcast_ref::<TlsError>()?.kind().hint()
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes a line to standard error. Write errors are ignored.
pub(crate) fn print_note(text: &str) {
    writeln!(io::stderr(), "{}", printable(text)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_is_on_first_line() {
        assert_eq!(first_line("failed\n", Some("retry")), "failed; retry");
        assert_eq!(first_line("failed\nwhy", Some("retry")), "failed; retry\nwhy");
        assert_eq!(first_line("failed", None), "failed");
    }
}
