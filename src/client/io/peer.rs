//! One server: its session, and the connection under it.
//!
//! Invariants: a connection is opened when a call or a caller of `connect` waits for one; a session
//! lasts as long as its connection.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::call_slot::CallSlot;
use super::command::{ConnectSlot, PeerId};
use super::connect::{ExitNotifier, OpenStreams, ServerProcess};
use super::input_tasks::{FinishedInput, InputTasks};
use super::line_stream::{LineOutput, LineStream};
use super::peer_handle::PeerHandle;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::oneshot::Oneshot;
use crate::client::session::{
    CallRequest, InputKey, MessageSink, OutgoingMessage, RequiredInput, Session, SessionBuffers,
    SessionContext, SessionEvent,
};
use crate::engine::executor::Task;
use crate::engine::ring::{Registered, Ring, Socket, Source};
use crate::protocol::json::{PaddedText, ParseLimits, Parser};

/// What all servers of a thread share: memory for messages, and the events of one operation.
#[derive(Debug)]
pub(super) struct Workspace {
    parser: Parser,
    buffers: SessionBuffers,
    events: Vec<SessionEvent<Arc<CallSlot>>>,
    inputs: InputTasks,
}

impl Workspace {
    pub(super) fn new(inputs: InputTasks) -> Self {
        let parser = Parser::new(ParseLimits::default());
        Self { parser, buffers: SessionBuffers::default(), events: Vec::new(), inputs }
    }

    pub(super) const fn inputs(&self) -> &InputTasks {
        &self.inputs
    }

    fn context<'a, S>(
        &'a mut self,
        sink: &'a mut S,
        now: Instant,
    ) -> SessionContext<'a, Arc<CallSlot>, S> {
        SessionContext { now, sink, events: &mut self.events, buffers: &mut self.buffers }
    }
}

/// The connection of a server.
#[derive(Debug)]
enum Link {
    Idle,
    Connecting,
    Open {
        stream: LineStream,
        #[expect(dead_code, reason = "dropping it ends the program")]
        process: Option<ServerProcess>,
    },
}

/// Where the messages of a session go. Nothing is sent before the connection is open.
enum LinkSink<'a> {
    Closed,
    Lines(&'a mut LineOutput),
}

impl MessageSink for LinkSink<'_> {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        if let Self::Lines(output) = self {
            output.send(message);
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Lines(output) => output.is_full(),
        }
    }
}

impl Link {
    const fn sink(&mut self) -> LinkSink<'_> {
        match self {
            Self::Open { stream, .. } => LinkSink::Lines(stream.output()),
            Self::Idle | Self::Connecting => LinkSink::Closed,
        }
    }
}

/// What a server needs of its thread after an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PeerAction {
    None,
    /// Open its streams.
    Connect,
}

/// How a connection was lost.
#[derive(Debug)]
pub(super) enum Loss {
    /// The server ended it, or receiving failed.
    EndOfStream(io::Result<()>),
    /// Sending failed.
    Send(io::Error),
    /// The handshake failed.
    Handshake,
}

#[derive(Debug)]
pub(super) struct Peer {
    id: PeerId,
    handle: PeerHandle,
    session: Session<Arc<CallSlot>>,
    link: Link,
    connect_waiters: Vec<ConnectSlot>,
    /// The server is known to negotiate with `initialize`.
    is_legacy: bool,
    /// The timer that is set.
    timer: Option<Instant>,
    /// Handlers of input that run.
    inputs: BTreeMap<InputKey, Task>,
    /// Held by the programs that were started.
    exit: Arc<ExitNotifier>,
}

impl Peer {
    pub(super) fn new(id: PeerId, handle: PeerHandle) -> Self {
        let session = Session::new(Arc::clone(&handle.config));
        Self {
            id,
            handle,
            session,
            link: Link::Idle,
            connect_waiters: Vec::new(),
            is_legacy: false,
            timer: None,
            inputs: BTreeMap::new(),
            exit: Arc::default(),
        }
    }

    pub(super) const fn handle(&self) -> &PeerHandle {
        &self.handle
    }

