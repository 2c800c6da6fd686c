//! The turns of an I/O thread.

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::call_slot::{CallOutcome, Outcome};
use super::commands::{Command, NewParityPeer, OwnCommands, ParityCommand};
use super::connect::{OpenError, OpenStreams, RegisteredStreams, TlsConnection};
use super::connector::ConnectJob;
use super::connector::Connector;
use super::http::{FlowRun, RedirectSender};
use super::link::PeerAction;
use super::loss::Loss;
use super::mcp::Mcp;
use super::messages::ClosingSockets;
use super::parity::Parity;
use super::peer::Peer;
use super::peer_io::PeerIo;
use super::peer_settings::{PeerId, PeerSettings};
use super::protocol::ClientProtocol;
use super::tasks::InputTasks;
use super::workspace::Workspace;
use crate::error::{ClientError, ClientErrorKind};
use crate::reconnect::Reconnection;
use crate::target::Target;
use corelane_base::id_map::IdMap;
use corelane_base::time::Instant;
use corelane_engine::mesh::{Inbox, Sender};
use corelane_engine::ring::{Completion, Operation, ReceiveBuffer, Ring, Socket, Waker};
use corelane_engine::shard_loop::Driver;
use corelane_engine::stream::{StreamRing, Streams};
use corelane_engine::timer::TimerWheel;
use corelane_tls::{TlsError, TlsFilter};

/// Commands handled per turn.
const COMMANDS_PER_TURN_MAX: usize = 1_024;
/// Timers handled per turn.
const TIMERS_PER_TURN_MAX: usize = 1_024;

/// The servers of an I/O thread.
pub struct IoDriver {
    peers: IdMap<PeerId, Box<dyn PeerIo>>,
    /// Open connections by socket.
    sockets: Vec<Option<PeerId>>,
    /// The encrypted connections.
    streams: Streams<TlsFilter>,
    /// Completions of plaintext; empty between uses.
    decrypted: Vec<Completion>,
    closing: ClosingSockets,
    workspace: Workspace,
    timers: TimerWheel<PeerId>,
    /// Servers with output, without duplicates that matter.
    flush_queue: Vec<PeerId>,
    inbox: Inbox<Command>,
    commands: Vec<Command>,
    connector: Connector,
    sender: Sender<Command>,
    is_stopping: bool,
}

impl IoDriver {
    pub(super) fn new(
        inbox: Inbox<Command>,
        sender: Sender<Command>,
        waker: Waker,
        connector: Connector,
    ) -> Self {
        Self {
            peers: IdMap::default(),
            sockets: Vec::new(),
            streams: Streams::default(),
            decrypted: Vec::new(),
            closing: ClosingSockets::default(),
            workspace: Workspace::new(InputTasks::new(waker)),
            timers: TimerWheel::new(),
            flush_queue: Vec::new(),
            inbox,
            commands: Vec::new(),
            connector,
            sender,
            is_stopping: false,
        }
    }

    /// Returns the number of servers, and of what is left of them; zero at rest.
    pub fn held_objects(&self) -> usize {
        let is_unfinished = !self.closing.is_empty() || !self.connector.is_idle();
        self.peers.len() + usize::from(is_unfinished)
    }

