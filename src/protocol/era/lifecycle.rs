//! The handshake of a legacy connection.
//!
//! ```text
//!                  initialize                    notifications/initialized
//!  NotInitialized ───────────▶ Initializing ──────────────────────────────▶ Initialized
//!        │                          │                                            │
//!        └──────────────────────────┴───────────────── disconnect ───────────────┤
//!                                                                                ▼
//!                                                                          Disconnected
//! ```
//!
//! | state | served |
//! | --- | --- |
//! | `NotInitialized` | `initialize`, `ping` |
//! | `Initializing` (the answer was given) | `ping` |
//! | `Initialized` | what the revision has, but for `initialize` |
//! | `Disconnected` | nothing |
//!
//! What it keeps true: nothing is served before it is ready, a handshake is made once, and a
//! refusal names the remedy. Modern requests do not pass through here.
//!
//! Source: 2025-11-25 `basic/lifecycle`; seed 001, "Universal", 5.

use super::capabilities::ClientCapabilities;
use super::method::Method;
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::revision::Revision;

/// Where the handshake of one connection stands. Six bytes, kept per connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lifecycle {
    /// Nothing was said yet.
    #[default]
    NotInitialized,
    /// `initialize` was answered; the client has to confirm.
    Initializing(Agreement),
    /// Ready.
    Initialized(Agreement),
    /// Over.
    Disconnected,
}

/// What a handshake agreed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Agreement {
    revision: Revision,
    capabilities: ClientCapabilities,
}

impl Lifecycle {
    /// A connection that has said nothing.
    pub const fn new() -> Self {
        Self::NotInitialized
    }

    /// Takes `initialize` and says which revision to answer with: the requested one where this
    /// server speaks it, its newest legacy one otherwise.
    ///
    /// # Errors
    ///
    /// Invalid request (-32600) where the handshake was made before.
    pub fn initialize(&mut self, asked: &Initialize<'_>) -> Result<Revision, Error> {
        self.admit(Method::Initialize)?;
        let revision = asked.revision();
        *self = Self::Initializing(Agreement { revision, capabilities: asked.capabilities });
        Ok(revision)
    }

    /// Takes `notifications/initialized`. Says whether that meant something: out of turn it is
    /// passed over, being a notification.
    pub const fn confirm(&mut self) -> bool {
        let Self::Initializing(agreement) = *self else {
            return false;
        };
        *self = Self::Initialized(agreement);
        true
    }

    /// The connection is over.
    pub const fn disconnect(&mut self) {
        *self = Self::Disconnected;
    }

    /// Whether a request for `method` may be served now, and the revision to answer in.
    ///
    /// # Errors
    ///
    /// -32600 with the remedy; method not found (-32601) for what legacy revisions do not have.
    #[inline]
    pub fn admit(&self, method: Method) -> Result<Revision, Error> {
        match (self, method) {
            (Self::Initialized(agreement), _)
                if method != Method::Initialize && method.is_in(agreement.revision) =>
            {
                Ok(agreement.revision)
            }
            (Self::NotInitialized, Method::Initialize) => Ok(Revision::LATEST_LEGACY),
            (Self::NotInitialized | Self::Initializing(_), Method::Ping) => {
                Ok(self.revision().unwrap_or(Revision::LATEST_LEGACY))
            }
            _ => Err(self.refusal(method)),
        }
    }

    /// The revision that was agreed on.
    #[inline]
    pub const fn revision(&self) -> Option<Revision> {
        match self {
            Self::Initializing(agreement) | Self::Initialized(agreement) => {
                Some(agreement.revision)
            }
            Self::NotInitialized | Self::Disconnected => None,
        }
    }

    /// What the client can do; nothing before the handshake.
    pub fn capabilities(&self) -> ClientCapabilities {
        match self {
            Self::Initializing(agreement) | Self::Initialized(agreement) => agreement.capabilities,
            Self::NotInitialized | Self::Disconnected => ClientCapabilities::default(),
        }
    }

    #[cold]
    fn refusal(self, method: Method) -> Error {
        match (self, method) {
            (Self::Disconnected, _) => Error::not_initialized("the connection is closing"),
            (Self::Initializing(_) | Self::Initialized(_), Method::Initialize) => {
                Error::invalid_request("the connection is initialized already; open another one")
            }
            (Self::Initialized(_), _) => Error::method_not_found(method.as_str()),
            (Self::NotInitialized, _) => Error::not_initialized(
                "not initialized: send \"initialize\" first, or put \
                 \"io.modelcontextprotocol/protocolVersion\" into params._meta (2026-07-28)",
            ),
            (Self::Initializing(_), _) => Error::not_initialized(
                "not initialized: send \"notifications/initialized\" to complete the handshake",
            ),
        }
    }
}

