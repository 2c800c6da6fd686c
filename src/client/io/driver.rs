//! The turns of an I/O thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, PeerId};
use super::connect::{self, OpenStreams};
use super::http::{FlowRun, RedirectSender};
use super::input_tasks::InputTasks;
use super::link::Loss;
use super::peer::{Peer, PeerAction};
use super::peer_handle::PeerHandle;
use super::workspace::Workspace;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::target::Target;
use crate::engine::blocking::{BlockingPool, Job};
use crate::engine::mesh::{Inbox, Sender, ShardId};
use crate::engine::ring::{Completion, Operation, ReceiveBuffer, Ring, Socket, Waker};
use crate::engine::shard_loop::Driver;
use crate::engine::timer::TimerWheel;

/// Commands handled per turn.
const COMMANDS_PER_TURN_MAX: usize = 1_024;
/// Timers handled per turn.
const TIMERS_PER_TURN_MAX: usize = 1_024;
/// Threads that open connections: name resolution and the start of programs block.
const CONNECT_THREADS_MAX: usize = 8;
/// Connections that wait to be opened.
const CONNECTS_MAX: usize = 65_536;
/// The only shard of the mesh of an I/O thread.
pub(super) const SHARD: ShardId = ShardId(0);

/// Opens the streams of one server and reports them.
#[derive(Debug)]
struct ConnectJob {
    peer: PeerId,
    /// The request of a flow of authorization that the connection is for.
    flow_request: Option<u64>,
    target: Arc<Target>,
    timeout: Duration,
    commands: Sender<Command>,
}

impl Job for ConnectJob {
    fn run(self) {
        let opened = Box::new(connect::open(&self.target, self.timeout));
        let command = match self.flow_request {
            Some(number) => Command::FlowOpened(self.peer, number, opened),
            None => Command::Opened(self.peer, opened),
        };
        // Fails once the thread has ended.
        drop(self.commands.send_while(SHARD, command, || true));
    }
}

/// The servers of an I/O thread.
pub(super) struct IoDriver {
    peers: BTreeMap<PeerId, Peer>,
    /// Open connections by socket.
    sockets: Vec<Option<PeerId>>,
    /// Outputs of programs that end, read until then.
    draining: BTreeSet<Socket>,
    workspace: Workspace,
    timers: TimerWheel<PeerId>,
    /// Servers with output, without duplicates that matter.
    flush_queue: Vec<PeerId>,
    inbox: Inbox<Command>,
    commands: Vec<Command>,
    connects: BlockingPool<PeerId, ConnectJob>,
    sender: Sender<Command>,
    is_stopping: bool,
}

impl IoDriver {
    pub(super) fn new(inbox: Inbox<Command>, sender: Sender<Command>, waker: Waker) -> Self {
        Self {
            peers: BTreeMap::new(),
            sockets: Vec::new(),
            draining: BTreeSet::new(),
            workspace: Workspace::new(InputTasks::new(waker)),
            timers: TimerWheel::new(),
            flush_queue: Vec::new(),
            inbox,
            commands: Vec::new(),
            connects: BlockingPool::new(CONNECT_THREADS_MAX, CONNECTS_MAX),
            sender,
            is_stopping: false,
        }
    }

