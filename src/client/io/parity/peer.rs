//! One server of the parity dialect: its session, and the connection under it.
//!
//! Invariants: a connection is opened when a request or a caller of `connect` waits for one, or
//! after a loss if requests or the options say so; the session outlives its connections.

use std::sync::Arc;

use super::http::{HttpInput, ParityHttp};
use super::receiver::ParityReceiver;
use super::sink::PeerSink;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::call_slot::{ConnectToken, run_callback};
use crate::client::io::connect::{OpenError, RegisteredStreams};
use crate::client::io::http::{RedirectSender, UpgradeAuthorization};
use crate::client::io::link::{Link, PeerAction};
use crate::client::io::messages::{ClosingSocket, open_stream};
use crate::client::io::parity_commands::{
    NewParityPeer, ParityCommand, ParityEvent, ParityEventCallback, ParityToken,
};
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::process::ExitNotifier;
use crate::client::io::stream::Loss;
use crate::client::io::workspace::{ParityWorkspace, Workspace};
use crate::client::oneshot::CloseSlot;
use crate::client::parity_session::{
    ParityContext, ParityRequests, ParityServerInfo, ParitySessionEvent,
};
use crate::client::reconnect::{ConnectionEvent, NextAttempt, Reconnection};
use crate::client::target::Target;
use crate::engine::ring::{ReceiveBuffer, Ring, Socket};
use crate::protocol::json::PaddedText;

/// One server of the parity dialect.
pub(in crate::client::io) struct ParityPeer {
    handle: PeerHandle,
    requests: ParityRequests<ParityToken>,
    /// The session over HTTP runs while this is [`Link::Connecting`].
    link: Link,
    /// The connections of a session over HTTP.
    http: Option<Box<ParityHttp>>,
    connect_waiters: Vec<ConnectToken<ParityServerInfo>>,
    /// The timer that is set.
    timer: Option<Instant>,
    is_closing: bool,
    reconnection: Reconnection,
    /// Held by the programs that were started, and by sockets that are read to their end.
    exit: Option<Arc<ExitNotifier>>,
    upgrades: UpgradeAuthorization,
    on_event: Option<ParityEventCallback>,
}

/// Commands.
impl ParityPeer {
    pub(in crate::client::io) fn new(
        new: NewParityPeer,
        sender: RedirectSender,
        seed: u64,
    ) -> Self {
        let NewParityPeer { handle, config, on_event } = new;
        let is_program = matches!(*handle.target, Target::Stdio(_));
        let mut reconnection = Reconnection::new(Arc::clone(&handle.reconnect), is_program, seed);
        Self {
            requests: ParityRequests::new(config, reconnection.draw_seed()),
            http: match &*handle.target {
                Target::Http(endpoint) => Some(Box::new(ParityHttp::new(endpoint, &handle))),
                _ => None,
            },
            handle,
            link: Link::Idle,
            connect_waiters: Vec::new(),
            timer: None,
            is_closing: false,
            reconnection,
            exit: None,
            upgrades: UpgradeAuthorization::new(sender),
            on_event,
        }
    }

    pub(in crate::client::io) const fn handle(&self) -> &PeerHandle {
        &self.handle
    }

    pub(in crate::client::io) const fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Handles a command of the client.
    pub(in crate::client::io) fn handle_command(
        &mut self,
        command: ParityCommand,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        match command {
            ParityCommand::Connect(token) => {
                if let Some(server) = self.requests.server() {
                    token.complete(Ok(Arc::clone(server)));
                } else {
                    self.connect_waiters.push(token);
                    return self.need_link(workspace, now);
                }
            }
            ParityCommand::Call(request, token) => {
                token.slot().set_id(self.requests.next_id());
                self.with_requests(workspace, now, |requests, ctx| {
                    requests.call(request, token, ctx);
                });
                return self.need_link(workspace, now);
            }
            ParityCommand::Cancel(slot) => {
                if let Some(id) = slot.id() {
                    self.with_requests(workspace, now, |requests, ctx| requests.cancel(id, ctx));
                }
            }
            ParityCommand::SetAuthToken(token) => self.requests.set_auth_token(token.expose()),
        }
        PeerAction::None
    }

