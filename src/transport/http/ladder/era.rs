//! Whose rules a message is held to: known when its body is JSON.
//!
//! What it keeps true: `_meta` decides where it names a revision, because it is the message itself
//! that says so; only then the header is asked. One endpoint serves both eras at the same time.
//!
//! Source: 2026-07-28 `basic/versioning`; `basic/transports/streamable-http`, "Protocol Version
//! Header"; 2025-06-18 and 2025-11-25 `basic/transports`, the same.

use super::admission::revision;
use super::profile::Profile;
use super::rungs::{Refusal, Step};
use crate::protocol::error::Error;

/// Whose rules a message is held to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// Since 2026-07-28: every request stands by itself.
    Modern,
}

/// The era of a message that came by POST to the MCP endpoint with this `MCP-Protocol-Version`.
/// `names_version` says whether its `_meta` has the key of the revision.
///
/// A modern answer promises nothing: the request may still lack what modern ones have to say, and
/// its revision may be none of ours. The rungs above tell.
///
/// # Errors
///
/// [`Step::VersionNamed`] and [`Step::VersionKnown`].
#[inline]
pub fn era(version: Option<&[u8]>, names_version: bool, profile: &Profile) -> Result<Era, Refusal> {
    if names_version {
        return Ok(Era::Modern);
    }
    match version.map(|version| (version, revision(version))) {
        Some((_, Some(revision))) if revision.is_modern() => Ok(Era::Modern),
        None | Some((_, Some(_))) if profile.has_sessions() => Ok(Era::Legacy),
        None => Err(Step::VersionNamed.refuse("MCP-Protocol-Version is missing")),
        Some((version, _)) => {
            let requested = String::from_utf8_lossy(version);
            let error = Error::unsupported_among(&requested, profile.revisions());
            Err(Step::VersionKnown.refuse_with(error))
        }
    }
}