    fn handle_command<R: Ring>(&mut self, ring: &mut R, command: Command, now: Instant) {
        match command {
            Command::AddPeer(id, handle) => {
                let redirects = RedirectSender::new(id, self.sender.clone());
                self.peers.insert(id, Peer::new(id, *handle, redirects));
            }
            Command::Connect(id, slot) => {
                if !self.peers.contains_key(&id) {
                    return slot.complete(Err(closed()));
                }
                self.with_peer(ring, id, now, |peer, _, workspace| {
                    peer.connect(slot, workspace, now)
                });
            }
            Command::Call(id, call) => {
                let (request, slot) = *call;
                if !self.peers.contains_key(&id) {
                    return slot.complete(Err(closed()));
                }
                self.with_peer(ring, id, now, |peer, _, workspace| {
                    peer.call(request, &slot, workspace, now)
                });
            }
            Command::Cancel(id, slot) => {
                self.with_peer(ring, id, now, |peer, _, workspace| {
                    peer.cancel(&slot, workspace, now);
                    PeerAction::None
                });
            }
            Command::Opened(id, opened) => self.handle_opened(ring, id, *opened, now),
            Command::FlowOpened(id, number, opened) => {
                self.handle_flow_opened(ring, id, number, *opened, now);
            }
            Command::Redirected(id, number, query) => {
                self.with_peer(ring, id, now, |peer, _, workspace| {
                    peer.with_http(workspace, now, |link, _| {
                        if let Some(flow) = link.authorization().0.run() {
                            flow.handle_redirect(number, query, now);
                        }
                    });
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
            Command::Stop => {
                self.is_stopping = true;
                let peers: Vec<PeerId> = self.peers.keys().copied().collect();
                for id in peers {
                    self.handle_command(ring, Command::RemovePeer(id, None), now);
                }
            }
        }
    }

    /// Runs `act` for a server, and then what the server needs: a connection, a timer, a flush.
    fn with_peer<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        now: Instant,
        act: impl FnOnce(&mut Peer, &mut R, &mut Workspace) -> PeerAction,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let action = act(peer, ring, &mut self.workspace);
        let workspace = &mut self.workspace;
        peer.with_http(workspace, now, |link, input| {
            let (authorization, queue) = link.authorization();
            authorization.advance(queue, input);
        });
        if peer.is_closed() {
            self.remove(ring, id);
            return;
        }
        if peer.has_failed() {
            self.lose(ring, id, &Loss::Handshake, now);
            return;
        }
        let connections = peer.advance(ring, &mut self.workspace, now);
        if let Some(deadline) = peer.arm_timer(now) {
            self.timers.insert(deadline, id);
        }
        if peer.stream().is_some() && self.flush_queue.last() != Some(&id) {
            self.flush_queue.push(id);
        }
        let connections = connections + usize::from(action == PeerAction::Connect);
        let flow_target = peer.with_http(&mut self.workspace, now, |link, _| {
            link.authorization().0.run().and_then(FlowRun::take_target)
        });
        for _ in 0..connections {
            self.open_streams(ring, id, None, now);
        }
        if let Some(target) = flow_target.flatten() {
            self.open_streams(ring, id, Some(target), now);
        }
    }

    /// Removes a server whose connection is closed.
    fn remove<R: Ring>(&mut self, ring: &mut R, id: PeerId) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.forget_sockets(&mut peer);
        self.draining.extend(peer.close(ring, false));
    }

    /// Lets a thread open the streams of a server, or of the target for a request of a flow.
    fn open_streams<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        flow_target: Option<(u64, Arc<Target>)>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get(&id) else { return };
        let PeerHandle { target, connect_timeout, .. } = peer.handle();
        let (flow_request, target) = match flow_target {
            Some((number, target)) => (Some(number), target),
            None => (None, Arc::clone(target)),
        };
        let job = ConnectJob {
            peer: id,
            flow_request,
            target,
            timeout: *connect_timeout,
            commands: self.sender.clone(),
        };
        let refused = match self.connects.spawn(id, job) {
            Ok(spawned) => spawned.displaced,
            Err(job) => Some(job),
        };
        if let Some(job) = refused {
            let error = io::Error::other("too many connections are being opened");
            match job.flow_request {
                Some(number) => self.handle_flow_opened(ring, job.peer, number, Err(error), now),
                None => self.handle_opened(ring, job.peer, Err(error), now),
            }
        }
    }

