//! What other threads ask of the I/O thread, what it asks of itself, and calls that are made
//! together.

use std::sync::Arc;

use corelane_engine::mesh::ShardId;

use crate::io::call_slot::{CallSlot, CallToken, ConnectToken};
use crate::io::connect::{OpenError, OpenStreams};
use crate::io::parity_commands::{NewParityPeer, ParityCommand};
use crate::io::peer_handle::PeerHandle;
use crate::io::task::NewTask;
use crate::oauth::Secret;
use crate::oneshot::CloseSlot;
use crate::session::CallRequest;

/// The only shard of the mesh of an I/O thread.
pub const SHARD: ShardId = ShardId(0);

/// Names a server of an I/O thread.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PeerId(pub u64);

/// A call to make.
pub type NewCall = (Box<CallRequest>, CallToken);

/// A message to the I/O thread.
#[derive(Debug)]
pub enum Command {
    /// Adds a server, which is not connected yet.
    AddPeer(PeerId, Box<PeerHandle>),
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

/// Consecutive calls of one server.
#[derive(Debug, Default)]
pub struct CallBatch {
    /// `None` if there are no calls.
    peer: Option<PeerId>,
    calls: Vec<NewCall>,
}

impl CallBatch {
    /// Returns whether a call of the server `peer` may be added.
    pub fn accepts(&self, peer: PeerId) -> bool {
        self.peer.is_none_or(|it| it == peer)
    }

    /// Adds a call, which [`CallBatch::accepts`] allows.
    pub fn push(&mut self, peer: PeerId, call: NewCall) {
        debug_assert!(self.accepts(peer), "calls of two servers in a batch");
        self.peer = Some(peer);
        self.calls.push(call);
    }

    /// Takes the calls, if there are any, and their server.
    pub fn take(&mut self) -> Option<(PeerId, Vec<NewCall>)> {
        Some((self.peer.take()?, std::mem::take(&mut self.calls)))
    }

    /// Takes back the memory of calls that were made.
    pub fn put_memory(&mut self, calls: Vec<NewCall>) {
        debug_assert!(calls.is_empty(), "a call was not made");
        if self.calls.capacity() == 0 {
            self.calls = calls;
        }
    }
}
