//! The `initialize` handshake of a legacy connection.
//!
//! ```text
//!                  initialize                    notifications/initialized
//!  NotInitialized ───────────▶ Initializing ──────────────────────────────▶ Initialized
//! ```
//!
//! | state | accepted methods |
//! | --- | --- |
//! | `NotInitialized` | `initialize`, `ping` |
//! | `Initializing` (`initialize` was answered), `Initialized` | all except `initialize` |
//!
//! Clients send requests before `notifications/initialized`, and over HTTP the two may cross: they
//! are served. A server request waits for the notification.
//!
//! Invariants: `initialize` succeeds once per connection, and an error names the message that the
//! client has to send. Modern requests bypass this state.
//!
//! MCP 2025-11-25 `basic/lifecycle`.

use super::capabilities::ClientCapabilities;
use super::method::Method;
use crate::error::Error;
use crate::json::Value;
use crate::revision::Revision;

/// Handshake state of one connection, in six bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lifecycle {
    /// No `initialize` was received.
    #[default]
    NotInitialized,
    /// `initialize` was answered; `notifications/initialized` is outstanding.
    Initializing(NegotiatedProtocol),
    /// The handshake is complete.
    Initialized(NegotiatedProtocol),
}

/// Result of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NegotiatedProtocol {
    revision: Revision,
    capabilities: ClientCapabilities,
}

impl Lifecycle {
    /// Handles `initialize` and returns the revision of the response: `pinned` if there is one, the
    /// requested one if it is a supported legacy revision, otherwise [`Revision::LATEST_LEGACY`].
    ///
    /// # Errors
    ///
    /// Invalid request (-32600) if `initialize` was already received.
    pub fn initialize(
        &mut self,
        params: &InitializeRequestParams<'_>,
        pinned: Option<Revision>,
    ) -> Result<Revision, Error> {
        self.check_method(Method::Initialize)?;
        let revision = pinned.unwrap_or_else(|| params.negotiate_revision());
        *self =
            Self::Initializing(NegotiatedProtocol { revision, capabilities: params.capabilities });
        Ok(revision)
    }

    /// Handles `notifications/initialized`. Returns whether it completed the handshake; it is
    /// ignored in any other state.
    pub const fn complete_handshake(&mut self) -> bool {
        let Self::Initializing(agreement) = *self else {
            return false;
        };
        *self = Self::Initialized(agreement);
        true
    }

    /// Checks whether `method` is accepted in this state and returns the revision of the response.
    ///
    /// # Errors
    ///
    /// -32600 that names the message to send; method not found (-32601) if the revision lacks it.
    #[inline]
    pub fn check_method(self, method: Method) -> Result<Revision, Error> {
        match (self, method) {
            (Self::Initializing(agreement) | Self::Initialized(agreement), _)
                if method != Method::Initialize && method.is_defined_in(agreement.revision) =>
            {
                Ok(agreement.revision)
            }
            (Self::NotInitialized, Method::Initialize | Method::Ping) => {
                Ok(Revision::LATEST_LEGACY)
            }
            _ => Err(self.method_error(method)),
        }
    }

    /// Returns whether `initialize` was answered and `notifications/initialized` is outstanding.
    pub const fn awaits_notification(self) -> bool {
        matches!(self, Self::Initializing(_))
    }

    /// Returns the negotiated revision, or `None` before `initialize`.
    #[inline]
    pub const fn revision(self) -> Option<Revision> {
        match self {
            Self::Initializing(agreement) | Self::Initialized(agreement) => {
                Some(agreement.revision)
            }
            Self::NotInitialized => None,
        }
    }

    /// Returns the capabilities of the client; empty before `initialize`.
    pub fn capabilities(self) -> ClientCapabilities {
        match self {
            Self::Initializing(agreement) | Self::Initialized(agreement) => agreement.capabilities,
            Self::NotInitialized => ClientCapabilities::default(),
        }
    }

    /// The state of a connection whose client has completed the handshake elsewhere.
    pub fn initialized(revision: Revision) -> Self {
        let capabilities = ClientCapabilities::default();
        Self::Initialized(NegotiatedProtocol { revision, capabilities })
    }

    #[cold]
    fn method_error(self, method: Method) -> Error {
        match (self, method) {
            (Self::Initializing(_) | Self::Initialized(_), Method::Initialize) => {
                Error::invalid_request(
                    "already initialized: open a new connection to initialize again",
                )
            }
            (Self::Initializing(_) | Self::Initialized(_), _) => {
                Error::method_not_found(method.as_str())
            }
            (Self::NotInitialized, _) => Error::not_initialized(
                "not initialized: send \"initialize\" first, or put \
                 \"io.modelcontextprotocol/protocolVersion\" into params._meta (2026-07-28)",
            ),
        }
    }
}

