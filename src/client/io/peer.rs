//! One server: its session, and the connection under it.
//!
//! Invariants: a connection is opened when a request or a caller of `connect` waits for one, or
//! after a loss if requests or the options say so; what outlives a connection, the session decides.

use std::io;
use std::sync::Arc;

use super::call_slot::ConnectToken;
use super::connect::{OpenError, RegisteredStreams};
use super::http::{
    FlowRun, HttpLink, HttpRules, RedirectSender, SessionAccess, UpgradeAuthorization,
};
use super::link::{Link, LinkSink, PeerAction};
use super::loss::Loss;
use super::messages::{ClosingSocket, MessageReceiver, MessageStream, StreamOutput, open_stream};
use super::peer_io::PeerIo;
use super::peer_settings::PeerSettings;
use super::process::ExitNotifier;
use super::protocol::{ClientProtocol, HandshakeEnd, Step};
use super::workspace::Workspace;
use crate::error::{ClientError, ClientErrorKind};
use crate::reconnect::{ConnectionEvent, NextAttempt, Reconnection};
use crate::sync::CloseSlot;
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, ReceiveBuffer, Ring, Socket};
use corelane_engine::stream::Sent;
use corelane_protocol::json::PaddedText;
use corelane_transport::websocket::client::UpgradeRefusal;

pub(super) struct Peer<P: ClientProtocol> {
    settings: PeerSettings,
    protocol: P,
    link: Link<P::Http>,
    connect_waiters: Vec<ConnectToken<P::Server>>,
    /// The timer that is set.
    timer: Option<Instant>,
    is_closing: bool,
    reconnection: Reconnection,
    /// Held by the programs that were started, and by sockets that are read to their end.
    exit: Option<Arc<ExitNotifier>>,
    upgrades: UpgradeAuthorization,
}

/// Requests.
impl<P: ClientProtocol> Peer<P> {
    /// Creates a server that is not connected. `seed` determines its delays, and the seed that the
    /// session is created with.
    pub(super) fn new(
        settings: PeerSettings,
        redirects: RedirectSender,
        seed: u64,
        protocol: impl FnOnce(&PeerSettings, &mut Reconnection) -> P,
    ) -> Self {
        let is_program = matches!(*settings.target, Target::Stdio(_));
        let mut reconnection = Reconnection::new(Arc::clone(&settings.reconnect), is_program, seed);
        Self {
            protocol: protocol(&settings, &mut reconnection),
            settings,
            link: Link::Idle,
            connect_waiters: Vec::new(),
            timer: None,
            is_closing: false,
            reconnection,
            exit: None,
            upgrades: UpgradeAuthorization::new(redirects),
        }
    }

    /// Reports the end of the handshake to `token`.
    pub(super) fn connect(
        &mut self,
        token: ConnectToken<P::Server>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        if let Some(server) = self.protocol.server() {
            token.complete(Ok(Arc::clone(server)));
            return PeerAction::None;
        }
        self.connect_waiters.push(token);
        self.need_link(workspace, now)
    }

