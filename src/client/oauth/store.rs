//! Where tokens are kept.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

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
}

/// Keeps tokens in memory, for the clients that share it.
#[derive(Debug, Default)]
pub struct MemoryTokenStore(Mutex<HashMap<String, StoredTokens>>);

impl MemoryTokenStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, server: &str) -> io::Result<Option<StoredTokens>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned())
    }

    fn save(&self, server: &str, tokens: &StoredTokens) -> io::Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(server.to_owned(), tokens.clone());
        Ok(())
    }
}

/// Keeps tokens in files of a directory, one for each server. Only the user may read them (mode
/// 0600); they are replaced as a whole.
#[derive(Clone, Debug)]
pub struct FileTokenStore {
    directory: PathBuf,
}

impl FileTokenStore {
    /// Creates a store in `directory`, which is created with mode 0700 if it is missing.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    fn path(&self, server: &str) -> PathBuf {
        let name = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(server)[..16]);
        self.directory.join(name + ".json")
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
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
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
}

/// Returns the name of the file that replaces `path`, for this process alone.
fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.new", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::oauth::secret::Secret;
    use crate::client::oauth::tokens::{ClientAuth, RegisteredClient};

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
    fn refresh_is_due_at_four_fifths() {
        let tokens = tokens("one");
        assert!(!tokens.is_refresh_due(139) && tokens.is_refresh_due(140));
        let lasting = StoredTokens { expires_in: None, ..tokens };
        assert!(!lasting.is_refresh_due(u64::MAX));
    }
}
