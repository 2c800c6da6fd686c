//! The handshake of the parity dialect: a session of the library's client up to Ready.

use corelane_parity::capabilities::{Capabilities, Feature};
use corelane_parity::client_session::{ClientEvent, ClientSession};
use corelane_parity::envelope::Envelope;
use corelane_parity::machine::State;
use corelane_protocol::json::Value;
use corelane_protocol::model::Implementation;

use super::{ConnectError, SessionResult};
use crate::mcp::parity::failure_of;
use crate::mcp::parity::messages::MessageReader;
use crate::mcp::request_settings::RequestSettings;
use crate::metrics::outcome::Failure;
use crate::target::Transport;

/// What a run uses of the dialect.
const FEATURES: [Feature; 5] = [
    Feature::Tools,
    Feature::Resources,
    Feature::Prompts,
    Feature::Streaming,
    Feature::Cancellation,
];

/// A session before its first request.
#[derive(Debug, Default)]
pub(super) struct ParitySession {
    session: ClientSession,
    reader: MessageReader,
}

impl ParitySession {
    /// Returns the handshake, framed.
    pub(super) fn start(&mut self, settings: &RequestSettings) -> Vec<u8> {
        let is_lines = matches!(settings.transport, Transport::Tcp | Transport::Stdio);
        let auth_token = settings.auth_token().filter(|_| is_lines);
        let client_info = ("corelane-load", env!("CARGO_PKG_VERSION"));
        let mut text = Vec::new();
        let resume = settings.offers_resume.then_some(Feature::Resume);
        let offered = Capabilities::of(FEATURES.into_iter().chain(resume));
        let result = self.session.connect(&mut text, &offered, client_info, auth_token);
        debug_assert!(result.is_ok(), "a new session has no transport");
        settings.frame(&text)
    }

    /// Handles a message of the server.
    pub(super) fn receive(&mut self, settings: &RequestSettings, text: &[u8]) -> SessionResult {
        let garbage = || SessionResult::Failed(ConnectError::new(Failure::Garbage, text));
        let session = &mut self.session;
        self.reader.read(text, |envelope| match envelope {
            None => garbage(),
            Some(Envelope::Response(response)) => match response.outcome {
                Err(error) => refused(error),
                Ok(_) => garbage(),
            },
            Some(envelope) => {
                if let Envelope::HandshakeAck(ack) = &envelope {
                    settings.record_server(|| implementation(ack.server_info?));
                }
                match session.receive(envelope) {
                    Ok(ClientEvent::Error(error)) => refused(error),
                    Ok(_) => SessionResult::Continue,
                    Err(_) => garbage(),
                }
            }
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.state() == State::Ready
    }
}

/// Returns name and version of a server from its `serverInfo`.
fn implementation(info: Value<'_>) -> Option<Implementation> {
    let info = info.as_object()?;
    let version = info.find("version").and_then(Value::as_str);
    Some(Implementation::new(info.find("name")?.as_str()?, version.unwrap_or_default()))
}

/// Returns the failure of a handshake that the server has refused with this error object.
fn refused(error: Value<'_>) -> SessionResult {
    let message = error.as_object().and_then(|error| error.find("message")?.as_str());
    let retry_after = error.as_object().and_then(|error| error.find("retryAfter")?.as_f64());
    let message = message.unwrap_or("no message");
    let message = match retry_after {
        Some(seconds) => format!("{message}; retry after {seconds} s"),
        None => message.to_owned(),
    };
    SessionResult::Failed(ConnectError::new(failure_of(error), message.as_bytes()))
}
