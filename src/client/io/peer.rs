//! One server: its session, and the connection under it.
//!
//! Invariants: a connection is opened when a call or a caller of `connect` waits for one, or after
//! a loss if the options say so; a session lasts as long as its connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call_slot::{CallSlot, CallToken, ConnectToken};
use super::commands::{NewCall, PeerId};
use super::connect::{OpenError, RegisteredStreams};
use super::http::{HttpLink, RedirectSender, SessionInput, UpgradeAuthorization};
use super::input_tasks::FinishedInput;
use super::link::{Link, LinkSink, PeerAction};
use super::messages::{ClosingSocket, MessageStream, SessionReceiver, open_stream};
use super::peer_handle::PeerHandle;
use super::process::ExitNotifier;
use super::stream::Loss;
use super::workspace::Workspace;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::oneshot::CloseSlot;
use crate::client::reconnect::{ConnectionEvent, NextAttempt, Reconnection};
use crate::client::session::restart::suspension::{has_waiting, is_idle, suspend};
use crate::client::session::{
    InputKey, RequiredInput, Session, SessionContext, SessionEvent, next_call_id,
};
use crate::client::target::Target;
use crate::engine::executor::Task;
use crate::engine::ring::{Operation, ReceiveBuffer, Ring, Socket};
use crate::protocol::json::PaddedText;
use crate::protocol::revision::Revision;
use crate::transport::websocket::client::handshake::UpgradeRefusal;

#[derive(Debug)]
pub(super) struct Peer {
    id: PeerId,
    handle: PeerHandle,
    session: Session<CallToken>,
    link: Link,
    connect_waiters: Vec<ConnectToken>,
    /// The server is known to negotiate with `initialize`.
    is_legacy: bool,
    /// The timer that is set.
    timer: Option<Instant>,
    /// Handlers of input that run.
    inputs: BTreeMap<InputKey, Task>,
    is_closing: bool,
    reconnection: Reconnection,
    /// Held by the programs that were started, and by sockets that are read to their end.
    exit: Option<Arc<ExitNotifier>>,
    upgrades: UpgradeAuthorization,
}

impl Peer {
    pub(super) fn new(id: PeerId, handle: PeerHandle, sender: RedirectSender, seed: u64) -> Self {
        let is_program = matches!(*handle.target, Target::Stdio(_));
        let reconnection = Reconnection::new(Arc::clone(&handle.reconnect), is_program, seed);
        Self {
            id,
            session: Session::new(Arc::clone(&handle.config)),
            handle,
            link: Link::Idle,
            connect_waiters: Vec::new(),
            is_legacy: false,
            timer: None,
            inputs: BTreeMap::new(),
            is_closing: false,
            reconnection,
            exit: None,
            upgrades: UpgradeAuthorization::new(sender),
        }
    }

    pub(super) const fn handle(&self) -> &PeerHandle {
        &self.handle
    }

    pub(super) const fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Reports the end of the handshake to `slot`.
    pub(super) fn connect(
        &mut self,
        slot: ConnectToken,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        if let Some(server) = self.session.server() {
            slot.complete(Ok(Arc::clone(server)));
            return PeerAction::None;
        }
        self.connect_waiters.push(slot);
        self.need_link(workspace, now)
    }

    /// Makes calls, which it takes from `calls`.
    pub(super) fn call(
        &mut self,
        calls: &mut Vec<NewCall>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        let mut sink = self.link.sink();
        let mut ctx = workspace.context(&mut sink, now);
        for (request, token) in calls.drain(..) {
            token.set_id(next_call_id(&self.session));
            self.session.call(request, token, &mut ctx);
        }
        self.handle_events(workspace, now);
        self.need_link(workspace, now)
    }

    /// Cancels a call whose caller is gone.
    pub(super) fn cancel(&mut self, slot: &CallSlot, workspace: &mut Workspace, now: Instant) {
        if let Some(id) = slot.id() {
            let mut sink = self.link.sink();
            self.session.cancel(id, None, &mut workspace.context(&mut sink, now));
            self.handle_events(workspace, now);
        }
    }

    fn need_link(&mut self, workspace: &mut Workspace, now: Instant) -> PeerAction {
        if !matches!(self.link, Link::Idle) {
            return PeerAction::None;
        }
        let Target::Http(endpoint) = &*self.handle.target else {
            let until = self.reconnection.delayed_until(now);
            self.link = until.map_or(Link::Connecting, Link::Waiting);
            return if until.is_some() { PeerAction::None } else { PeerAction::Connect };
        };
        let seed = self.reconnection.draw_seed();
        self.link = Link::http(endpoint, &self.handle, self.upgrades.redirects(), seed);
        self.start_session(workspace, now);
        PeerAction::None
    }