/// The params of `initialize`.
#[derive(Clone, Copy, Debug)]
pub struct Initialize<'a> {
    /// The revision that the client asks for, known to us or not.
    pub version: &'a str,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
    /// The client's name.
    pub client_name: &'a str,
    /// The client's version.
    pub client_version: &'a str,
}

impl<'a> Initialize<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where one of the three required members is missing, twice or not
    /// what it should be.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let missing = |key| move || Error::invalid_params(format!("initialize needs {key}"));
        let params =
            params.and_then(Value::as_object).ok_or_else(missing("params, which are an object"))?;
        let [version, capabilities, client] =
            params.once(["protocolVersion", "capabilities", "clientInfo"])?;
        let version = version
            .and_then(Value::as_str)
            .ok_or_else(missing("params.protocolVersion, a string"))?;
        let capabilities = capabilities.ok_or_else(missing("params.capabilities, an object"))?;
        let client = client
            .and_then(Value::as_object)
            .ok_or_else(missing("params.clientInfo, an object"))?;
        let [client_name, client_version] = client.once(["name", "version"])?;
        let text = |value: Option<Value<'a>>, what| {
            value.and_then(Value::as_str).ok_or_else(missing(what))
        };
        Ok(Self {
            version,
            capabilities: ClientCapabilities::read(capabilities)?,
            client_name: text(client_name, "params.clientInfo.name, a string")?,
            client_version: text(client_version, "params.clientInfo.version, a string")?,
        })
    }

    /// The revision to agree on.
    pub fn revision(&self) -> Revision {
        Revision::parse(self.version)
            .filter(|revision| !revision.is_modern())
            .unwrap_or(Revision::LATEST_LEGACY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Initialize<'static> = Initialize {
        version: "2025-06-18",
        capabilities: ClientCapabilities::ROOTS,
        client_name: "c",
        client_version: "1",
    };

    fn states() -> [Lifecycle; 4] {
        let mut initializing = Lifecycle::new();
        initializing.initialize(&ASKED).unwrap();
        let mut initialized = initializing;
        assert!(initialized.confirm());
        [Lifecycle::new(), initializing, initialized, Lifecycle::Disconnected]
    }

    #[test]
    fn each_state_serves_what_its_row_says() {
        let served: [Vec<Method>; 4] = states().map(|state| {
            Method::ALL.into_iter().filter(|method| state.admit(*method).is_ok()).collect()
        });
        let of_the_revision =
            |method: &Method| *method != Method::Initialize && method.is_in(Revision::V2025_06_18);
        let expected = [
            vec![Method::Ping, Method::Initialize],
            vec![Method::Ping],
            Method::ALL.into_iter().filter(of_the_revision).collect(),
            vec![],
        ];
        assert_eq!(served, expected);
    }

    #[test]
    fn a_refusal_names_the_remedy() {
        let [fresh, initializing, initialized, over] = states();
        for (state, method, code, remedy) in [
            (fresh, Method::ToolsCall, -32600, "\"initialize\""),
            (initializing, Method::ToolsCall, -32600, "notifications/initialized"),
            (initializing, Method::Initialize, -32600, "already"),
            (initialized, Method::Initialize, -32600, "already"),
            (initialized, Method::Discover, -32601, "server/discover"),
            (over, Method::Ping, -32600, "closing"),
        ] {
            let error = state.admit(method).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(remedy), "{error}");
        }
    }

    #[test]
    fn a_handshake_is_made_once() {
        let [mut fresh, _, mut initialized, mut over] = states();
        assert!(!fresh.confirm());
        assert_eq!(fresh, Lifecycle::NotInitialized);
        assert!(!initialized.confirm());
        assert!(initialized.initialize(&ASKED).is_err());
        assert!(over.initialize(&ASKED).is_err());
        initialized.disconnect();
        assert_eq!(initialized, Lifecycle::Disconnected);
        assert_eq!(initialized.capabilities(), ClientCapabilities::default());
    }

    #[test]
    fn a_known_legacy_revision_is_agreed_on_and_others_get_our_newest() {
        for (asked, agreed) in [
            ("2024-11-05", Revision::V2024_11_05),
            ("2025-03-26", Revision::V2025_03_26),
            ("2025-06-18", Revision::V2025_06_18),
            ("2025-11-25", Revision::V2025_11_25),
            ("2024-10-07", Revision::V2025_11_25),
            ("2026-07-28", Revision::V2025_11_25),
            ("1.0", Revision::V2025_11_25),
        ] {
            let mut lifecycle = Lifecycle::new();
            let answered = lifecycle.initialize(&Initialize { version: asked, ..ASKED });
            assert_eq!(answered.unwrap(), agreed);
            assert_eq!(lifecycle.revision(), Some(agreed));
            assert_eq!(lifecycle.capabilities(), ClientCapabilities::ROOTS);
        }
    }

    #[test]
    fn a_connection_keeps_six_bytes() {
        assert!(size_of::<Lifecycle>() <= 6);
    }
}
