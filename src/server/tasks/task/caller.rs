//! The peer whose call began a task, and the progress that it was sent.

use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::{Principal, is_same_caller};
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::revision::Revision;

use crate::server::reply_to::{PeerId, ReplyTo};

/// The connection or session that created a task, and its address, unless that is exempt from the
/// shares.
#[derive(Clone, Copy, Debug)]
pub struct TaskOwner {
    pub peer: PeerId,
    pub address: Option<ClientAddress>,
}

/// The caller of a task. It may disconnect before the task ends.
#[derive(Debug)]
pub struct TaskCaller {
    owner: TaskOwner,
    principal: Option<Arc<Principal>>,
    /// Whether the peer has gone.
    is_gone: bool,
    revision: Revision,
    progress_token: Option<IdBuf>,
    /// Last progress sent; later values must be greater.
    last_progress: f64,
}

impl TaskCaller {
    /// Creates a caller that was sent no progress. A long progress token is dropped: progress
    /// notifications are optional, and a token that is stored for the ttl must be short.
    pub(super) fn new(
        owner: TaskOwner,
        principal: Option<Arc<Principal>>,
        revision: Revision,
        progress_token: Option<IdBuf>,
    ) -> Self {
        let is_short = |token: &IdBuf| match token.as_id() {
            Id::Text(text) => text.len() <= PROGRESS_TOKEN_BYTES_MAX,
            Id::Signed(_) | Id::Unsigned(_) | Id::Whole(_) => true,
        };
        let progress_token = progress_token.filter(is_short);
        let (is_gone, last_progress) = (false, f64::NEG_INFINITY);
        Self { owner, principal, is_gone, revision, progress_token, last_progress }
    }

    /// Returns the owner of the task.
    pub const fn owner(&self) -> TaskOwner {
        self.owner
    }

    /// Returns the address of the peer, unless it is exempt from the shares.
    pub const fn address(&self) -> Option<ClientAddress> {
        self.owner.address
    }

    /// Returns whether a request of `principal` may find the task.
    pub fn is_caller(&self, principal: Option<&Principal>) -> bool {
        is_same_caller(self.principal.as_deref(), principal)
    }

    /// Returns who it is, if callers are authenticated.
    pub const fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Returns whether the peer has gone.
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Records that the peer has gone.
    pub const fn mark_gone(&mut self) {
        self.is_gone = true;
    }

    pub const fn peer(&self) -> PeerId {
        self.owner.peer
    }

    /// Returns the revision of its call, in which the result is stored.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns where its notifications are sent.
    pub const fn reply_to(&self) -> ReplyTo {
        ReplyTo::standalone(self.owner.peer)
    }

    /// Sets the last progress that the call was sent before it became a task.
    pub const fn set_last_progress(&mut self, progress: f64) {
        self.last_progress = progress;
    }

    /// Advances the progress; returns the token to send it with. Returns `None` if it is not
    /// greater than the last, if there is no token, and for modern callers, who get no progress of
    /// tasks.
    pub(super) fn advance_progress(&mut self, progress: f64) -> Option<Id<'_>> {
        let is_due = !self.revision.is_modern() && progress > self.last_progress;
        let token = self.progress_token.as_ref().filter(|_| is_due)?;
        self.last_progress = progress;
        Some(token.as_id())
    }
}

/// Longest progress token of a task that is stored. A task outlives its connection, and a token may
/// be as long as a message.
const PROGRESS_TOKEN_BYTES_MAX: usize = 256;