    fn need_link(&mut self, workspace: &mut Workspace, now: Instant) -> PeerAction {
        if !matches!(self.link, Link::Idle) || self.is_closing {
            return PeerAction::None;
        }
        if let Some(until) = self.reconnection.delayed_until(now) {
            self.link = Link::Waiting(until);
            return PeerAction::None;
        }
        self.link = Link::Connecting;
        let Some(http) = &mut self.http else { return PeerAction::Connect };
        http.begin();
        self.begin_handshake(workspace, now);
        PeerAction::None
    }

    fn begin_handshake(&mut self, workspace: &mut Workspace, now: Instant) {
        let (requests, mut sink) = self.parts();
        requests.connect(&mut workspace.parity.context(&mut sink, now));
        self.handle_events(workspace, now);
    }

    /// Runs `act` for the session, and handles its events.
    fn with_requests(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(
            &mut ParityRequests<ParityToken>,
            &mut ParityContext<'_, ParityToken, PeerSink<'_>>,
        ),
    ) {
        let (requests, mut sink) = self.parts();
        act(requests, &mut workspace.parity.context(&mut sink, now));
        self.handle_events(workspace, now);
    }

    /// Returns the session, and where its messages go.
    fn parts(&mut self) -> (&mut ParityRequests<ParityToken>, PeerSink<'_>) {
        let sink = match &mut self.http {
            Some(http) => PeerSink::Http(http.outbox()),
            None => PeerSink::Link(self.link.sink()),
        };
        (&mut self.requests, sink)
    }

    fn send_waiting(&mut self, workspace: &mut Workspace, now: Instant) {
        let (requests, mut sink) = self.parts();
        requests.send_waiting(&mut workspace.parity.context(&mut sink, now));
        self.handle_events(workspace, now);
    }

    fn handle_events(&mut self, workspace: &mut Workspace, now: Instant) {
        for event in workspace.parity.events.drain(..) {
            match event {
                ParitySessionEvent::Ready => {
                    let Some(server) = self.requests.server().map(Arc::clone) else { continue };
                    if let Some(http) = &mut self.http {
                        http.handle_ready(server.resumed == Some(true));
                    }
                    self.reconnection.handle_ready(now);
                    self.upgrades.handle_ready();
                    self.handle.report(ConnectionEvent::Connected);
                    let waiters = self.connect_waiters.drain(..);
                    waiters.for_each(|token| token.complete(Ok(Arc::clone(&server))));
                    self.report(|| ParityEvent::Ready(server));
                }
                ParitySessionEvent::Restarted { reason } => {
                    self.report(|| ParityEvent::Restarted { reason });
                }
                ParitySessionEvent::Retried { error } => {
                    self.report(|| ParityEvent::Retried { error });
                }
                ParitySessionEvent::Completed { token, result } => token.end(result),
                ParitySessionEvent::Chunk { token, chunk } => token.slot().report_chunk(chunk),
                ParitySessionEvent::Violation(text) => {
                    tracing::debug!(target = %self.handle.target, "the server sent {text}");
                }
            }
        }
    }

    fn report(&self, event: impl FnOnce() -> ParityEvent) {
        if let Some(on_event) = &self.on_event {
            let event = event();
            run_callback(|| on_event(event));
        }
    }
}

