//! A server of an I/O thread, as its clients hold it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::IoThread;
use crate::cache::Cache;
use crate::error::{ClientError, ClientErrorKind};
use crate::io::call_slot::{CallSlot, CallToken, ConnectToken};
use crate::io::commands::{
    Command, NewCall, NewParityCall, NewParityPeer, ParityCommand, ParitySlot,
};
use crate::io::peer_settings::{PeerId, PeerSettings};
use crate::known_tools::KnownTools;
use crate::oauth::Secret;
use crate::parity_session::{ParityCallRequest, ParityServerInfo};
use crate::session::{CallRequest, ServerInfo, SessionConfig};
use crate::sync::Oneshot;
use crate::target::Target;

/// A server of an I/O thread, with what its callers share. Dropping it disconnects the server.
pub struct PeerRef<S = McpShared> {
    thread: IoThread,
    id: PeerId,
    pub shared: S,
}

impl<S> PeerRef<S> {
    /// Adds a server with the command that `add` returns for its id.
    fn add(
        thread: IoThread,
        shared: S,
        add: impl FnOnce(PeerId) -> Command,
    ) -> Result<Self, ClientError> {
        let id = PeerId(thread.shared.last_peer.fetch_add(1, Ordering::Relaxed) + 1);
        thread.send(add(id))?;
        Ok(Self { thread, id, shared })
    }

    /// Sends the command that `command` returns for the id of the server. Fails if the thread has
    /// ended.
    fn send(&self, command: impl FnOnce(PeerId) -> Command) -> Result<(), ClientError> {
        self.thread.send(command(self.id))
    }

    /// Connects with the command that `command` returns, if the server is not connected. Returns
    /// what it declared in the handshake.
    async fn connect<I>(
        &self,
        command: impl FnOnce(PeerId, ConnectToken<I>) -> Command,
    ) -> Result<Arc<I>, ClientError> {
        let slot = Arc::new(Oneshot::new());
        let token = ConnectToken::new(Arc::clone(&slot));
        self.send(|id| command(id, token))?;
        slot.take().await
    }

    /// Blocks the calling thread until `request` ends.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] on the thread that does the I/O of the server, and those
    /// of `request`.
    pub fn wait<O>(
        &self,
        request: impl IntoFuture<Output = Result<O, ClientError>>,
    ) -> Result<O, ClientError> {
        self.thread.wait(request)
    }

    /// Disconnects the server, and waits until its programs have ended.
    pub async fn close(&self) {
        let closed = Arc::new(Oneshot::new());
        let slot = Some(Arc::clone(&closed));
        if self.send(|id| Command::RemovePeer(id, slot)).is_ok() {
            closed.take().await;
        }
    }
}

impl<S> Drop for PeerRef<S> {
    fn drop(&mut self) {
        // Fails if the thread has ended, and the connection with it.
        drop(self.send(|id| Command::RemovePeer(id, None)));
    }
}

/// What the callers of a server of MCP share.
pub struct McpShared {
    /// What its sessions have in common.
    pub config: Arc<SessionConfig>,
    /// What its tools have declared.
    pub tools: KnownTools,
    /// Its results that may be used again.
    pub cache: Arc<Cache>,
}

impl PeerRef {
    /// Adds a server, which is not connected yet.
    pub fn of_mcp(thread: IoThread, settings: PeerSettings) -> Result<Self, ClientError> {
        let is_http = matches!(*settings.target, Target::Http(_));
        let (config, cache) = (Arc::clone(&settings.config), Arc::clone(&settings.cache));
        let shared = McpShared { config, tools: KnownTools::new(is_http), cache };
        Self::add(thread, shared, |id| Command::AddPeer(id, Box::new(settings)))
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    pub async fn server(&self) -> Result<Arc<ServerInfo>, ClientError> {
        self.connect(Command::Connect).await
    }

    /// Makes a call.
    pub fn call(&self, request: Box<CallRequest>, slot: Arc<CallSlot>) -> Result<(), ClientError> {
        self.send(|id| Command::Call(id, NewCall { request, token: CallToken::first(slot) }))
    }

    /// Cancels a call.
    pub fn cancel(&self, slot: Arc<CallSlot>) {
        // Fails if the thread has ended, and the call with it.
        drop(self.send(|id| Command::Cancel(id, slot)));
    }
}

/// What the callers of a server of the parity dialect share.
pub struct ParityShared {
    is_http: bool,
}

/// A server of the parity dialect.
pub type ParityPeerRef = PeerRef<ParityShared>;

impl ParityPeerRef {
    /// Adds a server, which is not connected yet.
    pub fn of_parity(thread: IoThread, new: NewParityPeer) -> Result<Self, ClientError> {
        let shared = ParityShared { is_http: matches!(*new.settings.target, Target::Http(_)) };
        Self::add(thread, shared, |id| Command::AddParityPeer(id, Box::new(new)))
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    pub async fn server(&self) -> Result<Arc<ParityServerInfo>, ClientError> {
        self.connect(|id, token| Command::Parity(id, ParityCommand::Connect(token))).await
    }

    /// Makes a request.
    pub fn call(
        &self,
        request: Box<ParityCallRequest>,
        slot: Arc<ParitySlot>,
    ) -> Result<(), ClientError> {
        let call = NewParityCall { request, token: CallToken::first(slot) };
        self.send(|id| Command::Parity(id, ParityCommand::Call(call)))
    }

    /// Cancels a request.
    pub fn cancel(&self, slot: Arc<ParitySlot>) {
        // Fails if the thread has ended, and the request with it.
        drop(self.send(|id| Command::Parity(id, ParityCommand::Cancel(slot))));
    }

    /// Replaces the token of the caller.
    pub fn set_auth_token(&self, token: &str) -> Result<(), ClientError> {
        if self.shared.is_http {
            let text = "the header Authorization of HTTP requests cannot be replaced";
            return Err(ClientError::new(ClientErrorKind::Unsupported, text));
        }
        let token = Secret::new(token);
        self.send(|id| Command::Parity(id, ParityCommand::SetAuthToken(token)))
    }
}
