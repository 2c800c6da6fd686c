//! What a request says in `params._meta`.
//!
//! What it keeps true: a key that is read here occurs once; a member that is `null` counts as left
//! out, except the two that make a request modern, which must be there in full. Keys that are not
//! known are passed over.
//!
//! Source: 2026-07-28 `basic/index`, "_meta"; `progressToken`: every revision, `basic/utilities`.

use super::capabilities::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;

/// The key that makes a request modern.
pub const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client of a modern request can do.
pub const CLIENT_CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// From which level on a modern request wants log messages.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` of one request, as far as the protocol reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta<'a> {
    version: Option<Value<'a>>,
    capabilities: Option<Value<'a>>,
    log_level: Option<Value<'a>>,
    progress_token: Option<Id<'a>>,
}

impl<'a> Meta<'a> {
    /// Reads `_meta` out of `params`, where there is one.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `_meta` is not an object, a known key occurs twice, or the
    /// progress token is neither a string nor a whole number.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [meta] = params.once(["_meta"])?;
        Self::read_member(meta)
    }

    /// Reads `_meta` itself, as it was found in `params`.
    ///
    /// # Errors
    ///
    /// As [`Meta::read`].
    #[inline]
    pub fn read_member(meta: Option<Value<'a>>) -> Result<Self, Error> {
        match meta.filter(|meta| !meta.is_null()) {
            Some(meta) => Self::read_members(meta),
            None => Ok(Self::default()),
        }
    }

    fn read_members(meta: Value<'a>) -> Result<Self, Error> {
        let Some(meta) = meta.as_object() else {
            return Err(Error::invalid_params("params._meta must be an object"));
        };
        let keys = [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, "progressToken"];
        let [version, capabilities, log_level, token] = meta.once(keys)?;
        let token = token.filter(|token| !token.is_null());
        let progress_token = token.and_then(Id::from_value);
        if token.is_some() && progress_token.is_none() {
            let message = "params._meta.progressToken must be a string (4096 bytes) or a whole \
                           number";
            return Err(Error::invalid_params(message));
        }
        Ok(Self { version, capabilities, log_level, progress_token })
    }

    /// Whether the request claims to be modern: its `_meta` has [`PROTOCOL_VERSION_KEY`].
    #[inline]
    pub const fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// Names the request in `notifications/progress`; without it the client wants none.
    #[inline]
    pub const fn progress_token(&self) -> Option<Id<'a>> {
        self.progress_token
    }

    /// The revision as the request names it, known to us or not.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where it is missing or not a string.
    pub fn version(&self) -> Result<&'a str, Error> {
        self.version.and_then(Value::as_str).ok_or_else(|| missing(PROTOCOL_VERSION_KEY))
    }

    /// Everything that a modern request has to say.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where a required key is missing or a value is not what it should
    /// be; unsupported version (-32022) where the revision is not a modern one of ours.
    pub fn modern(&self) -> Result<ModernMeta<'a>, Error> {
        let version = self.version()?;
        let capabilities = self.capabilities.ok_or_else(|| missing(CLIENT_CAPABILITIES_KEY))?;
        let capabilities = ClientCapabilities::read(capabilities)?;
        let log_level = match self.log_level.filter(|level| !level.is_null()) {
            Some(level) => Some(LogLevel::read(level)?),
            None => None,
        };
        let revision = Revision::parse(version)
            .filter(|revision| revision.is_modern())
            .ok_or_else(|| Error::unsupported_version(version))?;
        Ok(ModernMeta { revision, capabilities, log_level, progress_token: self.progress_token })
    }
}

/// What a modern request says about its client.
#[derive(Clone, Copy, Debug)]
pub struct ModernMeta<'a> {
    /// The revision to answer in.
    pub revision: Revision,
    /// What the client can do for this request.
    pub capabilities: ClientCapabilities,
    /// From which level on it wants log messages; none without it.
    pub log_level: Option<LogLevel>,
    /// Names the request in `notifications/progress`.
    pub progress_token: Option<Id<'a>>,
}

/// Reads the `_meta` of a request that has to be modern.
///
/// # Errors
///
/// As [`Meta::read`] and [`Meta::modern`].
pub fn read_modern(params: Option<Value<'_>>) -> Result<ModernMeta<'_>, Error> {
    Meta::read(params)?.modern()
}

/// How important a log message is (RFC 5424, section 6.2.1), least first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LogLevel {
    /// For those who debug the server.
    Debug,
    /// The usual.
    Info,
    /// Usual, and worth a look.
    Notice,
    /// May become an error.
    Warning,
    /// Something failed.
    Error,
    /// A part of the server failed.
    Critical,
    /// Somebody has to act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// Every level with its name on the wire.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Debug, "debug"),
        (Self::Info, "info"),
        (Self::Notice, "notice"),
        (Self::Warning, "warning"),
        (Self::Error, "error"),
        (Self::Critical, "critical"),
        (Self::Alert, "alert"),
        (Self::Emergency, "emergency"),
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Reads the name of a level.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) for whatever is not one.
    pub fn read(value: Value<'_>) -> Result<Self, Error> {
        let name = value.as_str().unwrap_or_default();
        match Self::ALL.iter().find(|(_, known)| *known == name) {
            Some((level, _)) => Ok(*level),
            None => Err(Error::invalid_params("unknown log level")),
        }
    }
}

#[cold]
fn missing(key: &str) -> Error {
    Error::invalid_params(format!("params._meta needs \"{key}\""))
}