    /// Handles a command. Calls are made together, by [`IoDriver::make_calls`] or before a command
    /// that is not a call of the same server.
    fn handle_command<R: Ring>(&mut self, ring: &mut R, command: Command, now: Instant) {
        if !matches!(command, Command::Call(..)) {
            self.make_calls(ring, now);
        }
        match command {
            // Their requests fail.
            Command::AddPeer(..) | Command::AddParityPeer(..) if self.is_stopping => {}
            Command::AddPeer(id, settings) => {
                self.add(id, *settings, |settings, _| Mcp::new(id, &settings.config));
            }
            Command::AddParityPeer(id, new) => {
                let NewParityPeer { settings, config, on_event } = *new;
                self.add(id, settings, |_, reconnection| {
                    Parity::new(config, on_event, reconnection.draw_seed())
                });
            }
            Command::Parity(id, command) => self.handle_parity(ring, id, command, now),
            Command::Connect(id, slot) => {
                if !self.peers.contains_key(&id) {
                    return slot.complete(Err(closed()));
                }
                self.with_client::<Mcp, _>(ring, id, now, |peer, workspace| {
                    peer.connect(slot, workspace, now)
                });
            }
            Command::Call(id, call) => {
                if !self.workspace.calls.accepts(id) {
                    self.make_calls(ring, now);
                }
                self.workspace.calls.push(id, call);
            }
            Command::Cancel(id, slot) => {
                self.with_client::<Mcp, _>(ring, id, now, |peer, workspace| {
                    peer.run(workspace, now, |session, step| session.cancel(&slot, step));
                    PeerAction::None
                });
            }
            Command::Opened(id, opened) => self.handle_opened(ring, id, *opened, now),
            Command::FlowOpened(id, number, opened) => {
                self.handle_flow_opened(ring, id, number, *opened, now);
            }
            Command::Redirected(id, number, query) => {
                self.with_peer(ring, id, now, |peer, _, _| {
                    if let Some(flow) = peer.flow() {
                        flow.handle_redirect(number, query, now);
                    }
                    PeerAction::None
                });
            }
            Command::RemovePeer(id, slot) => match slot {
                Some(slot) if !self.peers.contains_key(&id) => slot.set(()),
                slot => self.with_peer(ring, id, now, |peer, ring, workspace| {
                    peer.begin_close(ring, slot, workspace, now);
                    PeerAction::None
                }),
            },
            Command::Spawn(task) => self.workspace.inputs.run(task.start()),
            Command::Stop => {
                self.is_stopping = true;
                let peers: Vec<PeerId> = self.peers.keys().copied().collect();
                for id in peers {
                    self.handle_command(ring, Command::RemovePeer(id, None), now);
                }
            }
        }
    }

    /// Adds a server, which is not connected.
    fn add<P: ClientProtocol>(
        &mut self,
        id: PeerId,
        settings: PeerSettings,
        protocol: impl FnOnce(&PeerSettings, &mut Reconnection) -> P,
    ) {
        let redirects = RedirectSender::new(id, self.sender.clone());
        let seed = self.connector.backoff_seed(id);
        self.peers.insert(id, Box::new(Peer::new(settings, redirects, seed, protocol)));
    }

