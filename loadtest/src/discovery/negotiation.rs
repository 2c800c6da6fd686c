//! Choice of the protocol version (MCP 2026-07-28, basic/versioning).
//!
//! ```text
//!  server/discover ─ result, or an error of the modern era ─▶ modern
//!        │ any other error, an unsupported version, or no response
//!        ▼
//!  initialize ─ result ─▶ the version in it ─ notifications/initialized
//! ```

use serde_json::Value;

use super::DiscoveryError;
use super::peer::Peer;
use super::request_error::RequestError;
use crate::target::Era;

/// A protocol version and why it was chosen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Negotiated {
    /// The version.
    pub(super) era: Era,
    /// What the server answered to `server/discover`, if the choice depends on it.
    pub(super) reason: Option<String>,
}

/// Result of `server/discover`.
enum Discovered {
    Modern,
    /// The server supports one of these versions, or has to say so in its response to `initialize`.
    Legacy {
        era: Era,
        reason: String,
        /// Id of `server/discover`, whose response may still arrive.
        pending: Option<u64>,
    },
}

/// Chooses the version and opens the session that it needs.
pub(super) fn negotiate(
    peer: &mut Peer<'_>,
    wanted: Option<Era>,
) -> Result<Negotiated, DiscoveryError> {
    match wanted {
        Some(Era::Modern) => {
            peer.set_era(Era::Modern);
            Ok(Negotiated { era: Era::Modern, reason: None })
        }
        Some(era) => {
            let era = initialize(peer, era, None).map_err(|error| match error {
                error if error.is_unopened() => DiscoveryError::Unreachable(error),
                error if error.is_unauthorized() => DiscoveryError::Unauthorized(error),
                error => DiscoveryError::Initialize(error),
            })?;
            Ok(Negotiated { era, reason: None })
        }
        None => match discover(peer)? {
            Discovered::Modern => Ok(Negotiated { era: Era::Modern, reason: None }),
            Discovered::Legacy { era, reason, pending } => match initialize(peer, era, pending) {
                Ok(Era::Modern) => Ok(Negotiated { era: Era::Modern, reason: None }),
                Ok(era) => Ok(Negotiated { era, reason: Some(reason) }),
                Err(initialize) => Err(DiscoveryError::NotMcp { discover: reason, initialize }),
            },
        },
    }
}

/// Sends `server/discover`.
fn discover(peer: &mut Peer<'_>) -> Result<Discovered, DiscoveryError> {
    peer.set_era(Era::Modern);
    let id = match peer.send("server/discover", None) {
        Ok(id) => id,
        Err(error) if error.is_unopened() => return Err(DiscoveryError::Unreachable(error)),
        Err(error) => {
            let (era, reason) = (Era::Legacy, error.to_string());
            return Ok(Discovered::Legacy { era, reason, pending: None });
        }
    };
    match peer.receive(&[id], peer.timeout()).1 {
        Ok(result) => {
            let versions = result.get("supportedVersions").and_then(Value::as_array);
            let versions: Option<Vec<String>> = versions.map(|versions| {
                versions.iter().filter_map(Value::as_str).map(String::from).collect()
            });
            match versions {
                Some(versions) => choose(&versions),
                None => Ok(Discovered::Modern),
            }
        }
        Err(error) if error.is_unauthorized() => Err(DiscoveryError::Unauthorized(error)),
        Err(error) => match error.supported_versions() {
            Some(versions) if !versions.is_empty() => choose(versions),
            _ if error.is_modern() => Ok(Discovered::Modern),
            _ => {
                let pending = peer.is_connected().then_some(id);
                let (era, reason) = (Era::Legacy, error.to_string());
                Ok(Discovered::Legacy { era, reason, pending })
            }
        },
    }
}

/// Chooses the newest of the server's versions.
fn choose(versions: &[String]) -> Result<Discovered, DiscoveryError> {
    let has = |era: &Era| versions.iter().any(|version| version == era.mcp_version());
    match Era::ALL.into_iter().find(has) {
        Some(Era::Modern) => Ok(Discovered::Modern),
        Some(era) => {
            let reason = format!("it supports {}", versions.join(", "));
            Ok(Discovered::Legacy { era, reason, pending: None })
        }
        None => Err(DiscoveryError::UnknownVersion(versions.join(", "))),
    }
}

/// Opens a session; returns the version that the server chose, or modern if a late response to
/// `server/discover` arrives instead.
fn initialize(peer: &mut Peer<'_>, era: Era, pending: Option<u64>) -> Result<Era, RequestError> {
    peer.set_era(era);
    let id = peer.send_initialize()?;
    // A program that was just started may take longer.
    let timeout = if pending.is_some() { peer.start_timeout() } else { peer.timeout() };
    let (from, result) = match pending {
        Some(pending) => {
            let (from, result) = peer.receive(&[pending, id], timeout);
            match result {
                Err(RequestError::Rpc { .. }) if from == Some(pending) => {
                    peer.receive(&[id], timeout)
                }
                result => (from, result),
            }
        }
        None => peer.receive(&[id], timeout),
    };
    if result.is_ok() && from != Some(id) {
        peer.disconnect();
        return Ok(Era::Modern);
    }
    let result = match result {
        // A program that ended because of the first message is started again.
        Err(RequestError::Closed(_)) if !peer.is_connected() => {
            let id = peer.send_initialize()?;
            peer.receive(&[id], peer.timeout()).1
        }
        result => result,
    }?;
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let chosen = Era::named(version).filter(|era| !era.is_modern()).ok_or_else(|| {
        RequestError::Invalid(format!("the result of initialize has version '{version}'"))
    })?;
    peer.set_era(chosen);
    peer.send_initialized()?;
    Ok(chosen)
}
