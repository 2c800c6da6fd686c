//! The tokens of one server in their store, as one client uses them.

use std::fmt;
use std::sync::Arc;

use super::store::{TokenLock, TokenStore};
use super::tokens::StoredTokens;

/// The entry of a server. Errors of the store are logged: the client goes on with what it knows.
pub struct TokenEntry {
    store: Arc<dyn TokenStore>,
    /// The URL of the server.
    server: String,
    known: Option<StoredTokens>,
    /// Held while this client replaces the tokens.
    lock: Option<TokenLock>,
}

impl TokenEntry {
    /// Reads the entry of `server`.
    pub fn open(store: Arc<dyn TokenStore>, server: &str) -> Self {
        let mut entry = Self { store, server: server.to_owned(), known: None, lock: None };
        entry.reload();
        entry
    }

    /// Returns what is known: tokens, or a registration without tokens.
    pub const fn known(&self) -> Option<&StoredTokens> {
        self.known.as_ref()
    }

    /// Reads the entry again. Returns the tokens if they are other ones: another client has
    /// replaced them.
    pub fn reload(&mut self) -> Option<&StoredTokens> {
        let loaded = self.store.load(&self.server).unwrap_or_else(|error| {
            tracing::warn!(%error, "stored tokens cannot be read");
            None
        })?;
        if self.known.as_ref() == Some(&loaded) {
            return None;
        }
        let loaded = self.known.insert(loaded);
        loaded.has_access().then_some(&*loaded)
    }

    /// Begins to replace the tokens. Returns `false` while another client does.
    pub fn try_lock(&mut self) -> bool {
        match self.store.try_lock(&self.server) {
            Ok(Some(lock)) => self.lock = Some(lock),
            Ok(None) => return false,
            Err(error) => tracing::warn!(%error, "stored tokens cannot be locked"),
        }
        true
    }

    /// Lets other clients replace the tokens.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Replaces the tokens.
    pub fn save(&mut self, tokens: StoredTokens) {
        if let Err(error) = self.store.save(&self.server, &tokens) {
            tracing::warn!(%error, "tokens cannot be stored");
        }
        self.known = Some(tokens);
    }

    /// Stores a registration whose login has failed, for the next one. Tokens are not replaced by
    /// it.
    pub fn save_registration(&mut self, registration: StoredTokens) {
        if !self.known.as_ref().is_some_and(StoredTokens::has_access) {
            self.save(registration);
        }
    }
}

impl fmt::Debug for TokenEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenEntry").field("server", &self.server).finish_non_exhaustive()
    }
}
