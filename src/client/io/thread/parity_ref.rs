//! A server of the parity dialect, as its client holds it.

use std::sync::Arc;

use super::IoThread;
use super::held_peer::HeldPeer;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::call_slot::ConnectToken;
use crate::client::io::commands::Command;
use crate::client::io::parity_commands::{
    NewParityPeer, ParityCall, ParityCommand, ParitySlot, ParityToken,
};
use crate::client::oauth::Secret;
use crate::client::oneshot::{CloseSlot, Oneshot};
use crate::client::parity_session::{ParityCallRequest, ParityServerInfo};
use crate::client::target::Target;

/// A server of an I/O thread. Dropping it disconnects the server.
pub(in crate::client) struct ParityPeerRef {
    peer: HeldPeer,
    is_http: bool,
}

impl ParityPeerRef {
    /// Adds a server, which is not connected yet.
    pub(in crate::client) fn add(
        thread: IoThread,
        new: NewParityPeer,
    ) -> Result<Self, ClientError> {
        let is_http = matches!(*new.handle.target, Target::Http(_));
        let peer = HeldPeer::add(thread, |id| Command::AddParityPeer(id, Box::new(new)))?;
        Ok(Self { peer, is_http })
    }

    fn send(&self, command: ParityCommand) -> Result<(), ClientError> {
        self.peer.send(|id| Command::Parity(id, command))
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    pub(in crate::client) async fn server(&self) -> Result<Arc<ParityServerInfo>, ClientError> {
        let slot = Arc::new(Oneshot::new());
        self.send(ParityCommand::Connect(ConnectToken::new(Arc::clone(&slot))))?;
        slot.take().await
    }

    /// Makes a request.
    pub(in crate::client) fn call(
        &self,
        request: Box<ParityCallRequest>,
        slot: Arc<ParitySlot>,
    ) -> Result<(), ClientError> {
        let token = ParityToken::new(slot);
        self.send(ParityCommand::Call(ParityCall { request, token }))
    }

    /// Cancels a request.
    pub(in crate::client) fn cancel(&self, slot: Arc<ParitySlot>) {
        // Fails if the thread has ended, and the request with it.
        drop(self.send(ParityCommand::Cancel(slot)));
    }

    /// Replaces the token of the caller.
    pub(in crate::client) fn set_auth_token(&self, token: &str) -> Result<(), ClientError> {
        if self.is_http {
            let text = "the header Authorization of HTTP requests cannot be replaced";
            return Err(ClientError::new(ClientErrorKind::Unsupported, text));
        }
        self.send(ParityCommand::SetAuthToken(Secret::new(token)))
    }

    /// Blocks the calling thread until `request` ends.
    ///
    /// # Errors
    ///
    /// `InvalidInput` on the thread that does the I/O of the server, and those of `request`.
    pub(in crate::client) fn wait<O>(
        &self,
        request: impl IntoFuture<Output = Result<O, ClientError>>,
    ) -> Result<O, ClientError> {
        self.peer.wait(request)
    }

    /// Disconnects the server; `closed` is set then.
    pub(in crate::client) fn close(&self, closed: CloseSlot) -> Result<(), ClientError> {
        self.peer.close(closed)
    }
}
