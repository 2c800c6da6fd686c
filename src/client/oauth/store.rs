//! Where tokens are kept, and those of one server, as one client uses them.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::tokens::StoredTokens;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Bytes of a file of tokens at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keeps tokens between connections. It is called on the I/O thread and must not block for long.
pub trait TokenStore: Send + Sync {
    /// Returns the tokens for the server at the URL `server`.
    ///
    /// # Errors
    ///
    /// Those of the store; the client logs them and goes on without the tokens.
    fn load(&self, server: &str) -> io::Result<Option<StoredTokens>>;

    /// Replaces the tokens for the server at the URL `server`.
    ///
    /// # Errors
    ///
    /// Those of the store; the client logs them and goes on with the tokens.
    fn save(&self, server: &str, tokens: &StoredTokens) -> io::Result<()>;

    /// Begins to replace the tokens for the server at the URL `server`: other clients of the store
    /// get `None` until the lock is dropped, ask again, and then load what has been saved. So a
    /// refresh token, which some authorization servers accept once, is used by one of them only. It
    /// must not wait. Default: a lock that excludes no other client.
    ///
    /// # Errors
    ///
    /// Those of the store; the client logs them and goes on without the lock.
    fn try_lock(&self, server: &str) -> io::Result<Option<TokenLock>> {
        let _ = server;
        Ok(Some(TokenLock::new(())))
    }
}

/// The right to replace the tokens for one server, until it is dropped
/// ([`TokenStore::try_lock`]).
pub struct TokenLock(
    #[expect(dead_code, reason = "dropping it ends the lock")] Box<dyn Any + Send>,
);

impl TokenLock {
    /// Creates a lock that ends when `guard` is dropped.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for TokenLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenLock").finish_non_exhaustive()
    }
}

/// Keeps tokens in memory, for the clients that share it.
#[derive(Debug, Default)]
pub struct MemoryTokenStore(Arc<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    tokens: Mutex<HashMap<String, StoredTokens>>,
    /// Servers whose tokens are being replaced.
    locked: Mutex<HashSet<String>>,
}

/// Ends the lock of a server when it is dropped.
#[derive(Debug)]
struct MemoryLock {
    state: Arc<MemoryState>,
    server: String,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.state.locked).remove(&self.server);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryTokenStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, server: &str) -> io::Result<Option<StoredTokens>> {
        Ok(lock(&self.0.tokens).get(server).cloned())
    }

    fn save(&self, server: &str, tokens: &StoredTokens) -> io::Result<()> {
        lock(&self.0.tokens).insert(server.to_owned(), tokens.clone());
        Ok(())
    }

    fn try_lock(&self, server: &str) -> io::Result<Option<TokenLock>> {
        let server = server.to_owned();
        if !lock(&self.0.locked).insert(server.clone()) {
            return Ok(None);
        }
        Ok(Some(TokenLock::new(MemoryLock { state: Arc::clone(&self.0), server })))
    }
}

/// Keeps tokens in files of a directory, one for each server. Only the user may read them (mode
/// 0600); they are replaced as a whole, by one process at a time (flock(2) of a file besides).
#[derive(Clone, Debug)]
pub struct FileTokenStore {
    directory: PathBuf,
}

impl FileTokenStore {
    /// Creates a store in `directory`, which is created with mode 0700 if it is missing.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the store of the command `corelane`: `corelane/tokens` in the directory for the
    /// state of programs, `$XDG_STATE_HOME` or else `$HOME/.local/state` (XDG Base Directory
    /// Specification). `None` if neither variable has an absolute path.
    pub fn of_user() -> Option<Self> {
        let state = absolute_variable("XDG_STATE_HOME")
            .or_else(|| Some(absolute_variable("HOME")?.join(".local/state")))?;
        Some(Self::new(state.join("corelane/tokens")))
    }

    fn path(&self, server: &str) -> PathBuf {
        let name = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(server)[..16]);
        self.directory.join(name + ".json")
    }

    fn create_directory(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }
}