/// The params of `initialize`.
#[derive(Clone, Copy, Debug)]
pub struct InitializeRequestParams<'a> {
    /// Requested revision, supported or not.
    pub protocol_version: &'a str,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// `clientInfo`, an object with a name and a version.
    pub client_info: Option<Value<'a>>,
}

impl<'a> InitializeRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if a required member is missing, duplicated or of the wrong type.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let missing = |member| move || Error::invalid_params(format!("missing {member}"));
        let params = params.and_then(Value::as_object).ok_or_else(missing("params (an object)"))?;
        let [version, capabilities, client] =
            params.find_unique(["protocolVersion", "capabilities", "clientInfo"])?;
        let version = version
            .and_then(Value::as_str)
            .ok_or_else(missing("params.protocolVersion (a string)"))?;
        let capabilities = capabilities.ok_or_else(missing("params.capabilities (an object)"))?;
        let client_info = client;
        let client = client
            .and_then(Value::as_object)
            .ok_or_else(missing("params.clientInfo (an object)"))?;
        let [client_name, client_version] = client.find_unique(["name", "version"])?;
        for (value, member) in [
            (client_name, "params.clientInfo.name (a string)"),
            (client_version, "params.clientInfo.version (a string)"),
        ] {
            value.and_then(Value::as_str).ok_or_else(missing(member))?;
        }
        Ok(Self {
            protocol_version: version,
            capabilities: ClientCapabilities::read(capabilities)?,
            client_info,
        })
    }

    /// Returns the negotiated revision: the requested one if it is a supported legacy revision,
    /// otherwise [`Revision::LATEST_LEGACY`].
    pub fn negotiate_revision(&self) -> Revision {
        Revision::parse(self.protocol_version)
            .filter(|revision| !revision.is_modern())
            .unwrap_or(Revision::LATEST_LEGACY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: InitializeRequestParams<'static> = InitializeRequestParams {
        protocol_version: "2025-06-18",
        capabilities: ClientCapabilities::ROOTS,
        client_info: None,
    };

    fn states() -> [Lifecycle; 3] {
        let mut initializing = Lifecycle::default();
        initializing.initialize(&PARAMS, None).unwrap();
        let mut initialized = initializing;
        assert!(initialized.complete_handshake());
        [Lifecycle::default(), initializing, initialized]
    }

    #[test]
    fn lifecycle_state_accepts_its_methods() {
        let accepted: [Vec<Method>; 3] = states().map(|state| {
            Method::ALL.into_iter().filter(|method| state.check_method(*method).is_ok()).collect()
        });
        let in_revision = |method: &Method| {
            *method != Method::Initialize && method.is_defined_in(Revision::V2025_06_18)
        };
        let expected = [
            vec![Method::Ping, Method::Initialize],
            Method::ALL.into_iter().filter(in_revision).collect(),
            Method::ALL.into_iter().filter(in_revision).collect(),
        ];
        assert_eq!(accepted, expected);
    }

    #[test]
    fn rejected_method_error_names_required_message() {
        let [fresh, initializing, initialized] = states();
        for (state, method, code, expected) in [
            (fresh, Method::ToolsCall, -32600, "\"initialize\""),
            (initializing, Method::Discover, -32601, "server/discover"),
            (initializing, Method::Initialize, -32600, "already"),
            (initialized, Method::Initialize, -32600, "already"),
            (initialized, Method::Discover, -32601, "server/discover"),
        ] {
            let error = state.check_method(method).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn initialize_succeeds_once_per_connection() {
        let [mut fresh, _, mut initialized] = states();
        assert!(!fresh.complete_handshake());
        assert_eq!(fresh, Lifecycle::NotInitialized);
        assert!(!initialized.complete_handshake());
        assert!(initialized.initialize(&PARAMS, None).is_err());
    }

    #[test]
    fn initialize_negotiates_known_legacy_revision_or_latest() {
        for (requested, negotiated) in [
            ("2024-11-05", Revision::V2024_11_05),
            ("2025-03-26", Revision::V2025_03_26),
            ("2025-06-18", Revision::V2025_06_18),
            ("2025-11-25", Revision::V2025_11_25),
            ("2024-10-07", Revision::V2025_11_25),
            ("2026-07-28", Revision::V2025_11_25),
            ("1.0", Revision::V2025_11_25),
        ] {
            let mut lifecycle = Lifecycle::default();
            let response = lifecycle.initialize(
                &InitializeRequestParams { protocol_version: requested, ..PARAMS },
                None,
            );
            assert_eq!(response.unwrap(), negotiated);
            assert_eq!(lifecycle.revision(), Some(negotiated));
            assert_eq!(lifecycle.capabilities(), ClientCapabilities::ROOTS);
        }
    }

    #[test]
    fn lifecycle_state_fits_in_six_bytes() {
        assert!(size_of::<Lifecycle>() <= 6);
    }
}
