//! The `_meta` of request params.
//!
//! Invariants: a known key occurs at most once; a member that is `null` counts as absent, except
//! the two that are required in a modern request. Unknown keys are ignored.
//!
//! MCP 2026-07-28 `basic/index`, "_meta"; `progressToken`: `basic/utilities` of every revision.

use super::capabilities::ClientCapabilities;
use crate::error::Error;
use crate::json::Value;
use crate::jsonrpc::Id;
use crate::revision::Revision;

/// `_meta` key of the revision; its presence makes a request modern.
pub const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of the client's capabilities in a modern request.
pub const CLIENT_CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key of the client's `Implementation` in a modern request.
pub const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key of the minimum log level in a modern request.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The known members of the `_meta` of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestMetaObject<'a> {
    protocol_version: Option<Value<'a>>,
    capabilities: Option<Value<'a>>,
    log_level: Option<Value<'a>>,
    progress_token: Option<Id<'a>>,
}

impl<'a> RequestMetaObject<'a> {
    /// Reads `_meta` from `params`; empty if either is absent.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `_meta` is not an object, a known key occurs twice, or the
    /// progress token is not a string of at most 4096 bytes or an integer.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [meta] = params.find_unique(["_meta"])?;
        Self::read_value(meta)
    }

    /// Reads the value of `params._meta`.
    ///
    /// # Errors
    ///
    /// As [`RequestMetaObject::read`].
    #[inline]
    pub fn read_value(meta: Option<Value<'a>>) -> Result<Self, Error> {
        match meta.filter(|meta| !meta.is_null()) {
            Some(meta) => Self::read_object(meta),
            None => Ok(Self::default()),
        }
    }

    fn read_object(meta: Value<'a>) -> Result<Self, Error> {
        let Some(meta) = meta.as_object() else {
            return Err(Error::invalid_params("params._meta must be an object"));
        };
        let keys = [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, "progressToken"];
        let [version, capabilities, log_level, token] = meta.find_unique(keys)?;
        let token = token.filter(|token| !token.is_null());
        let progress_token = token.and_then(Id::from_value);
        if token.is_some() && progress_token.is_none() {
            let message = "params._meta.progressToken must be a string of at most 4096 bytes or \
                           an integer";
            return Err(Error::invalid_params(message));
        }
        Ok(Self { protocol_version: version, capabilities, log_level, progress_token })
    }

    /// Returns the same for a request whose revision is known, with its own progress token.
    #[must_use]
    pub const fn with_progress_token(self, progress_token: Option<Id<'a>>) -> Self {
        Self { protocol_version: None, progress_token, ..self }
    }

    /// Returns whether the request is modern: its `_meta` has
    /// `io.modelcontextprotocol/protocolVersion`.
    #[inline]
    pub const fn is_modern(&self) -> bool {
        self.protocol_version.is_some()
    }

    /// Returns the token for `notifications/progress`; `None` if the client wants no progress.
    #[inline]
    pub const fn progress_token(&self) -> Option<Id<'a>> {
        self.progress_token
    }

    /// Returns the requested revision as text, supported or not.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if it is missing or not a string.
    pub fn protocol_version(&self) -> Result<&'a str, Error> {
        self.protocol_version
            .and_then(Value::as_str)
            .ok_or_else(|| missing_key_error(PROTOCOL_VERSION_KEY))
    }

    /// Validates the members that a modern request requires.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if a required key is missing or a value is invalid; unsupported
    /// protocol version (-32022) if the revision is not a supported modern one.
    pub fn parse_modern(&self) -> Result<ModernRequestMeta<'a>, Error> {
        let version = self.protocol_version()?;
        let capabilities =
            self.capabilities.ok_or_else(|| missing_key_error(CLIENT_CAPABILITIES_KEY))?;
        let capabilities = ClientCapabilities::read(capabilities)?;
        let log_level = match self.log_level.filter(|level| !level.is_null()) {
            Some(level) => Some(LoggingLevel::read(level)?),
            None => None,
        };
        let revision = Revision::parse(version)
            .filter(|revision| revision.is_modern())
            .ok_or_else(|| Error::unsupported_protocol_version(version))?;
        Ok(ModernRequestMeta {
            revision,
            capabilities,
            log_level,
            progress_token: self.progress_token,
        })
    }
}

/// Validated `_meta` of a modern request.
#[derive(Clone, Copy, Debug)]
pub struct ModernRequestMeta<'a> {
    /// Revision of the response.
    pub revision: Revision,
    /// Capabilities of the client for this request.
    pub capabilities: ClientCapabilities,
    /// Minimum level of log messages; `None` if the client wants none.
    pub log_level: Option<LoggingLevel>,
    /// Token for `notifications/progress`.
    pub progress_token: Option<Id<'a>>,
}

/// Severity of a log message (RFC 5424, section 6.2.1), lowest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LoggingLevel {
    /// Detailed information for debugging.
    Debug,
    /// Informational message.
    Info,
    /// Normal but significant event.
    Notice,
    /// Condition that may become an error.
    Warning,
    /// Error condition.
    Error,
    /// Critical condition, such as the failure of a component.
    Critical,
    /// Condition that requires immediate action.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LoggingLevel {
    /// Every level with its name on the wire, lowest first.
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

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Reads the name of a level.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the value is not one of the eight names.
    #[doc(hidden)]
    pub fn read(value: Value<'_>) -> Result<Self, Error> {
        let name = value.as_str().unwrap_or_default();
        match Self::ALL.iter().find(|(_, known)| *known == name) {
            Some((level, _)) => Ok(*level),
            None => Err(Error::invalid_params(
                "the log level must be debug, info, notice, warning, error, critical, alert or \
                 emergency",
            )),
        }
    }
}

#[cold]
fn missing_key_error(key: &str) -> Error {
    Error::invalid_params(format!("missing or invalid params._meta[\"{key}\"]"))
}