    /// Returns the open connection.
    pub(super) const fn stream(&mut self) -> Option<&mut LineStream> {
        match &mut self.link {
            Link::Open { stream, .. } => Some(stream),
            Link::Idle | Link::Connecting => None,
        }
    }

    /// Reports the end of the handshake to `slot`.
    pub(super) fn connect(&mut self, slot: ConnectSlot) -> PeerAction {
        if let Some(server) = self.session.server() {
            slot.set(Ok(Arc::clone(server)));
            return PeerAction::None;
        }
        self.connect_waiters.push(slot);
        self.need_link()
    }

    /// Makes a call.
    pub(super) fn call(
        &mut self,
        request: CallRequest,
        slot: &Arc<CallSlot>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        let mut sink = self.link.sink();
        let mut ctx = workspace.context(&mut sink, now);
        let id = self.session.call(request, Arc::clone(slot), &mut ctx);
        slot.set_id(id);
        self.handle_events(workspace);
        self.need_link()
    }

    /// Cancels a call whose caller is gone.
    pub(super) fn cancel(&mut self, slot: &CallSlot, workspace: &mut Workspace, now: Instant) {
        if let Some(id) = slot.id() {
            let mut sink = self.link.sink();
            self.session.cancel(id, None, &mut workspace.context(&mut sink, now));
            self.handle_events(workspace);
        }
    }

    fn need_link(&mut self) -> PeerAction {
        if !matches!(self.link, Link::Idle) {
            return PeerAction::None;
        }
        self.link = Link::Connecting;
        PeerAction::Connect
    }

    /// Handles the end of an attempt to connect; returns the sockets of the connection.
    pub(super) fn handle_opened<R: Ring>(
        &mut self,
        opened: io::Result<OpenStreams>,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        match opened.and_then(|streams| register(ring, streams)) {
            Ok((stream, mut process)) => {
                if let Some(process) = &mut process {
                    process.hold(&self.exit);
                }
                let sockets = stream.sockets();
                self.link = Link::Open { stream, process };
                let mut sink = self.link.sink();
                self.session.start(self.is_legacy, &mut workspace.context(&mut sink, now));
                self.handle_events(workspace);
                Some(sockets)
            }
            Err(error) => {
                let text = format!("cannot connect to {}: {error}", self.handle.target);
                let error = ClientError::with_source(ClientErrorKind::Connect, text, error);
                self.end_session(error, workspace);
                None
            }
        }
    }

    /// Handles received bytes.
    pub(super) fn receive(
        &mut self,
        text: PaddedText<'_>,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        let Link::Open { stream, .. } = &mut self.link else { return };
        let Workspace { parser, buffers, events, .. } = workspace;
        let mut ctx = SessionContext { now, sink: &mut (), events, buffers };
        stream.receive(text, &mut self.session, parser, &mut ctx);
        self.handle_events(workspace);
    }

    /// Handles a completed send.
    pub(super) fn handle_sent(&mut self, buffer: Vec<u8>, workspace: &mut Workspace, now: Instant) {
        let Link::Open { stream, .. } = &mut self.link else { return };
        stream.handle_sent(buffer);
        let mut sink = LinkSink::Lines(stream.output());
        self.session.send_waiting(&mut workspace.context(&mut sink, now));
        self.handle_events(workspace);
    }

    /// Handles the loss of the connection. A server that ends it at `server/discover` may be one
    /// that knows only `initialize`: it is connected to again.
    pub(super) fn handle_lost<R: Ring>(
        &mut self,
        ring: &mut R,
        loss: &Loss,
        workspace: &mut Workspace,
    ) -> (PeerAction, Option<Socket>) {
        let is_discovering = self.session.is_discovering() && !self.is_legacy;
        let left = self.close_link(ring, matches!(loss, Loss::EndOfStream(_)));
        if is_discovering {
            self.is_legacy = true;
            self.session.reset_handshake();
            self.link = Link::Connecting;
            return (PeerAction::Connect, left);
        }
        let cause = match loss {
            Loss::EndOfStream(Ok(())) => "the server closed the connection".to_owned(),
            Loss::EndOfStream(Err(error)) | Loss::Send(error) => {
                format!("the connection failed: {error}")
            }
            Loss::Handshake => "the handshake failed".to_owned(),
        };
        let text = format!("{}: {cause}", self.handle.target);
        self.end_session(ClientError::new(ClientErrorKind::Closed, text), workspace);
        (PeerAction::None, left)
    }

