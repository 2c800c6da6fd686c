//! The dialect that most servers speak: MCP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::call_slot::{CallOutcome, CallSlot, CallToken};
use super::commands::NewCall;
use super::http::StreamableHttp;
use super::peer_settings::{PeerId, PeerSettings};
use super::protocol::{ClientProtocol, HandshakeEnd, Step};
use super::tasks::FinishedInput;
use super::workspace::Workspace;
use crate::error::ClientError;
use crate::inputs::CallInput;
use crate::reconnect::Reconnection;
use crate::session::{
    InputKey, RequiredInput, ServerInfo, Session, SessionConfig, SessionContext, SessionEvent,
};
use corelane_base::time::Instant;
use corelane_engine::executor::Task;
use corelane_protocol::json::PaddedText;
use corelane_protocol::revision::Revision;

/// The session with one server.
#[derive(Debug)]
pub(super) struct Mcp {
    id: PeerId,
    session: Session<CallToken>,
    config: Arc<SessionConfig>,
    /// The server is known to negotiate with `initialize`.
    is_legacy: bool,
    /// Handlers of input that run.
    inputs: BTreeMap<InputKey, Task>,
}

impl Mcp {
    /// Creates the session of the peer `id`.
    pub(super) fn new(id: PeerId, config: &Arc<SessionConfig>) -> Self {
        let (session, config) = (Session::new(Arc::clone(config)), Arc::clone(config));
        Self { id, session, config, is_legacy: false, inputs: BTreeMap::new() }
    }

    /// Makes calls, which it takes from `calls`.
    pub(super) fn call(&mut self, calls: &mut Vec<NewCall>, step: &mut Step<'_, Self>) {
        let mut ctx = step.workspace.context(&mut step.sink, step.now);
        for NewCall { request, token } in calls.drain(..) {
            token.set_id(self.session.next_call_id());
            self.session.call(request, token, &mut ctx);
        }
    }

    /// Cancels a call whose caller is gone.
    pub(super) fn cancel(&mut self, slot: &CallSlot, step: &mut Step<'_, Self>) {
        if let Some(id) = slot.id() {
            let mut ctx = step.workspace.context(&mut step.sink, step.now);
            self.session.cancel(id, None, &mut ctx);
        }
    }

    /// Passes on what a handler of input has provided.
    pub(super) fn provide_input(&mut self, finished: &FinishedInput, step: &mut Step<'_, Self>) {
        self.inputs.remove(&finished.key);
        let result = finished.result.as_deref().map_err(Clone::clone);
        let mut ctx = step.workspace.context(&mut step.sink, step.now);
        self.session.provide_input(finished.key, result, &mut ctx);
    }
}

impl ClientProtocol for Mcp {
    type Server = ServerInfo;
    type Event = SessionEvent<CallToken>;
    type Session = Session<CallToken>;
    type Http = StreamableHttp;

    const ENDS_WITH_HTTP: bool = false;

    fn server(&self) -> Option<&Arc<ServerInfo>> {
        self.session.server()
    }

    fn failure(&self) -> Option<&ClientError> {
        self.session.end_reason()
    }

    fn end_error(&mut self, stream: Option<ClientError>) -> Option<ClientError> {
        stream.or_else(|| self.session.end_reason().cloned())
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    fn has_waiting(&self) -> bool {
        self.session.has_waiting()
    }

    fn start(&mut self, step: &mut Step<'_, Self>) {
        let mut ctx = step.workspace.context(&mut step.sink, step.now);
        self.session.start(self.is_legacy, &mut ctx);
    }

    #[inline]
    fn receive(&mut self, text: PaddedText<'_>, step: &mut Step<'_, Self>) {
        let Workspace { parser, buffers, events, .. } = &mut *step.workspace;
        let mut ctx = SessionContext { now: step.now, sink: &mut step.sink, events, buffers };
        self.session.receive(text, parser, &mut ctx);
    }

    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, step: &mut Step<'_, Self>) {
        let mut ctx = step.workspace.context(&mut step.sink, step.now);
        ctx.events.push(SessionEvent::Violation("a message longer than message_bytes_max"));
        if let Some(id) = id {
            self.session.fail_request(id, error, &mut ctx);
        }
    }

