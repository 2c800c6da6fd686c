//! The session with a server of the parity dialect, on an I/O thread.

mod http;

use std::sync::Arc;
use std::time::Duration;

use self::http::ParityHttp;
use super::call_slot::run_callback;
use super::commands::{NewParityCall, ParityEvent, ParityEventCallback, ParitySlot, ParityToken};
use super::peer_settings::PeerSettings;
use super::protocol::{ClientProtocol, HandshakeEnd, Step};
use super::workspace::Workspace;
use crate::error::ClientError;
use crate::parity_session::{ParityConfig, ParityServerInfo, ParitySession, ParitySessionEvent};
use crate::reconnect::Reconnection;
use crate::session::CallId;
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedText;

/// The session with one server.
pub struct Parity {
    session: ParitySession<ParityToken>,
    on_event: Option<ParityEventCallback>,
}

impl Parity {
    /// Creates a session without a connection. `seed` determines its delays.
    pub fn new(
        config: Arc<ParityConfig>,
        on_event: Option<ParityEventCallback>,
        seed: u64,
    ) -> Self {
        Self { session: ParitySession::new(config, seed), on_event }
    }

    /// Makes a request.
    pub fn call(&mut self, call: NewParityCall, step: &mut Step<'_, Self>) {
        let NewParityCall { request, token } = call;
        token.set_id(CallId(self.session.next_id()));
        let mut ctx = step.workspace.parity.context(&mut step.sink, step.now);
        self.session.call(request, token, &mut ctx);
    }

    /// Cancels a request.
    pub fn cancel(&mut self, slot: &ParitySlot, step: &mut Step<'_, Self>) {
        if let Some(CallId(id)) = slot.id() {
            let mut ctx = step.workspace.parity.context(&mut step.sink, step.now);
            self.session.cancel(id, &mut ctx);
        }
    }

    /// Replaces the token of the caller.
    pub fn set_auth_token(&mut self, token: &str) {
        self.session.set_auth_token(token);
    }

    fn report(&self, event: impl FnOnce() -> ParityEvent) {
        if let Some(on_event) = &self.on_event {
            let event = event();
            run_callback(|| on_event(event));
        }
    }
}

impl ClientProtocol for Parity {
    type Server = ParityServerInfo;
    type Event = ParitySessionEvent<ParityToken>;
    type Session = ParitySession<ParityToken>;
    type Http = ParityHttp;

    /// Chunks may be lost with the event stream.
    const ENDS_WITH_HTTP: bool = true;

    fn server(&self) -> Option<&Arc<ParityServerInfo>> {
        self.session.server()
    }

    fn failure(&self) -> Option<&ClientError> {
        self.session.failure()
    }

    fn end_error(&mut self, stream: Option<ClientError>) -> Option<ClientError> {
        let failure = self.session.failure().cloned();
        failure.or_else(|| self.session.take_server_error()).or(stream)
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    fn has_waiting(&self) -> bool {
        !self.session.is_idle()
    }

    fn start(&mut self, step: &mut Step<'_, Self>) {
        self.session.connect(&mut step.workspace.parity.context(&mut step.sink, step.now));
    }

    fn receive(&mut self, text: PaddedText<'_>, step: &mut Step<'_, Self>) {
        let Workspace { parser, parity, .. } = &mut *step.workspace;
        self.session.receive(text, parser, &mut parity.context(&mut step.sink, step.now));
    }

    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, step: &mut Step<'_, Self>) {
        if let Some(id) = id {
            let mut ctx = step.workspace.parity.context(&mut step.sink, step.now);
            self.session.fail_request(id, error, &mut ctx);
        }
    }

    fn send_waiting(&mut self, step: &mut Step<'_, Self>) {
        self.session.send_waiting(&mut step.workspace.parity.context(&mut step.sink, step.now));
    }

    fn expire(&mut self, step: &mut Step<'_, Self>) {
        self.session.expire(&mut step.workspace.parity.context(&mut step.sink, step.now));
    }

    fn handle_end(&mut self, error: &ClientError, _is_established: bool) {
        self.report(|| ParityEvent::Disconnected { reason: error.clone() });
    }

    fn suspend(
        &mut self,
        error: &ClientError,
        _reconnection: &Reconnection,
        workspace: &mut Workspace,
        _now: Instant,
    ) -> Duration {
        self.session.disconnect(error, &mut workspace.parity.events);
        error.retry_after().unwrap_or_default()
    }

    fn end(&mut self, error: &ClientError, workspace: &mut Workspace) {
        self.session.end(error, &mut workspace.parity.events);
    }

    fn session(&mut self) -> &mut ParitySession<ParityToken> {
        &mut self.session
    }

    fn events(workspace: &mut Workspace) -> &mut Vec<Self::Event> {
        &mut workspace.parity.events
    }

    fn handle_session_event(
        &mut self,
        event: Self::Event,
        settings: &PeerSettings,
        workspace: &mut Workspace,
    ) -> Option<HandshakeEnd> {
        match event {
            ParitySessionEvent::Ready => {
                let server = Arc::clone(self.session.server()?);
                self.report(|| ParityEvent::Ready(server));
                return Some(HandshakeEnd::Ready);
            }
            ParitySessionEvent::Restarted { reason } => {
                self.report(|| ParityEvent::Restarted { reason });
            }
            ParitySessionEvent::Retried { error } => self.report(|| ParityEvent::Retried { error }),
            ParitySessionEvent::Completed { token, result } => {
                workspace.ended.extend(token.end(result));
            }
            ParitySessionEvent::Chunk { token, chunk } => token.report_chunk(chunk),
            ParitySessionEvent::Violation(text) => {
                tracing::debug!(target = %settings.target, "the server sent {text}");
            }
        }
        None
    }
}
