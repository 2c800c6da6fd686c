//! What other threads ask of the I/O thread, and what it asks of itself.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::call_slot::{CallSlot, CallToken, ConnectToken, run_callback};
use super::connect::{OpenError, OpenStreams};
use super::peer_settings::{PeerId, PeerSettings};
use super::tasks::NewTask;
use crate::error::ClientError;
use crate::oauth::Secret;
use crate::parity_session::{ParityCallRequest, ParityChunk, ParityConfig, ParityServerInfo};
use crate::session::CallRequest;
use crate::sync::CloseSlot;
use corelane_engine::mesh::{Inbox, ShardId};

/// The only shard of the mesh of an I/O thread.
pub const SHARD: ShardId = ShardId(0);

/// A call to make.
#[derive(Debug)]
pub struct NewCall {
    pub request: Box<CallRequest>,
    pub token: CallToken,
}

/// A message to the I/O thread.
#[derive(Debug)]
pub enum Command {
    /// Adds a server, which is not connected yet.
    AddPeer(PeerId, Box<PeerSettings>),
    /// Adds a server of the parity dialect, which is not connected yet.
    AddParityPeer(PeerId, Box<NewParityPeer>),
    /// Passes a command to a server of the parity dialect.
    Parity(PeerId, ParityCommand),
    /// Connects, unless the server is connected, and reports the end of the handshake.
    Connect(PeerId, ConnectToken),
    /// Makes a call.
    Call(PeerId, NewCall),
    /// Cancels the calls whose caller is gone.
    Cancel(PeerId, Arc<CallSlot>),
    /// The streams of a server were opened.
    Opened(PeerId, Box<Result<OpenStreams, OpenError>>),
    /// The connection for a request of a flow of authorization, by its number, was opened.
    FlowOpened(PeerId, u64, Box<Result<OpenStreams, OpenError>>),
    /// The browser was redirected: the number of the flow, and the query.
    Redirected(PeerId, u64, Result<Secret, String>),
    /// Disconnects and removes a server; the slot is set once its streams are closed and the
    /// programs that were started for it have ended.
    RemovePeer(PeerId, Option<CloseSlot>),
    /// Runs a task on the thread.
    Spawn(NewTask),
    /// Ends the thread.
    Stop,
}

/// The commands of an I/O thread to itself, from callbacks and tasks that run on it.
///
/// They do not pass through the inbox: a thread that waited for its own inbox would wait for good.
/// What a session does not accept is refused by the session.
///
/// Invariants: a server that the thread adds is added before the commands of other threads are
/// handled, to which its client may have been passed; other commands are handled after those.
#[derive(Debug)]
pub struct OwnCommands {
    /// Those that add servers.
    additions: VecDeque<Command>,
    others: VecDeque<Command>,
}

thread_local! {
    static OWN_COMMANDS: RefCell<OwnCommands> = const {
        RefCell::new(OwnCommands { additions: VecDeque::new(), others: VecDeque::new() })
    };
}

impl OwnCommands {
    /// Adds a command to the calling thread. Fails if the thread is ending.
    pub fn push(command: Command) -> Result<(), ()> {
        let pushed = OWN_COMMANDS.try_with(|commands| {
            let mut commands = commands.borrow_mut();
            match command {
                Command::AddPeer(..) | Command::AddParityPeer(..) => {
                    commands.additions.push_back(command);
                }
                _ => commands.others.push_back(command),
            }
        });
        pushed.map_err(|_| ())
    }

    /// Appends to `commands` the servers that the calling thread adds, and then at most
    /// `commands_max` commands of other threads. Returns whether more of these wait.
    pub fn receive(
        inbox: &mut Inbox<Command>,
        commands: &mut Vec<Command>,
        commands_max: usize,
    ) -> bool {
        OWN_COMMANDS.with_borrow_mut(|own| commands.extend(own.additions.drain(..)));
        inbox.receive(commands, commands_max)
    }

    /// Removes the oldest command of the calling thread; first those that add servers.
    pub fn pop() -> Option<Command> {
        OWN_COMMANDS
            .with_borrow_mut(|own| own.additions.pop_front().or_else(|| own.others.pop_front()))
    }

    /// Returns whether the calling thread has no commands to itself.
    pub fn is_empty() -> bool {
        OWN_COMMANDS.with_borrow(|own| own.additions.is_empty() && own.others.is_empty())
    }
}

/// A change of a session of the parity dialect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ParityEvent {
    /// The session is ready. `resumed` of [`ParityServerInfo`] says whether it continues.
    Ready(Arc<ParityServerInfo>),
    /// The server cannot continue the session whose connection was lost, and has begun another:
    /// open streams have failed with [`Restart`](crate::ClientErrorKind::Restart).
    Restarted {
        /// Why, in the words of the server: such as `expired`, `stale_window`, `unknown_server`.
        reason: String,
    },
    /// A request is sent again after an error that is retryable.
    Retried {
        /// The error.
        error: ClientError,
    },
    /// The connection was lost, or an attempt to connect has failed.
    Disconnected {
        /// Why.
        reason: ClientError,
    },
}

/// Called on the I/O thread for each chunk of a stream.
pub type ChunkCallback = Box<dyn Fn(ParityChunk) + Send + Sync>;

/// How a request of the parity dialect ends: with its result as JSON text.
type ParityOutcome = Result<Vec<u8>, ClientError>;

/// A request of the parity dialect as its caller and the I/O thread share it.
pub type ParitySlot = CallSlot<ParityOutcome, Option<ChunkCallback>>;

/// The right to end a request.
pub(super) type ParityToken = CallToken<ParityOutcome, Option<ChunkCallback>>;

/// Called on the I/O thread for each event.
pub type ParityEventCallback = Box<dyn Fn(ParityEvent) + Send + Sync>;

/// A server of the parity dialect that is not connected yet.
pub struct NewParityPeer {
    pub settings: PeerSettings,
    pub config: Arc<ParityConfig>,
    pub on_event: Option<ParityEventCallback>,
}

impl ParitySlot {
    /// Reports a chunk to the caller.
    pub(super) fn report_chunk(&self, chunk: ParityChunk) {
        if let Some(on_chunk) = self.callbacks() {
            run_callback(|| on_chunk(chunk));
        }
    }
}

impl fmt::Debug for NewParityPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NewParityPeer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A request of the parity dialect to make.
#[derive(Debug)]
pub(super) struct NewParityCall {
    pub(super) request: Box<ParityCallRequest>,
    pub(super) token: ParityToken,
}

/// What a client asks of its server of the parity dialect.
#[derive(Debug)]
pub(super) enum ParityCommand {
    /// Connects, unless the session is ready, and reports the end of the handshake.
    Connect(ConnectToken<ParityServerInfo>),
    /// Makes a request.
    Call(NewParityCall),
    /// Cancels a request.
    Cancel(Arc<ParitySlot>),
    /// Replaces the token of the caller.
    SetAuthToken(Secret),
}
