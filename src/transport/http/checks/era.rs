//! Selects the era of a message, once its body is parsed as JSON.
//!
//! A revision in `_meta` takes precedence over the header. One endpoint serves both eras.
//!
//! Source: 2026-07-28 `basic/versioning`; `basic/transports/streamable-http`, "Protocol Version
//! Header"; 2025-06-18 and 2025-11-25 `basic/transports`, the same.

use super::head_checks::parse_revision;
use super::profile::CheckProfile;
use super::table::{CheckId, Rejection};
use corelane_protocol::error::Error;

/// The era whose rules apply to a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// Since 2026-07-28: stateless requests.
    Modern,
}

/// Returns the era of a message posted to the MCP endpoint with this `MCP-Protocol-Version`.
/// `names_version` is whether its `_meta` has the key of the protocol version.
///
/// `Modern` does not imply that the request is valid or its revision supported; later checks decide
/// that.
///
/// # Errors
///
/// [`CheckId::VersionPresent`] and [`CheckId::VersionSupported`].
#[inline]
pub fn era(
    version: Option<&[u8]>,
    names_version: bool,
    profile: &CheckProfile,
) -> Result<Era, Rejection> {
    if names_version {
        return Ok(Era::Modern);
    }
    match version.map(|version| (version, parse_revision(version))) {
        Some((_, Some(revision))) if revision.is_modern() => Ok(Era::Modern),
        None | Some((_, Some(_))) if profile.has_sessions() => Ok(Era::Legacy),
        None => Err(CheckId::VersionPresent.reject("MCP-Protocol-Version is missing")),
        Some((version, _)) => {
            let requested = String::from_utf8_lossy(version);
            let error = Error::unsupported_protocol_version_with(&requested, profile.revisions());
            Err(CheckId::VersionSupported.reject_with(error))
        }
    }
}