    fn send_waiting(&mut self, step: &mut Step<'_, Self>) {
        self.session.send_waiting(&mut step.workspace.context(&mut step.sink, step.now));
    }

    fn expire(&mut self, step: &mut Step<'_, Self>) {
        self.session.expire(&mut step.workspace.context(&mut step.sink, step.now));
    }

    fn handle_end(&mut self, _error: &ClientError, is_established: bool) {
        self.is_legacy &= self.session.server().is_some() || is_established;
    }

    fn suspend(
        &mut self,
        error: &ClientError,
        reconnection: &Reconnection,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Duration {
        let (resends, events) = (reconnection.resends(), &mut workspace.events);
        self.session.suspend(error.clone(), resends, now, events);
        Duration::ZERO
    }

    fn end(&mut self, error: &ClientError, workspace: &mut Workspace) {
        self.session.disconnect(error.clone(), &mut workspace.events);
    }

    fn reset(&mut self) {
        self.session = Session::new(Arc::clone(&self.config));
    }

    /// A server that ends the connection at `server/discover` may be one that knows only
    /// `initialize`.
    fn fall_back(&mut self, error: &ClientError) -> bool {
        if self.is_legacy || !self.session.is_discovering() {
            return false;
        }
        self.is_legacy = true;
        self.session.reset_handshake(error.clone());
        true
    }

    fn pause(&mut self, now: Instant) {
        self.session.pause(now);
    }

    fn resume(&mut self, now: Instant) {
        self.session.resume(now);
    }

    fn session(&mut self) -> &mut Session<CallToken> {
        &mut self.session
    }

    fn events(workspace: &mut Workspace) -> &mut Vec<Self::Event> {
        &mut workspace.events
    }

    fn handle_session_event(
        &mut self,
        event: Self::Event,
        settings: &PeerSettings,
        workspace: &mut Workspace,
    ) -> Option<HandshakeEnd> {
        match event {
            SessionEvent::InputRequired(RequiredInput { key, kind, params }) => {
                let revision = self.session.server().map(|server| server.revision);
                let revision = revision.unwrap_or(Revision::LATEST);
                let input = CallInput { kind, params, revision };
                let provided = match self.session.input_caller(key) {
                    Some(call) => call.provide(input),
                    None => Err(input),
                };
                let input = provided.unwrap_or_else(|CallInput { kind, params, revision }| {
                    settings.inputs.provide(kind, &params, revision)
                });
                self.inputs.insert(key, workspace.inputs.spawn(self.id, key, input));
            }
            SessionEvent::InputCancelled(key) => drop(self.inputs.remove(&key)),
            SessionEvent::Ready => {
                self.is_legacy = !self.session.server()?.revision.is_modern();
                return Some(HandshakeEnd::Ready);
            }
            SessionEvent::HandshakeFailed(error) => return Some(HandshakeEnd::Failed(error)),
            SessionEvent::Completed { token, result } => {
                let spare = workspace.buffers.take_spare();
                workspace.ended.extend(token.end(CallOutcome { result, spare }));
            }
            SessionEvent::Progress { token, progress } => token.report_progress(progress),
            SessionEvent::Subscription { token, message } => {
                settings.cache.handle_notification(&message);
                token.report_message(message);
            }
            SessionEvent::TaskStatus { token, message } => token.report_message(message),
            SessionEvent::Notification(message) => settings.notify(message),
            SessionEvent::Repeated(event) => settings.report_retry(*event),
            SessionEvent::Violation(text) => {
                tracing::debug!(target = %settings.target, "the server sent {text}");
            }
        }
        None
    }
}