    /// Handles the end of an attempt to connect for a request of a flow.
    fn handle_flow_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        number: u64,
        opened: io::Result<OpenStreams>,
        now: Instant,
    ) {
        let mut used = None;
        let opened = opened.and_then(|streams| connect::register(ring, streams));
        let opened = opened.map(|(sockets, _)| sockets[0]);
        let socket = opened.as_ref().ok().copied();
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            peer.with_http(workspace, now, |link, _| {
                let Some(flow) = link.authorization().0.run() else { return };
                match opened {
                    Ok(socket) => {
                        let is_used = flow.handle_connected(ring, number, socket);
                        used = is_used.then_some(socket);
                    }
                    Err(error) => flow.handle_connect_failure(number, &error, now),
                }
            });
            PeerAction::None
        });
        match (used, socket) {
            (Some(socket), _) => self.set_peer(socket, id),
            (None, Some(socket)) => ring.submit(Operation::Close(socket)),
            (None, None) => {}
        }
    }

    /// Notes which server the completions of `socket` are for.
    fn set_peer(&mut self, socket: Socket, id: PeerId) {
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, None);
        }
        self.sockets[socket.index()] = Some(id);
    }

    fn handle_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        opened: io::Result<OpenStreams>,
        now: Instant,
    ) {
        let mut sockets = None;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            sockets = peer.handle_opened(opened, ring, workspace, now);
            PeerAction::None
        });
        for socket in sockets.into_iter().flatten() {
            self.set_peer(socket, id);
        }
    }

    fn peer_of(&self, socket: Socket) -> Option<PeerId> {
        *self.sockets.get(socket.index())?
    }

    fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
        now: Instant,
    ) {
        if let Some(id) = self.peer_of(socket) {
            self.with_peer(ring, id, now, |peer, ring, workspace| {
                peer.receive(ring, (socket, &buffer), workspace, now);
                PeerAction::None
            });
        }
        ring.release(buffer);
    }

    /// Handles the end or the failure of a socket.
    fn handle_socket_end<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        loss: &Loss,
        now: Instant,
    ) {
        let Some(id) = self.peer_of(socket) else {
            if self.draining.remove(&socket) {
                ring.submit(Operation::Close(socket));
            }
            return;
        };
        let mut is_handled = false;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            is_handled = peer.handle_socket_end(ring, socket, loss, workspace, now);
            PeerAction::None
        });
        if !is_handled {
            self.lose(ring, id, loss, now);
        }
    }

    /// Handles the loss of a connection.
    fn lose<R: Ring>(&mut self, ring: &mut R, id: PeerId, loss: &Loss, now: Instant) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.forget_sockets(&mut peer);
        let (action, left) = peer.handle_lost(ring, loss, &mut self.workspace);
        self.draining.extend(left);
        self.peers.insert(id, peer);
        if action == PeerAction::Connect {
            self.open_streams(ring, id, None, now);
        }
    }

    /// Completions of the connection of a server are ignored from now on.
    fn forget_sockets(&mut self, peer: &mut Peer) {
        let Some(stream) = peer.stream() else { return };
        for socket in stream.sockets() {
            if let Some(entry) = self.sockets.get_mut(socket.index()) {
                *entry = None;
            }
        }
    }
}

impl<R: Ring> Driver<R> for IoDriver {
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        match completion {
            Completion::Received { socket, buffer } => self.receive(ring, socket, buffer, now),
            Completion::Sent { socket, buffer, result } => {
                let Some(id) = self.peer_of(socket) else { return };
                let (sent, error) = match result {
                    Ok(_) => (Ok(buffer), None),
                    Err(error) => (Err(()), Some(error)),
                };
                let mut is_handled = true;
                self.with_peer(ring, id, now, |peer, _, workspace| {
                    is_handled = peer.handle_sent(socket, sent, workspace, now);
                    PeerAction::None
                });
                if !is_handled && let Some(error) = error {
                    self.lose(ring, id, &Loss::Send(error), now);
                }
            }
            Completion::EndOfStream { socket, result } => {
                self.handle_socket_end(ring, socket, &Loss::EndOfStream(result), now);
            }
            Completion::Closed { .. }
            | Completion::Connected { .. }
            | Completion::Accepted { .. }
            | Completion::AcceptFailed { .. } => {}
        }
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(id) = self.timers.pop_expired(now) else { return };
            self.with_peer(ring, id, now, |peer, ring, workspace| {
                peer.expire(ring, workspace, now);
                PeerAction::None
            });
        }
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        let mut commands = std::mem::take(&mut self.commands);
        let has_more = self.inbox.receive(&mut commands, COMMANDS_PER_TURN_MAX);
        for command in commands.drain(..) {
            self.handle_command(ring, command, now);
        }
        self.commands = commands;
        has_more
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        let (finished, has_more) = self.workspace.inputs.poll();
        for input in finished {
            self.with_peer(ring, input.peer, now, |peer, _, workspace| {
                peer.provide_input(&input, workspace, now);
                PeerAction::None
            });
        }
        has_more
    }

    fn flush(&mut self, ring: &mut R, _: Instant) {
        for id in self.flush_queue.drain(..) {
            if let Some(stream) = self.peers.get_mut(&id).and_then(Peer::stream) {
                stream.flush(ring);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn prepare_park(&mut self) -> bool {
        self.workspace.inputs.prepare_park() && self.inbox.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.is_stopping && self.peers.is_empty() && self.draining.is_empty()
    }
}

/// The error of calls to a client that was closed.
fn closed() -> ClientError {
    ClientError::new(ClientErrorKind::Closed, "the client was closed")
}