/// The connection.
impl ParityPeer {
    /// Handles the end of an attempt to connect; returns the sockets of the connection.
    pub(in crate::client::io) fn handle_opened<R: Ring>(
        &mut self,
        opened: Result<RegisteredStreams, OpenError>,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        let opened = opened.map_err(|error| error.describe(&self.handle.target));
        if let Some(http) = &mut self.http {
            let opened = opened.map(|streams| streams.sockets);
            let opened = opened.map_err(|error| http.handle_connect_failure(error)).ok();
            if let Some([socket, _]) = opened {
                http.handle_connected(ring, socket);
            }
            return opened;
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
                    self.begin_handshake(workspace, now);
                }
                Some(sockets)
            }
            Err(error) => {
                self.end_session(&error, workspace, now);
                None
            }
        }
    }

    /// Handles received bytes.
    pub(in crate::client::io) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, buffer): (Socket, &ReceiveBuffer),
        workspace: &mut Workspace,
        now: Instant,
    ) {
        if self.http.is_some() {
            let mut bytes = std::mem::take(&mut workspace.input);
            bytes.clear();
            bytes.extend_from_slice(&ring.bytes(buffer)[..buffer.len as usize]);
            self.with_http(workspace, now, |http, input| {
                http.receive(ring, (socket, &bytes), input);
            });
            workspace.input = bytes;
            return;
        }
        let text = PaddedText::new(ring.bytes(buffer), buffer.len as usize);
        let Some(stream) = self.link.stream_of(socket) else { return };
        let Workspace { parser, parity, .. } = workspace;
        let mut receiver = ParityReceiver {
            requests: &mut self.requests,
            parser,
            workspace: parity,
            message_bytes_max: self.handle.config.options().message_bytes_max,
            now,
        };
        stream.receive(text, &mut receiver);
        self.handle_events(workspace, now);
    }

    /// Handles the last line of a stream that has ended.
    fn receive_last(&mut self, workspace: &mut Workspace, now: Instant) {
        let Some(stream) = self.link.stream() else { return };
        let Workspace { parser, parity, .. } = workspace;
        let message_bytes_max = self.handle.config.options().message_bytes_max;
        let requests = &mut self.requests;
        stream.receive_last(&mut ParityReceiver {
            requests,
            parser,
            workspace: parity,
            message_bytes_max,
            now,
        });
        self.handle_events(workspace, now);
    }

    /// Handles the end of a send. Returns `false` if the connection is lost.
    pub(in crate::client::io) fn handle_sent(
        &mut self,
        socket: Socket,
        sent: Result<Vec<u8>, ()>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        if let Some(http) = &mut self.http {
            http.handle_sent(socket);
        }
        let Some(stream) = self.link.stream_of(socket) else { return true };
        let Ok(buffer) = sent else { return false };
        stream.handle_sent(buffer);
        self.send_waiting(workspace, now);
        true
    }

    /// Handles the end or the failure of a socket. Returns `false` if the connection is lost.
    pub(in crate::client::io) fn handle_socket_end<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, loss): (Socket, &Loss),
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        let error = loss.describe(&self.handle.target);
        self.with_http(workspace, now, |http, input| {
            http.handle_end(ring, (socket, &error), input);
        });
        self.link.stream_of(socket).is_none()
    }

    /// Runs `act` for a session over HTTP, and handles its events.
    fn with_http(
        &mut self,
        workspace: &mut Workspace,
        now: Instant,
        act: impl FnOnce(&mut ParityHttp, &mut HttpInput<'_>),
    ) {
        let Some(http) = &mut self.http else { return };
        let (requests, Workspace { parser, parity, .. }) = (&mut self.requests, &mut *workspace);
        act(http, &mut HttpInput { requests, parser, workspace: parity, now });
        self.handle_events(workspace, now);
        self.send_waiting(workspace, now);
    }

    /// Starts the exchanges of HTTP that can be. Returns the number of connections to open.
    pub(in crate::client::io) fn advance<R: Ring>(&mut self, ring: &mut R) -> usize {
        self.http.as_mut().map_or(0, |http| http.advance(ring))
    }

    /// Handles the loss of the connection.
    pub(in crate::client::io) fn handle_lost<R: Ring>(
        &mut self,
        ring: &mut R,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> (PeerAction, Option<ClosingSocket>) {
        if loss.is_end_of_stream() {
            self.receive_last(workspace, now);
        }
        let failure = self.requests.failure().cloned();
        let failure = failure.or_else(|| self.requests.take_server_error());
        let failure = failure.or_else(|| self.link.stream()?.failure().cloned());
        let failure = failure.or_else(|| self.http.as_ref()?.failure().cloned());
        let left = self.close(ring, loss.has_ended());
        if self.reconnection.is_idle_over(now) && self.requests.is_idle() {
            self.reconnection.handle_idle_close().into_iter().for_each(|it| self.handle.report(it));
            let error = ClientError::new(ClientErrorKind::Closed, "the connection was idle");
            self.requests.end(&error, &mut workspace.parity.events);
            return (PeerAction::None, left);
        }
        let error = failure.unwrap_or_else(|| loss.describe(&self.handle.target));
        self.end_session(&error, workspace, now);
        (PeerAction::None, left)
    }

    /// Ends the connection, or the attempt to open one. Requests wait for the next one, or fail.
    fn end_session(&mut self, error: &ClientError, workspace: &mut Workspace, now: Instant) {
        self.link = Link::Idle;
        let (next, event) = self.reconnection.handle_end(error, now);
        self.handle.report(event);
        self.report(|| ParityEvent::Disconnected { reason: error.clone() });
        let ParityWorkspace { events, .. } = &mut workspace.parity;
        let NextAttempt::At(next) = next else {
            self.requests.end(error, events);
            let waiters = self.connect_waiters.drain(..);
            waiters.for_each(|token| token.complete(Err(error.clone())));
            return self.handle_events(workspace, now);
        };
        self.requests.disconnect(error, events);
        self.handle_events(workspace, now);
        let has_waiters = !self.connect_waiters.is_empty();
        if self.reconnection.is_eager() || has_waiters || !self.requests.is_idle() {
            let after = error.retry_after().unwrap_or_default();
            self.link = Link::Waiting(next.max(now.after(after)));
        }
    }

    /// Ends the connection on behalf of the client; `slot` is set once this value is dropped and
    /// its programs have ended.
    pub(in crate::client::io) fn begin_close<R: Ring>(
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
        self.reconnection.handle_close(&error).into_iter().for_each(|it| self.handle.report(it));
        self.requests.end(&error, &mut workspace.parity.events);
        let waiters = self.connect_waiters.drain(..);
        waiters.for_each(|token| token.complete(Err(error.clone())));
        self.handle_events(workspace, now);
        if let Some(http) = &mut self.http {
            http.begin_close(ring, now);
        }
    }

    /// Returns whether nothing of the connection is left to end since
    /// [`ParityPeer::begin_close`].
    pub(in crate::client::io) fn is_closed(&self) -> bool {
        let is_active = self.http.as_ref().is_some_and(|http| http.is_active());
        self.is_closing && self.link.is_closed() && !is_active
    }

    /// Closes what is left of the connection, of which the input `has_ended` or not. Returns the
    /// socket to read to its end.
    pub(in crate::client::io) fn close<R: Ring>(
        &mut self,
        ring: &mut R,
        has_ended: bool,
    ) -> Option<ClosingSocket> {
        if let Some(http) = &mut self.http {
            http.close(ring);
        }
        let left = self.link.close(ring, has_ended, self.exit.get_or_insert_default());
        self.link = Link::Idle;
        left
    }

    /// Handles an expired timer.
    pub(in crate::client::io) fn expire<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        self.timer = None;
        if self.requests.deadline().is_some_and(|deadline| deadline <= now) {
            let (requests, mut sink) = self.parts();
            requests.expire(&mut workspace.parity.context(&mut sink, now));
            self.handle_events(workspace, now);
        }
        if let Some(http) = &mut self.http
            && http.close_deadline().is_some_and(|deadline| deadline <= now)
        {
            http.close(ring);
        }
        if self.link.expire(ring, now) { self.need_link(workspace, now) } else { PeerAction::None }
    }

    /// Returns the deadline for which a timer must be set.
    pub(in crate::client::io) fn arm_timer(&mut self, now: Instant) -> Option<Instant> {
        let link = self.link.deadline(now);
        let idle = self.reconnection.idle_deadline(|| self.requests.is_idle(), now);
        let close = self.http.as_ref().and_then(|http| http.close_deadline());
        let deadlines = [self.requests.deadline(), link, idle, close];
        let deadline = deadlines.into_iter().flatten().min()?;
        if self.timer.is_some_and(|timer| timer <= deadline) {
            return None;
        }
        self.timer = Some(deadline);
        Some(deadline)
    }

    /// Returns whether the connection must end although it is open.
    pub(in crate::client::io) fn has_failed(&self, now: Instant) -> bool {
        let is_idle_over = self.reconnection.is_idle_over(now) && self.requests.is_idle();
        let has_ended = is_idle_over || self.requests.failure().is_some();
        let is_lost = match &self.http {
            Some(http) => {
                let is_running = matches!(self.link, Link::Connecting);
                is_running && (has_ended || http.failure().is_some())
            }
            None => self.link.has_failed(has_ended),
        };
        !self.is_closing && is_lost
    }
}