    /// Makes the calls that commands have asked for.
    fn make_calls<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let Some((id, mut calls)) = self.workspace.calls.take() else { return };
        if self.peers.contains_key(&id) {
            self.with_client::<Mcp, _>(ring, id, now, |peer, workspace| {
                peer.make_requests(workspace, now, |session, step| session.call(&mut calls, step))
            });
        }
        let refused = calls.drain(..).map(|call| call.token.end(CallOutcome::failed(closed())));
        refused.for_each(|waker| self.workspace.ended.extend(waker));
        self.workspace.calls.put_memory(calls);
    }

    /// Runs `act` for a server, and then what the server needs: a connection, a timer, a flush.
    fn with_peer<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        now: Instant,
        act: impl FnOnce(&mut dyn PeerIo, &mut dyn Ring, &mut Workspace) -> PeerAction,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut stream_ring = StreamRing::new(ring, &mut self.streams);
        let action = act(&mut **peer, &mut stream_ring, &mut self.workspace);
        peer.advance_authorization(&mut self.workspace, now);
        if peer.is_closed() {
            self.remove(ring, id, now);
            return;
        }
        if peer.has_failed(now) {
            self.lose(ring, id, Loss::Handshake, now);
            return;
        }
        let mut stream_ring = StreamRing::new(ring, &mut self.streams);
        let connections = peer.advance(&mut stream_ring, &mut self.workspace, now);
        if let Some(deadline) = peer.arm_timer(now) {
            self.timers.insert(deadline, id);
        }
        if peer.stream().is_some() && self.flush_queue.last() != Some(&id) {
            self.flush_queue.push(id);
        }
        let connections = connections + usize::from(action == PeerAction::Connect);
        let flow_target = peer.flow().and_then(FlowRun::take_target);
        for _ in 0..connections {
            self.open_streams(ring, id, None, now);
        }
        if let Some(target) = flow_target {
            self.open_streams(ring, id, Some(target), now);
        }
    }

    /// As [`IoDriver::with_peer`], for a server of the dialect `P`. Nothing happens for another.
    fn with_client<P: ClientProtocol, R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        now: Instant,
        act: impl FnOnce(&mut Peer<P>, &mut Workspace) -> PeerAction,
    ) {
        self.with_peer(ring, id, now, |peer, _, workspace| {
            let peer: &mut dyn Any = peer;
            peer.downcast_mut().map_or(PeerAction::None, |peer| act(peer, workspace))
        });
    }

    /// Passes a command to a server of the parity dialect.
    fn handle_parity<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        command: ParityCommand,
        now: Instant,
    ) {
        if !self.peers.contains_key(&id) {
            match command {
                ParityCommand::Connect(token) => token.complete(Err(closed())),
                ParityCommand::Call(call) => {
                    self.workspace.ended.extend(call.token.end(Err(closed())));
                }
                ParityCommand::Cancel(_) | ParityCommand::SetAuthToken(_) => {}
            }
            return;
        }
        self.with_client::<Parity, _>(ring, id, now, |peer, workspace| {
            match command {
                ParityCommand::Connect(token) => return peer.connect(token, workspace, now),
                ParityCommand::Call(call) => {
                    return peer
                        .make_requests(workspace, now, |session, step| session.call(call, step));
                }
                ParityCommand::Cancel(slot) => {
                    peer.run(workspace, now, |session, step| session.cancel(&slot, step));
                }
                ParityCommand::SetAuthToken(token) => peer.run(workspace, now, |session, _| {
                    session.set_auth_token(token.expose());
                }),
            }
            PeerAction::None
        });
    }

    /// Removes a server whose connection is closed.
    fn remove<R: Ring>(&mut self, ring: &mut R, id: PeerId, now: Instant) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.forget_sockets(&mut *peer);
        let mut ring = StreamRing::new(ring, &mut self.streams);
        if let Some(socket) = peer.close(&mut ring, false) {
            self.closing.insert(&mut ring, socket, now);
        }
    }

    /// Handles what encrypted connections have received, and their sends that have ended.
    fn handle_decrypted<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let mut decrypted = std::mem::take(&mut self.decrypted);
        self.streams.take_completions(&mut decrypted);
        for completion in decrypted.drain(..) {
            self.handle_plain(ring, completion, now);
        }
        self.decrypted = decrypted;
    }

    /// Handles a completion of plaintext.
    fn handle_plain<R: Ring>(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        match completion {
            Completion::Received { socket, buffer } => self.receive(ring, socket, buffer, now),
            Completion::Sent { socket, buffer, result } => {
                self.handle_sent(ring, socket, buffer, result, now);
            }
            Completion::EndOfStream { socket, result } => {
                self.handle_socket_end(ring, socket, Loss::EndOfStream(result), now);
            }
            Completion::Connected { token, result } => {
                if let Some(report) = self.connector.report(ring, token, result) {
                    self.handle_command(ring, report, now);
                }
            }
            _ => {}
        }
    }

    /// Notes which server the completions of `socket` are for.
    fn set_peer(&mut self, socket: Socket, id: PeerId) {
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, None);
        }
        self.sockets[socket.index()] = Some(id);
    }

    fn peer_of(&self, socket: Socket) -> Option<PeerId> {
        *self.sockets.get(socket.index())?
    }

    /// Passes received bytes to the server of a socket.
    fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
        now: Instant,
    ) {
        if let Some(id) = self.peer_of(socket) {
            self.with_peer(ring, id, now, |peer, ring, workspace| {
                peer.receive(ring, socket, &buffer, workspace, now);
                PeerAction::None
            });
        }
        StreamRing::new(ring, &mut self.streams).release(buffer);
    }

    /// Handles the end of a send.
    fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: io::Result<usize>,
        now: Instant,
    ) {
        let result = match result {
            // It cannot be encrypted.
            Err(error) if matches!(error.get_ref(), Some(cause) if cause.is::<TlsError>()) => {
                return self.handle_socket_end(ring, socket, Loss::Send(error), now);
            }
            result => result,
        };
        let Some(id) = self.peer_of(socket) else {
            let mut ring = StreamRing::new(ring, &mut self.streams);
            return self.closing.handle_sent(&mut ring, socket, buffer, &result);
        };
        let mut is_handled = true;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            is_handled = peer.handle_sent(ring, socket, buffer, &result, workspace, now);
            PeerAction::None
        });
        // An encrypted stream ends with the alert that says why, or with an error.
        if !is_handled && !self.streams.is_filtered(socket) {
            let error = result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
            self.lose(ring, id, Loss::Send(error), now);
        }
    }

    /// Handles the end or the failure of a socket.
    fn handle_socket_end<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        loss: Loss,
        now: Instant,
    ) {
        let Some(id) = self.peer_of(socket) else {
            let mut ring = StreamRing::new(ring, &mut self.streams);
            return self.closing.handle_end(&mut ring, socket);
        };
        let mut is_handled = false;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            is_handled = peer.handle_socket_end(ring, socket, &loss, workspace, now);
            PeerAction::None
        });
        if !is_handled {
            self.lose(ring, id, loss, now);
        }
    }

    /// Handles the loss of a connection.
    fn lose<R: Ring>(&mut self, ring: &mut R, id: PeerId, loss: Loss, now: Instant) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(loss) = peer.await_exit(loss, now) else {
            // Sets the timer of the next look.
            return self.with_peer(ring, id, now, |_, _, _| PeerAction::None);
        };
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.forget_sockets(&mut *peer);
        let mut stream_ring = StreamRing::new(ring, &mut self.streams);
        let (action, left) = peer.handle_lost(&mut stream_ring, &loss, &mut self.workspace, now);
        if let Some(socket) = left {
            self.closing.insert(&mut stream_ring, socket, now);
        }
        self.peers.insert(id, peer);
        // Opens what the next attempt needs.
        self.with_peer(ring, id, now, |_, _, _| action);
    }

    /// Completions of the connection of a server are ignored from now on.
    fn forget_sockets(&mut self, peer: &mut dyn PeerIo) {
        let Some(stream) = peer.stream() else { return };
        for socket in stream.sockets() {
            if let Some(entry) = self.sockets.get_mut(socket.index()) {
                *entry = None;
            }
        }
    }
}

