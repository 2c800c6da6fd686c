//! A server of an I/O thread, as any client holds it.

use std::sync::atomic::Ordering;

use super::IoThread;
use crate::client::error::ClientError;
use crate::client::io::commands::{Command, PeerId};
use crate::client::oneshot::CloseSlot;

/// A server of an I/O thread. Dropping it disconnects the server.
pub(super) struct HeldPeer {
    thread: IoThread,
    id: PeerId,
}

impl HeldPeer {
    /// Adds a server with the command that `add` returns for its id.
    pub(super) fn add(
        thread: IoThread,
        add: impl FnOnce(PeerId) -> Command,
    ) -> Result<Self, ClientError> {
        let id = PeerId(thread.shared.last_peer.fetch_add(1, Ordering::Relaxed) + 1);
        thread.send(add(id))?;
        Ok(Self { thread, id })
    }

    /// Sends the command that `command` returns for the id of the server. Fails if the thread has
    /// ended.
    pub(super) fn send(&self, command: impl FnOnce(PeerId) -> Command) -> Result<(), ClientError> {
        self.thread.send(command(self.id))
    }

    /// Blocks the calling thread until `request` ends.
    ///
    /// # Errors
    ///
    /// `InvalidInput` on the thread that does the I/O of the server, and those of `request`.
    pub(super) fn wait<O>(
        &self,
        request: impl IntoFuture<Output = Result<O, ClientError>>,
    ) -> Result<O, ClientError> {
        self.thread.wait(request)
    }

    /// Disconnects the server; `closed` is set then.
    pub(super) fn close(&self, closed: CloseSlot) -> Result<(), ClientError> {
        self.send(|id| Command::RemovePeer(id, Some(closed)))
    }
}

impl Drop for HeldPeer {
    fn drop(&mut self) {
        // Fails if the thread has ended, and the connection with it.
        drop(self.send(|id| Command::RemovePeer(id, None)));
    }
}