    /// Ends the connection on behalf of the client. Returns the socket to read to its end.
    pub(super) fn close<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
    ) -> Option<Socket> {
        let left = self.close_link(ring, false);
        let error = ClientError::new(ClientErrorKind::Closed, "the client was closed");
        self.end_session(error, workspace);
        left
    }

    /// Sets `slot` once this value is dropped and its programs have ended.
    pub(super) fn notify_end(&self, slot: Arc<Oneshot<()>>) {
        self.exit.notify(slot);
    }

    fn close_link<R: Ring>(&mut self, ring: &mut R, has_ended: bool) -> Option<Socket> {
        let left = match &self.link {
            Link::Open { stream, .. } => stream.close(ring, has_ended),
            Link::Idle | Link::Connecting => None,
        };
        self.link = Link::Idle;
        left
    }

    /// Fails all calls and prepares a session for the next connection.
    fn end_session(&mut self, error: ClientError, workspace: &mut Workspace) {
        self.link = Link::Idle;
        self.session.disconnect(error, &mut workspace.events);
        self.handle_events(workspace);
        self.session = Session::new(Arc::clone(&self.handle.config));
    }

    /// Handles an expired timer.
    pub(super) fn expire(&mut self, workspace: &mut Workspace, now: Instant) {
        self.timer = None;
        if self.session.deadline().is_some_and(|deadline| deadline <= now) {
            let mut sink = self.link.sink();
            self.session.expire(&mut workspace.context(&mut sink, now));
            self.handle_events(workspace);
        }
    }

    /// Returns the deadline for which a timer must be set.
    pub(super) fn arm_timer(&mut self) -> Option<Instant> {
        let deadline = self.session.deadline()?;
        if self.timer.is_some_and(|timer| timer <= deadline) {
            return None;
        }
        self.timer = Some(deadline);
        Some(deadline)
    }

    /// Returns whether the handshake has failed while the connection is open.
    pub(super) fn has_failed(&self) -> bool {
        self.session.has_ended() && matches!(self.link, Link::Open { .. })
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
        self.handle_events(workspace);
    }

    fn handle_events(&mut self, workspace: &mut Workspace) {
        for event in workspace.events.drain(..) {
            match event {
                SessionEvent::InputRequired(RequiredInput { key, kind, params }) => {
                    let input = self.handle.inputs.provide(kind, &params);
                    self.inputs.insert(key, workspace.inputs.spawn(self.id, key, input));
                }
                SessionEvent::InputCancelled(key) => drop(self.inputs.remove(&key)),
                SessionEvent::Ready => {
                    let Some(server) = self.session.server() else { continue };
                    self.is_legacy = !server.revision.is_modern();
                    for slot in self.connect_waiters.drain(..) {
                        slot.set(Ok(Arc::clone(server)));
                    }
                }
                SessionEvent::HandshakeFailed(error) => {
                    for slot in self.connect_waiters.drain(..) {
                        slot.set(Err(error.clone()));
                    }
                }
                SessionEvent::Completed { token, result } => token.complete(result),
                SessionEvent::Progress { token, progress } => token.report_progress(progress),
                SessionEvent::Notification(message) => {
                    if let Some(on_notification) = &self.handle.on_notification {
                        on_notification(message);
                    }
                }
                SessionEvent::Violation(text) => {
                    tracing::debug!(target = %self.handle.target, "the server sent {text}");
                }
            }
        }
    }
}

/// Registers the streams of a connection with the ring.
fn register<R: Ring>(
    ring: &mut R,
    streams: OpenStreams,
) -> io::Result<(LineStream, Option<ServerProcess>)> {
    let mut socket = |source: Source| match ring.register(source)? {
        Registered::Socket(socket) => Ok(socket),
        Registered::Listener(_) => Err(io::Error::other("the ring registered a listener")),
    };
    let receive = socket(streams.receive)?;
    let send = streams.send.map_or(Ok(receive), socket)?;
    Ok((LineStream::open(ring, receive, send), streams.process))
}