/// The connections of servers: opened, and registered with the ring.
impl IoDriver {
    /// Opens the streams of a server, or of the target for a request of a flow.
    fn open_streams<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        flow_target: Option<(u64, Arc<Target>)>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get(&id) else { return };
        let job = ConnectJob::new(id, peer.settings(), flow_target, self.sender.clone());
        if let Some(report) = self.connector.open(ring, job, now) {
            self.handle_command(ring, report, now);
        }
    }

    /// Handles the end of an attempt to connect for a request of a flow.
    fn handle_flow_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        number: u64,
        opened: Result<OpenStreams, OpenError>,
        now: Instant,
    ) {
        let mut used = None;
        let opened = self.register(ring, opened).map(|streams| streams.sockets[0]);
        let socket = opened.as_ref().ok().copied();
        self.with_peer(ring, id, now, |peer, ring, _| {
            match (opened, peer.flow()) {
                (Ok(socket), Some(flow)) => {
                    let is_used = flow.handle_connected(ring, number, socket);
                    used = is_used.then_some(socket);
                }
                (Err(error), Some(flow)) => flow.handle_connect_failure(number, error, now),
                (_, None) => {}
            }
            PeerAction::None
        });
        match (used, socket) {
            (Some(socket), _) => {
                self.set_peer(socket, id);
                self.handle_decrypted(ring, now);
            }
            (None, Some(socket)) => {
                StreamRing::new(ring, &mut self.streams).submit(Operation::Close(socket));
            }
            (None, None) => {}
        }
    }

    /// Registers the streams of a connection, and its TLS.
    fn register<R: Ring>(
        &mut self,
        ring: &mut R,
        opened: Result<OpenStreams, OpenError>,
    ) -> Result<RegisteredStreams, OpenError> {
        let mut streams = opened?.register(ring)?;
        if let Some(TlsConnection { filter, received }) = streams.tls.take() {
            self.streams.insert(streams.sockets[0], *filter, received);
        }
        Ok(streams)
    }

    /// Handles the end of an attempt to connect.
    fn handle_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        opened: Result<OpenStreams, OpenError>,
        now: Instant,
    ) {
        if !self.peers.contains_key(&id) {
            return opened.into_iter().for_each(|streams| streams.close(ring));
        }
        let opened = self.register(ring, opened);
        let mut sockets = None;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            sockets = peer.handle_opened(opened, ring, workspace, now);
            PeerAction::None
        });
        let Some(sockets) = sockets else { return };
        for socket in sockets {
            self.set_peer(socket, id);
        }
        self.handle_decrypted(ring, now);
    }
}