impl TokenStore for FileTokenStore {
    fn load(&self, server: &str) -> io::Result<Option<StoredTokens>> {
        let path = self.path(server);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & 0o077 != 0 {
            let text = format!("{} may be read by others: chmod 600 it", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        if metadata.len() > FILE_BYTES_MAX {
            let text = format!("{} is too large", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Some(serde_json::from_reader(io::BufReader::new(file))?))
    }

    fn save(&self, server: &str, tokens: &StoredTokens) -> io::Result<()> {
        self.create_directory()?;
        let path = self.path(server);
        let temporary = temporary_path(&path);
        let text = serde_json::to_vec(tokens)?;
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let written = opened.and_then(|mut file| {
            // The mode of a file that is left over may differ.
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(&text)?;
            fs::rename(&temporary, &path)
        });
        if written.is_err() {
            // What is left is removed as far as possible.
            fs::remove_file(&temporary).unwrap_or(());
        }
        written
    }

    fn try_lock(&self, server: &str) -> io::Result<Option<TokenLock>> {
        self.create_directory()?;
        // The file of the tokens is replaced, and a lock with it would be lost.
        let path = self.path(server).with_extension("lock");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(TokenLock::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "directories of the user are no options")]
fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name)?);
    path.is_absolute().then_some(path)
}

/// Returns the name of the file that replaces `path`, for this process alone.
fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.new", std::process::id()))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::tokens::Secret;
    use crate::oauth::tokens::{ClientAuth, RegisteredClient};

    fn tokens(access_token: &str) -> StoredTokens {
        StoredTokens {
            issuer: "https://as".into(),
            token_endpoint: "https://as/token".into(),
            resource: "https://a/mcp".into(),
            client: RegisteredClient {
                id: "client".into(),
                secret: Some(Secret::new("hidden")),
                auth: ClientAuth::ClientSecretPost,
                registered_redirect_uri: None,
            },
            scopes: vec!["a".into()],
            access_token: Secret::new(access_token),
            refresh_token: None,
            issued_at: 100,
            expires_in: Some(50),
            dpop_key: None,
            omits_resource: false,
        }
    }

    #[test]
    fn file_is_private_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let store = FileTokenStore::new(directory.path().join("tokens"));
        assert_eq!(store.load("https://a/mcp").unwrap(), None);
        for token in ["one", "two"] {
            store.save("https://a/mcp", &tokens(token)).unwrap();
            assert_eq!(store.load("https://a/mcp").unwrap(), Some(tokens(token)));
        }
        assert_eq!(store.load("https://b/mcp").unwrap(), None);
        let files: Vec<_> = fs::read_dir(&store.directory).unwrap().collect();
        assert_eq!(files.len(), 1);
        let path = store.path("https://a/mcp");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&store.directory)), (0o600, 0o700));

        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = store.load("https://a/mcp").unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    #[test]
    fn memory_store_keeps_servers_apart() {
        let store = MemoryTokenStore::new();
        store.save("https://a", &tokens("token-1")).unwrap();
        assert_eq!(store.load("https://a").unwrap(), Some(tokens("token-1")));
        assert_eq!(store.load("https://b").unwrap(), None);
        let shown = format!("{store:?} {:?}", tokens("token-1").client);
        assert!(!shown.contains("token-1") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn lock_excludes_other_clients_of_store() {
        let directory = tempfile::tempdir().unwrap();
        let (memory, file) = (MemoryTokenStore::new(), FileTokenStore::new(directory.path()));
        let other = FileTokenStore::new(directory.path());
        for (one, two) in
            [(&memory as &dyn TokenStore, &memory as &dyn TokenStore), (&file, &other)]
        {
            let lock = one.try_lock("https://a").unwrap();
            assert!(lock.is_some());
            assert!(two.try_lock("https://a").unwrap().is_none());
            assert!(two.try_lock("https://b").unwrap().is_some());
            drop(lock);
            assert!(two.try_lock("https://a").unwrap().is_some());
        }
    }

    #[test]
    fn registration_is_stored_beside_no_tokens() {
        let store: Arc<dyn TokenStore> = Arc::new(MemoryTokenStore::new());
        let mut entry = TokenEntry::open(Arc::clone(&store), "https://a");
        let registration = tokens("");
        entry.save_registration(registration.clone());
        assert_eq!(store.load("https://a").unwrap(), Some(registration.clone()));
        assert_eq!(entry.reload(), None);
        store.save("https://a", &tokens("one")).unwrap();
        assert_eq!(entry.reload(), Some(&tokens("one")));
        assert_eq!(entry.reload(), None);
        entry.save_registration(registration);
        assert_eq!(store.load("https://a").unwrap(), Some(tokens("one")));
    }

    #[test]
    fn refresh_is_due_at_four_fifths() {
        let tokens = tokens("one");
        assert!(!tokens.is_refresh_due(139) && tokens.is_refresh_due(140));
        let lasting = StoredTokens { expires_in: None, ..tokens };
        assert!(!lasting.is_refresh_due(u64::MAX));
    }
}