    /// Makes requests, which need a connection.
    pub(super) fn make_requests(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(&mut P, &mut Step<'_, P>),
    ) -> PeerAction {
        self.run(workspace, now, act);
        self.need_link(workspace, now)
    }

    /// Runs an operation of the session, and handles its events.
    pub(super) fn run(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(&mut P, &mut Step<'_, P>),
    ) {
        let sink = self.link.sink();
        act(&mut self.protocol, &mut Step { sink, workspace: &mut *workspace, now });
        self.handle_events(workspace, now);
    }

    /// Runs an operation of the HTTP connections, if there are any, and handles its events.
    fn with_http<O>(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(&mut HttpLink<P::Http>, &mut SessionAccess<'_, P::Session>) -> O,
    ) -> Option<O> {
        let Link::Http(link) = &mut self.link else { return None };
        let session = self.protocol.session();
        let outcome = act(link, &mut SessionAccess { session, workspace: &mut *workspace, now });
        self.handle_events(workspace, now);
        Some(outcome)
    }

    /// Returns whether the connection is one that is lost and opened again, unlike those of HTTP
    /// whose loss ends an exchange only.
    fn has_one_connection(&self) -> bool {
        P::ENDS_WITH_HTTP || !matches!(*self.settings.target, Target::Http(_))
    }

    fn need_link(&mut self, workspace: &mut Workspace, now: Instant) -> PeerAction {
        if !matches!(self.link, Link::Idle) || self.is_closing {
            return PeerAction::None;
        }
        let until = self.reconnection.delayed_until(now);
        if let Some(until) = until.filter(|_| self.has_one_connection()) {
            self.link = Link::Waiting(until);
            return PeerAction::None;
        }
        let Target::Http(endpoint) = &*self.settings.target else {
            self.link = Link::Connecting;
            return PeerAction::Connect;
        };
        let (seed, redirects) = (self.reconnection.draw_seed(), self.upgrades.redirects());
        let http = HttpLink::new(endpoint, &self.settings, redirects, seed);
        self.link = Link::Http(Box::new(http));
        self.run(workspace, now, P::start);
        PeerAction::None
    }

    fn is_idle_over(&self, now: Instant) -> bool {
        self.reconnection.is_idle_over(now) && self.protocol.is_idle()
    }

    fn handle_events(&mut self, workspace: &mut Workspace, now: Instant) {
        let mut events = std::mem::take(P::events(workspace));
        for event in events.drain(..) {
            match self.protocol.handle_session_event(event, &self.settings, workspace) {
                None => {}
                Some(HandshakeEnd::Ready) => self.handle_ready(now),
                Some(HandshakeEnd::Failed(error)) => self.fail_waiters(&error),
            }
        }
        *P::events(workspace) = events;
    }

    fn handle_ready(&mut self, now: Instant) {
        let Some(server) = self.protocol.server() else { return };
        if let Link::Http(link) = &mut self.link {
            link.rules.handle_ready(server);
        }
        if self.has_one_connection() {
            self.reconnection.handle_ready(now);
            self.upgrades.handle_ready();
            self.settings.report(ConnectionEvent::Connected);
        }
        let waiters = self.connect_waiters.drain(..);
        waiters.for_each(|token| token.complete(Ok(Arc::clone(server))));
    }

    fn fail_waiters(&mut self, error: &ClientError) {
        let waiters = self.connect_waiters.drain(..);
        waiters.for_each(|token| token.complete(Err(error.clone())));
    }
}

/// The end of a connection.
impl<P: ClientProtocol> Peer<P> {
    /// Handles the last line of a stream that has ended.
    fn receive_last(&mut self, workspace: &mut Workspace, now: Instant) {
        let Self { settings, protocol, link, .. } = self;
        let Some(stream) = link.stream() else { return };
        stream.receive_last(&mut SessionReceiver { protocol, settings, workspace, now });
        self.handle_events(workspace, now);
    }

    /// Closes an idle connection.
    fn end_idle(&mut self, workspace: &mut Workspace, now: Instant) {
        self.reconnection.handle_idle_close().into_iter().for_each(|it| self.settings.report(it));
        let error = ClientError::new(ClientErrorKind::Closed, "the connection was idle");
        self.end(&error, workspace, now);
    }

    /// Fails what waits; the next request begins anew.
    fn end(&mut self, error: &ClientError, workspace: &mut Workspace, now: Instant) {
        self.protocol.end(error, workspace);
        self.handle_events(workspace, now);
        self.fail_waiters(error);
        self.protocol.reset();
    }

    /// Returns the link that follows a refused upgrade to WebSocket, or why there is none.
    fn follow_refusal(
        &mut self,
        refusal: Option<&UpgradeRefusal>,
        now: Instant,
    ) -> Result<Link<P::Http>, Option<ClientError>> {
        let link = self.upgrades.handle_refusal(refusal, &self.settings, now);
        let link = Link::after_refusal(link, now)?;
        if let Link::Authorizing(_) = link {
            self.protocol.pause(now);
        }
        Ok(link)
    }

    /// Ends the connection, or the attempt to open one. Requests wait for the next one, or fail.
    fn end_session(&mut self, error: &ClientError, workspace: &mut Workspace, now: Instant) {
        self.link = Link::Idle;
        let (next, event) = self.reconnection.handle_end(error, now);
        if self.has_one_connection() {
            self.settings.report(event);
        }
        self.protocol.handle_end(error, self.reconnection.is_established());
        let NextAttempt::At(next) = next else { return self.end(error, workspace, now) };
        let delay_min = self.protocol.suspend(error, &self.reconnection, workspace, now);
        let waiters = self.reconnection.keep_waiters(&mut self.connect_waiters);
        self.handle_events(workspace, now);
        self.connect_waiters.extend(waiters);
        let has_waiters = !self.connect_waiters.is_empty();
        if self.reconnection.is_eager() || has_waiters || self.protocol.has_waiting() {
            self.link = Link::Waiting(next.max(now.after(delay_min)));
        }
    }

    fn handle_http_opened(
        &mut self,
        opened: Result<RegisteredStreams, ClientError>,
        ring: &mut dyn Ring,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        let is_ready = self.protocol.server().is_some() || self.is_closing;
        match (opened, &mut self.link) {
            (Ok(RegisteredStreams { sockets, .. }), Link::Http(link)) => {
                link.handle_connected(ring, sockets[0]);
                return Some(sockets);
            }
            // The session that needed the connection has ended.
            (Ok(streams), _) => ring.submit(Operation::Close(streams.sockets[0])),
            (Err(error), Link::Http(_)) if is_ready => {
                self.with_http(workspace, now, |link, access| {
                    link.handle_connect_failure(error, access);
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
}

/// What the driver does with a server of any dialect.
impl<P: ClientProtocol> PeerIo for Peer<P> {
    fn settings(&self) -> &PeerSettings {
        &self.settings
    }

    fn stream(&mut self) -> Option<&mut MessageStream> {
        self.link.stream()
    }

    fn flow(&mut self) -> Option<&mut FlowRun> {
        self.link.flow()
    }

    fn await_exit(&mut self, loss: Loss, now: Instant) -> Option<Loss> {
        self.link.await_exit(loss, now)
    }

    fn advance_authorization(&mut self, workspace: &mut Workspace, now: Instant) {
        self.with_http(workspace, now, |link, access| link.rules.advance_authorization(access));
    }

    fn advance(&mut self, ring: &mut dyn Ring, workspace: &mut Workspace, now: Instant) -> usize {
        let authorized = self.link.take_authorized();
        if authorized.is_some() {
            self.protocol.resume(now);
        }
        match authorized {
            Some(Ok(())) => return 1,
            Some(Err(error)) => self.end_session(&error, workspace, now),
            None => {}
        }
        self.with_http(workspace, now, |link, access| link.advance(ring, access)).unwrap_or(0)
    }

    fn handle_opened(
        &mut self,
        opened: Result<RegisteredStreams, OpenError>,
        ring: &mut dyn Ring,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        let opened = opened.map_err(|error| error.describe(&self.settings.target));
        if let Target::Http(_) = *self.settings.target {
            return self.handle_http_opened(opened, ring, workspace, now);
        }
        match opened {
            Ok(RegisteredStreams { sockets, mut process, .. }) => {
                if let Some(process) = &mut process {
                    process.hold(self.exit.get_or_insert_default());
                }
                let stream = open_stream(&self.settings, &self.upgrades, ring, sockets, now);
                let is_open = stream.is_open();
                self.link = Link::open(stream, process);
                if is_open {
                    self.run(workspace, now, P::start);
                }
                Some(sockets)
            }
            Err(error) => {
                self.end_session(&error, workspace, now);
                None
            }
        }
    }

    fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        buffer: &ReceiveBuffer,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        let length = buffer.len as usize;
        if let Link::Http(_) | Link::Authorizing(_) = self.link {
            let mut bytes = std::mem::take(&mut workspace.received);
            bytes.clear();
            bytes.extend_from_slice(&ring.bytes(buffer)[..length]);
            self.with_http(workspace, now, |link, access| {
                link.receive(ring, socket, &bytes, access);
            });
            if let Some(flow) = self.link.upgrade_flow_of(socket) {
                flow.receive(ring, &bytes, now);
            }
            workspace.received = bytes;
            return;
        }
        let text = PaddedText::new(ring.bytes(buffer), length);
        let Self { settings, protocol, link, .. } = self;
        let Some(stream) = link.stream_of(socket) else { return };
        stream.receive(text, &mut SessionReceiver { protocol, settings, workspace, now });
        self.handle_events(workspace, now);
    }

    fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        if let Some(flow) = self.link.flow().filter(|flow| flow.owns(socket)) {
            flow.handle_sent(ring, buffer, result, now);
        } else if let Link::Http(link) = &mut self.link {
            link.handle_sent(ring, socket, buffer, result, now);
        } else if let Some(stream) = self.link.stream_of(socket) {
            match stream.handle_sent(ring, buffer, result) {
                Sent::Part => {}
                Sent::All(_) => self.run(workspace, now, P::send_waiting),
                Sent::Failed(_) => return false,
            }
        }
        true
    }

    fn handle_socket_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        self.with_http(workspace, now, |link, access| link.handle_end(ring, socket, loss, access));
        if let Some(flow) = self.link.upgrade_flow_of(socket) {
            flow.handle_end(ring, loss.error().is_some(), now);
        }
        self.link.stream_of(socket).is_none()
    }

    fn handle_lost(
        &mut self,
        ring: &mut dyn Ring,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> (PeerAction, Option<ClosingSocket>) {
        if loss.is_end_of_stream() {
            self.receive_last(workspace, now);
        }
        let failure = self.link.stream().and_then(|stream| stream.failure().cloned());
        let failure = self.protocol.end_error(failure).or_else(|| self.link.failure().cloned());
        let refusal = self.link.stream().and_then(MessageStream::take_refusal);
        let left = self.close(ring, loss.has_ended());
        if self.is_idle_over(now) {
            self.end_idle(workspace, now);
            return (PeerAction::None, left);
        }
        let is_final = loss.tls_error().is_some()
            || failure.as_ref().is_some_and(|error| error.kind() == ClientErrorKind::Protocol);
        let may_fall_back = !is_final && loss.may_be_answer();
        let error = failure.unwrap_or_else(|| loss.describe(&self.settings.target));
        if may_fall_back && !self.reconnection.is_established() && self.protocol.fall_back(&error) {
            self.link = Link::Connecting;
            return (PeerAction::Connect, left);
        }
        if let Some(UpgradeRefusal { status: 200..300 | 404 | 405 | 426 | 501, .. }) =
            refusal.as_deref()
            && let Some(target) = self.settings.target.at_usual_path()
        {
            self.settings.target = Arc::new(target);
            self.link = Link::Connecting;
            return (PeerAction::Connect, left);
        }
        let error = match self.follow_refusal(refusal.as_deref(), now) {
            Ok(link) => {
                self.link = link;
                return (PeerAction::None, left);
            }
            Err(refused) => refused.unwrap_or(error),
        };
        self.end_session(&error, workspace, now);
        (PeerAction::None, left)
    }

    fn begin_close(
        &mut self,
        ring: &mut dyn Ring,
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
        if let Link::Http(link) = &mut self.link {
            link.begin_close(ring, self.protocol.server().map(|server| &**server), now);
        }
        self.reconnection.handle_close(&error).into_iter().for_each(|it| self.settings.report(it));
        self.protocol.end(&error, workspace);
        self.handle_events(workspace, now);
        self.fail_waiters(&error);
    }

    fn is_closed(&self) -> bool {
        self.is_closing && self.link.is_closed()
    }

    fn close(&mut self, ring: &mut dyn Ring, has_ended: bool) -> Option<ClosingSocket> {
        let left = self.link.close(ring, has_ended, self.exit.get_or_insert_default());
        self.link = Link::Idle;
        left
    }

    fn expire(
        &mut self,
        ring: &mut dyn Ring,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        self.timer = None;
        if self.protocol.deadline().is_some_and(|deadline| deadline <= now) {
            self.run(workspace, now, P::expire);
        }
        if self.link.expire(ring, now) {
            return self.need_link(workspace, now);
        }
        self.with_http(workspace, now, |link, access| link.expire(ring, access));
        PeerAction::None
    }

    fn arm_timer(&mut self, now: Instant) -> Option<Instant> {
        let link = self.link.deadline(now);
        let idle = self.reconnection.idle_deadline(|| self.protocol.is_idle(), now);
        let deadline = Instant::earliest([self.protocol.deadline(), link, idle])?;
        if self.timer.is_some_and(|timer| timer <= deadline) {
            return None;
        }
        self.timer = Some(deadline);
        Some(deadline)
    }

    fn has_failed(&self, now: Instant) -> bool {
        let has_ended = self.is_idle_over(now) || self.protocol.failure().is_some();
        !self.is_closing && self.link.has_failed(has_ended)
    }
}

/// A session as the messages of its stream reach it.
struct SessionReceiver<'a, P> {
    protocol: &'a mut P,
    settings: &'a PeerSettings,
    workspace: &'a mut Workspace,
    now: Instant,
}

impl<P: ClientProtocol> SessionReceiver<'_, P> {
    fn step<'s>(&'s mut self, output: &'s mut StreamOutput) -> (&'s mut P, Step<'s, P>) {
        let Self { protocol, workspace, now, .. } = self;
        (protocol, Step { sink: LinkSink::Stream(output), workspace, now: *now })
    }
}

impl<P: ClientProtocol> MessageReceiver for SessionReceiver<'_, P> {
    fn now(&self) -> Instant {
        self.now
    }

    fn message_bytes_max(&self) -> usize {
        self.settings.config.options().message_bytes_max
    }

    fn start(&mut self, output: &mut StreamOutput) {
        let (protocol, mut step) = self.step(output);
        protocol.start(&mut step);
    }

    #[inline]
    fn receive(&mut self, message: PaddedText<'_>, output: &mut StreamOutput) {
        let (protocol, mut step) = self.step(output);
        protocol.receive(message, &mut step);
    }

    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, output: &mut StreamOutput) {
        let (protocol, mut step) = self.step(output);
        protocol.reject_oversized(id, error, &mut step);
    }
}