impl<R: Ring> Driver<R> for IoDriver {
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        if completion.socket().is_some_and(|socket| self.streams.is_filtered(socket)) {
            self.streams.handle(ring, completion);
            self.handle_decrypted(ring, now);
        } else {
            self.handle_plain(ring, completion, now);
        }
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        self.closing.expire(&mut StreamRing::new(ring, &mut self.streams), now);
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(report) = self.connector.expire(now) else { break };
            self.handle_command(ring, report, now);
        }
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(id) = self.timers.pop_expired(now) else { return };
            self.with_peer(ring, id, now, |peer, ring, workspace| {
                peer.expire(ring, workspace, now)
            });
        }
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        let mut commands = std::mem::take(&mut self.commands);
        let has_more = OwnCommands::receive(&mut self.inbox, &mut commands, COMMANDS_PER_TURN_MAX);
        for command in commands.drain(..) {
            self.handle_command(ring, command, now);
        }
        self.commands = commands;
        // A command to itself may need what another thread has sent before it.
        while !has_more && let Some(command) = OwnCommands::pop() {
            self.handle_command(ring, command, now);
        }
        self.make_calls(ring, now);
        self.workspace.ended.wake_all();
        has_more
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        let (finished, has_more) = self.workspace.inputs.poll();
        for input in finished {
            self.with_client::<Mcp, _>(ring, input.peer, now, |peer, workspace| {
                peer.run(workspace, now, |session, step| session.provide_input(&input, step));
                PeerAction::None
            });
        }
        self.workspace.ended.wake_all();
        has_more || !OwnCommands::is_empty()
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        for id in self.flush_queue.drain(..) {
            if let Some(stream) = self.peers.get_mut(&id).and_then(|peer| peer.stream()) {
                stream.flush(&mut StreamRing::new(ring, &mut self.streams));
            }
        }
        self.handle_decrypted(ring, now);
        self.workspace.ended.wake_all();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let connector = self.connector.next_deadline();
        [self.timers.next_deadline(), self.closing.deadline(), connector]
            .into_iter()
            .flatten()
            .min()
    }

    fn prepare_park(&mut self) -> bool {
        OwnCommands::is_empty() && self.workspace.inputs.prepare_park() && self.inbox.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.is_stopping
            && self.peers.is_empty()
            && self.closing.is_empty()
            && self.connector.is_idle()
    }
}

/// The error of calls to a client that was closed.
fn closed() -> ClientError {
    ClientError::new(ClientErrorKind::Closed, "the client was closed")
}