    fn start_session(&mut self, workspace: &mut Workspace, now: Instant) {
        let mut sink = self.link.sink();
        self.session.start(self.is_legacy, &mut workspace.context(&mut sink, now));
        self.handle_events(workspace, now);
    }

    /// Runs `act` for a server over HTTP, and handles the events of the session.
    pub(super) fn with_http<O>(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(&mut HttpLink, &mut SessionInput<'_, CallToken>) -> O,
    ) -> Option<O> {
        let Link::Http(link) = &mut self.link else { return None };
        let Workspace { parser, buffers, events, .. } = workspace;
        let ctx = SessionContext { now, sink: &mut (), events, buffers };
        let outcome = act(link, &mut SessionInput { session: &mut self.session, parser, ctx });
        self.handle_events(workspace, now);
        Some(outcome)
    }

    /// Starts what can be started. Returns the number of connections to open.
    pub(super) fn advance<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> usize {
        match self.link.take_authorized(&mut self.session, now) {
            Some(Ok(())) => return 1,
            Some(Err(error)) => self.end_session(&error, workspace, now),
            None => {}
        }
        self.with_http(workspace, now, |link, input| link.advance(ring, input)).unwrap_or(0)
    }

    /// Handles the end of an attempt to connect; returns the sockets of the connection.
    pub(super) fn handle_opened<R: Ring>(
        &mut self,
        opened: Result<RegisteredStreams, OpenError>,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        let opened = opened.map_err(|error| error.describe(&self.handle.target));
        if let Target::Http(_) = *self.handle.target {
            return self.handle_http_opened(opened, ring, workspace, now);
        }
        match opened {
            Ok(RegisteredStreams { sockets, mut process, .. }) => {
                if let Some(process) = &mut process {
                    process.hold(self.exit.get_or_insert_default());
                }
                let stream = open_stream(&self.handle, &self.upgrades, ring, sockets, now);
                let is_open = stream.is_open();
                self.link = Link::open(stream, process);
                if is_open {
                    self.start_session(workspace, now);
                }
                Some(sockets)
            }
            Err(error) => {
                self.end_session(&error, workspace, now);
                None
            }
        }
    }

    fn handle_http_opened<R: Ring>(
        &mut self,
        opened: Result<RegisteredStreams, ClientError>,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        let is_ready = self.session.server().is_some() || self.is_closing;
        match (opened, &mut self.link) {
            (Ok(RegisteredStreams { sockets, .. }), Link::Http(link)) => {
                link.handle_connected(ring, sockets[0]);
                return Some(sockets);
            }
            // The session that needed the connection has ended.
            (Ok(streams), _) => ring.submit(Operation::Close(streams.sockets[0])),
            (Err(error), Link::Http(_)) if is_ready => {
                self.with_http(workspace, now, |link, input| {
                    link.handle_connect_failure(&error, input);
                });
            }
            (Err(error), Link::Http(_)) => {
                self.close(ring, false);
                self.end_session(&error, workspace, now);
            }
            (Err(_), _) => {}
        }
        None
    }

    /// Handles received bytes.
    pub(super) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, buffer): (Socket, &ReceiveBuffer),
        workspace: &mut Workspace,
        now: Instant,
    ) {
        let length = buffer.len as usize;
        if let Link::Http(_) | Link::Authorizing(_) = self.link {
            let mut bytes = std::mem::take(&mut workspace.input);
            bytes.clear();
            bytes.extend_from_slice(&ring.bytes(buffer)[..length]);
            self.with_http(workspace, now, |link, input| link.receive(ring, socket, &bytes, input));
            self.link.receive_for_flow(ring, socket, &bytes, now);
            workspace.input = bytes;
            return;
        }
        let text = PaddedText::new(ring.bytes(buffer), length);
        let Some(stream) = self.link.stream_of(socket) else { return };
        let Workspace { parser, buffers, events, .. } = workspace;
        let ctx = SessionContext { now, sink: &mut (), events, buffers };
        let Self { session, is_legacy, .. } = self;
        stream.receive(text, &mut SessionReceiver { session, is_legacy: *is_legacy, parser, ctx });
        self.handle_events(workspace, now);
    }

    /// Handles the last line of a stream that has ended.
    fn receive_last(&mut self, workspace: &mut Workspace, now: Instant) {
        let Some(stream) = self.link.stream() else { return };
        let Workspace { parser, buffers, events, .. } = workspace;
        let ctx = SessionContext { now, sink: &mut (), events, buffers };
        let Self { session, is_legacy, .. } = self;
        let is_legacy = *is_legacy;
        stream.receive_last(&mut SessionReceiver { session, is_legacy, parser, ctx });
        self.handle_events(workspace, now);
    }

    /// Handles the end of a send. Returns `false` if the connection is lost.
    pub(super) fn handle_sent(
        &mut self,
        socket: Socket,
        sent: Result<Vec<u8>, ()>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        if let Link::Http(link) = &mut self.link {
            link.handle_sent(socket, sent.is_err(), now);
        }
        let Some(stream) = self.link.stream_of(socket) else { return true };
        let Ok(buffer) = sent else { return false };
        stream.handle_sent(buffer);
        let mut sink = LinkSink::Stream(stream.output());
        self.session.send_waiting(&mut workspace.context(&mut sink, now));
        self.handle_events(workspace, now);
        true
    }

    /// Handles the end or the failure of a socket. Returns `false` if the connection is lost.
    pub(super) fn handle_socket_end<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        self.with_http(workspace, now, |link, input| link.handle_end(ring, socket, loss, input));
        self.link.handle_flow_end(ring, socket, loss, now);
        self.link.stream_of(socket).is_none()
    }

    /// Handles the loss of the connection. A server that ends it at `server/discover` may be one
    /// that knows only `initialize`: it is connected to again.
    pub(super) fn handle_lost<R: Ring>(
        &mut self,
        ring: &mut R,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> (PeerAction, Option<ClosingSocket>) {
        if loss.is_end_of_stream() {
            self.receive_last(workspace, now);
        }
        if self.reconnection.is_idle_over(now) && is_idle(&self.session) {
            self.reconnection.handle_idle_close().into_iter().for_each(|it| self.handle.report(it));
            self.session = Session::new(Arc::clone(&self.handle.config));
            return (PeerAction::None, self.close(ring, false));
        }
        let failure = self.link.stream().and_then(|stream| stream.failure().cloned());
        let failure = failure.or_else(|| self.session.end_reason().cloned());
        let is_final = loss.tls_error().is_some()
            || failure.as_ref().is_some_and(|error| error.kind() == ClientErrorKind::Protocol);
        let is_known = self.is_legacy || self.reconnection.is_established();
        let may_fall_back = self.session.is_discovering() && !is_known && !is_final;
        let may_fall_back = may_fall_back && loss.may_be_answer();
        let refusal = self.link.stream().and_then(MessageStream::take_refusal);
        let left = self.close(ring, loss.has_ended());
        let error = failure.unwrap_or_else(|| loss.describe(&self.handle.target));
        if may_fall_back {
            self.is_legacy = true;
            self.session.reset_handshake(error);
            self.link = Link::Connecting;
            return (PeerAction::Connect, left);
        }
        if let Some(UpgradeRefusal { status: 200..300 | 404 | 405 | 426 | 501, .. }) =
            refusal.as_deref()
            && let Some(target) = self.handle.target.at_usual_path()
        {
            self.handle.target = Arc::new(target);
            self.link = Link::Connecting;
            return (PeerAction::Connect, left);
        }
        let verdict = self.upgrades.handle_refusal(refusal.as_deref(), &self.handle, now);
        let error = match Link::after_refusal(verdict, &mut self.session, now) {
            Ok(link) => {
                self.link = link;
                return (PeerAction::None, left);
            }
            Err(refused) => refused.unwrap_or(error),
        };
        self.end_session(&error, workspace, now);
        (PeerAction::None, left)
    }

    /// Ends the connection on behalf of the client; `slot` is set once this value is dropped and
    /// its programs have ended.
    pub(super) fn begin_close<R: Ring>(
        &mut self,
        ring: &mut R,
        slot: Option<CloseSlot>,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        self.exit.get_or_insert_default().notify(slot);
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        let error = ClientError::new(ClientErrorKind::Closed, "the client was closed");
        let revision = self.session.server().map(|server| server.revision);
        if let Link::Http(link) = &mut self.link {
            link.begin_close(ring, revision.unwrap_or(Revision::LATEST_LEGACY), now);
        }
        self.reconnection.handle_close(&error).into_iter().for_each(|it| self.handle.report(it));
        self.session.disconnect(error, &mut workspace.events);
        self.handle_events(workspace, now);
    }

    /// Returns whether nothing of the connection is left to end since [`Peer::begin_close`].
    pub(super) fn is_closed(&self) -> bool {
        self.is_closing && self.link.is_closed()
    }

    /// Closes what is left of the connection, of which the input `has_ended` or not. Returns the
    /// socket to read to its end.
    pub(super) fn close<R: Ring>(
        &mut self,
        ring: &mut R,
        has_ended: bool,
    ) -> Option<ClosingSocket> {
        let left = self.link.close(ring, has_ended, self.exit.get_or_insert_default());
        self.link = Link::Idle;
        left
    }

    /// Ends the connection, or the attempt to open one. Calls wait for the next one, or fail.
    fn end_session(&mut self, error: &ClientError, workspace: &mut Workspace, now: Instant) {
        self.link = Link::Idle;
        let (next, event) = self.reconnection.handle_end(error, now);
        self.is_legacy &= self.session.server().is_some() || self.reconnection.is_established();
        if !matches!(*self.handle.target, Target::Http(_)) {
            self.handle.report(event);
        }
        let NextAttempt::At(next) = next else {
            self.session.disconnect(error.clone(), &mut workspace.events);
            self.handle_events(workspace, now);
            self.session = Session::new(Arc::clone(&self.handle.config));
            return;
        };
        let resends = self.reconnection.resends();
        suspend(&mut self.session, error.clone(), resends, now, &mut workspace.events);
        let waiters = self.reconnection.keep_waiters(&mut self.connect_waiters);
        self.handle_events(workspace, now);
        let has_waiters = !waiters.is_empty();
        self.connect_waiters = waiters;
        if self.reconnection.is_eager() || has_waiters || has_waiting(&self.session) {
            self.link = Link::Waiting(next);
        }
    }

    /// Handles an expired timer.
    pub(super) fn expire<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        self.timer = None;
        if self.session.deadline().is_some_and(|deadline| deadline <= now) {
            let mut sink = self.link.sink();
            self.session.expire(&mut workspace.context(&mut sink, now));
            self.handle_events(workspace, now);
        }
        if self.link.expire(ring, now) {
            return self.need_link(workspace, now);
        }
        self.with_http(workspace, now, |link, input| link.expire(ring, input));
        PeerAction::None
    }

    /// Returns the deadline for which a timer must be set.
    pub(super) fn arm_timer(&mut self, now: Instant) -> Option<Instant> {
        let link = self.link.deadline(now);
        let idle = self.reconnection.idle_deadline(|| is_idle(&self.session), now);
        let deadline = Instant::earliest([self.session.deadline(), link, idle])?;
        if self.timer.is_some_and(|timer| timer <= deadline) {
            return None;
        }
        self.timer = Some(deadline);
        Some(deadline)
    }

    /// Returns whether the connection must end although it is open: its session has ended, the
    /// server has violated the protocol, or nothing has been in flight for too long.
    pub(super) fn has_failed(&self, now: Instant) -> bool {
        let is_idle_over = self.reconnection.is_idle_over(now) && is_idle(&self.session);
        let has_ended = is_idle_over || self.session.end_reason().is_some();
        !self.is_closing && self.link.has_failed(has_ended)
    }

    /// Passes on what a handler of input has provided.
    pub(super) fn provide_input(
        &mut self,
        finished: &FinishedInput,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        self.inputs.remove(&finished.key);
        let result = finished.result.as_deref().map_err(Clone::clone);
        let mut sink = self.link.sink();
        self.session.provide_input(finished.key, result, &mut workspace.context(&mut sink, now));
        self.handle_events(workspace, now);
    }

    fn handle_events(&mut self, workspace: &mut Workspace, now: Instant) {
        let Workspace { buffers, events, inputs, ended, .. } = workspace;
        for event in events.drain(..) {
            match event {
                SessionEvent::InputRequired(RequiredInput { key, kind, params }) => {
                    let revision = self.session.server().map(|server| server.revision);
                    let revision = revision.unwrap_or(Revision::LATEST);
                    let input = self.handle.inputs.provide(kind, &params, revision);
                    self.inputs.insert(key, inputs.spawn(self.id, key, input));
                }
                SessionEvent::InputCancelled(key) => drop(self.inputs.remove(&key)),
                SessionEvent::Ready => {
                    let Some(server) = self.session.server() else { continue };
                    self.is_legacy = !server.revision.is_modern();
                    if let Link::Http(link) = &mut self.link {
                        link.handle_ready(server.revision);
                    } else {
                        self.reconnection.handle_ready(now);
                        self.upgrades.handle_ready();
                        self.handle.report(ConnectionEvent::Connected);
                    }
                    for slot in self.connect_waiters.drain(..) {
                        slot.complete(Ok(Arc::clone(server)));
                    }
                }
                SessionEvent::HandshakeFailed(error) => {
                    let waiters = self.connect_waiters.drain(..);
                    waiters.for_each(|slot| slot.complete(Err(error.clone())));
                }
                SessionEvent::Completed { token, result } => {
                    ended.extend(token.end(result, buffers.take_spare()));
                }
                SessionEvent::Progress { token, progress } => token.report_progress(progress),
                SessionEvent::Subscription { token, message } => {
                    self.handle.cache.handle_notification(&message);
                    token.report_message(message);
                }
                SessionEvent::TaskStatus { token, message } => token.report_message(message),
                SessionEvent::Notification(message) => self.handle.notify(message),
                SessionEvent::Repeated(event) => self.handle.report_retry(*event),
                SessionEvent::Violation(text) => {
                    tracing::debug!(target = %self.handle.target, "the server sent {text}");
                }
            }
        }
    }
}
