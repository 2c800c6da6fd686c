//! The rungs that need only a head.

use std::str;

use super::kind::{Kind, Place, SESSION_PARAMETER};
use super::profile::Profile;
use super::rungs::{Refusal, Step};
use crate::protocol::error::Error;
use crate::protocol::revision::Revision;
use crate::transport::http::head::{ContentCoding, ContentType, Field, Head, Verb};

/// Climbs the rungs from [`Step::Path`] up to the last that needs no body, and says what the
/// request is. `bytes` are those that `head` was read from; nothing is copied, and nothing
/// allocated for a request that is admitted. Host and origin are the guard's and come before.
///
/// # Errors
///
/// [`Refusal`] of the lowest rung that the request breaks.
#[inline]
pub fn admit_head<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &Profile,
) -> Result<Kind<'b>, Refusal> {
    let Some(place) = Place::find(head.path(bytes), profile) else {
        return Err(Step::Path.refuse("nothing is at this path; MCP is at /mcp"));
    };
    match (place, head.verb) {
        (Place::Mcp, Verb::Post) => admit_post(head, bytes, profile),
        (_, Verb::Options) => Ok(admit_options(head, bytes, place.allow(profile))),
        (Place::Mcp, Verb::Delete) => admit_end(head, bytes, profile),
        (Place::Mcp, Verb::Get) => admit_stream(head, bytes, profile),
        (Place::Messages, Verb::Post) => admit_message(head, bytes),
        (Place::Events, Verb::Get) => Ok(Kind::Events),
        (Place::Health, Verb::Get | Verb::Head) => Ok(Kind::Health),
        (Place::Page, Verb::Get | Verb::Head) => Ok(Kind::Page),
        (Place::Ready, Verb::Get | Verb::Head) => Ok(Kind::Ready),
        (Place::Status, Verb::Get | Verb::Head) => Ok(Kind::Status),
        (Place::WebSocket, Verb::Get) => Ok(Kind::Upgrade),
        (place, _) => Err(refuse_verb(place.allow(profile))),
    }
}

/// A message to the MCP endpoint.
#[inline]
fn admit_post<'b>(head: &Head, bytes: &'b [u8], profile: &Profile) -> Result<Kind<'b>, Refusal> {
    admit_content(head, profile.strict.is_some())?;
    let accept = head.accept;
    if let Some(pinned) = profile.strict {
        if accept.is_present && !accept.json {
            return Err(Step::AcceptJson.refuse("Accept must take application/json"));
        }
        admit_pinned(head, bytes, pinned)?;
    } else if !(accept.json && accept.event_stream) {
        return Err(
            Step::AcceptBoth.refuse("Accept must list both application/json and text/event-stream")
        );
    }
    let version = head.field(bytes, Field::McpProtocolVersion);
    let is_modern = || version.and_then(revision).is_some_and(Revision::is_modern);
    let session = head.field(bytes, Field::McpSessionId);
    let session = session.filter(|_| profile.has_sessions() && !is_modern());
    Ok(Kind::Post { session, version })
}

/// The end of a legacy session.
fn admit_end<'b>(head: &Head, bytes: &'b [u8], profile: &Profile) -> Result<Kind<'b>, Refusal> {
    let session = admit_session(head, bytes, profile.has_sessions(), profile)?;
    match profile.strict {
        Some(pinned) => admit_pinned(head, bytes, pinned)?,
        None => admit_version_of_stream(head, bytes, profile)?,
    }
    Ok(Kind::End { session })
}

/// The stream of a legacy session.
fn admit_stream<'b>(head: &Head, bytes: &'b [u8], profile: &Profile) -> Result<Kind<'b>, Refusal> {
    let session = admit_session(head, bytes, profile.has_streams(), profile)?;
    if !head.accept.event_stream {
        return Err(Step::AcceptStream.refuse("Accept must list text/event-stream"));
    }
    admit_version_of_stream(head, bytes, profile)?;
    Ok(Kind::Stream { session, last_event: head.field(bytes, Field::LastEventId) })
}

/// A message of a client of 2024-11-05. Its `Accept` says nothing: the answer is 202, and what is
/// to be said comes on the stream.
fn admit_message<'b>(head: &Head, bytes: &'b [u8]) -> Result<Kind<'b>, Refusal> {
    admit_content(head, false)?;
    let target = head.target.of(bytes);
    let query = target.get(head.path(bytes).len() + 1..).unwrap_or_default();
    let mut parameters = query.split(|byte| *byte == b'&');
    let session = parameters.find_map(|parameter| {
        parameter.strip_prefix(SESSION_PARAMETER.as_bytes())?.strip_prefix(b"=")
    });
    match session {
        Some(session) => Ok(Kind::Message { session }),
        None => Err(Step::SessionInQuery.refuse("the query must name the session")),
    }
}

fn admit_options(head: &Head, bytes: &[u8], allow: &'static str) -> Kind<'static> {
    let is_preflight = head.field(bytes, Field::Origin).is_some()
        && head.field(bytes, Field::AccessControlRequestMethod).is_some();
    if is_preflight { Kind::Preflight { allow } } else { Kind::Options { allow } }
}

/// What the body of a message is.
#[inline]
fn admit_content(head: &Head, is_strict: bool) -> Result<(), Refusal> {
    match (head.content_type, head.content_coding) {
        (ContentType::Json, ContentCoding::Identity) => Ok(()),
        (ContentType::Json, ContentCoding::Other) => {
            Err(Step::ContentCoding.refuse("no Content-Encoding is taken; send the body as it is"))
        }
        (ContentType::Missing, _) if is_strict => {
            Err(Step::ContentTypeNamed.refuse("Content-Type is missing"))
        }
        (ContentType::Missing | ContentType::Other, _) => {
            Err(Step::ContentType.refuse("Content-Type must be application/json"))
        }
    }
}

/// The session of a GET or DELETE, where the verb `is_known` for it at all.
fn admit_session<'b>(
    head: &Head,
    bytes: &'b [u8],
    is_known: bool,
    profile: &Profile,
) -> Result<&'b [u8], Refusal> {
    if !is_known {
        return Err(refuse_verb(Place::Mcp.allow(profile)));
    }
    let version = head.field(bytes, Field::McpProtocolVersion).and_then(revision);
    let session = head.field(bytes, Field::McpSessionId);
    // Without a session the answer is that of a server which has none.
    session
        .filter(|_| !version.is_some_and(Revision::is_modern))
        .ok_or_else(|| refuse_verb(Place::Mcp.allow(&MODERN_ONLY)))
}

/// The header that every request of the strict profile has. Where the server is pinned to a modern
/// revision, the rungs of the body say the same of every request, and echo its id.
fn admit_pinned(head: &Head, bytes: &[u8], pinned: Revision) -> Result<(), Refusal> {
    let version = head.field(bytes, Field::McpProtocolVersion);
    if pinned.is_modern() || version == Some(pinned.as_str().as_bytes()) {
        return Ok(());
    }
    Err(Step::VersionPinned.refuse(format!("MCP-Protocol-Version must be {pinned}")))
}

/// The header of a GET or DELETE, which clients up to 2025-03-26 do not send.
fn admit_version_of_stream(head: &Head, bytes: &[u8], profile: &Profile) -> Result<(), Refusal> {
    match head.field(bytes, Field::McpProtocolVersion) {
        Some(version) if revision(version).is_none() => {
            let requested = String::from_utf8_lossy(version);
            let error = Error::unsupported_among(&requested, profile.revisions());
            Err(Step::VersionOfStream.refuse_with(error))
        }
        _ => Ok(()),
    }
}

#[cold]
fn refuse_verb(allow: &'static str) -> Refusal {
    Refusal { allow: Some(allow), ..Step::Verb.refuse("the verb is not one of those in Allow") }
}

/// The revision that a header names, if it is one of ours.
#[inline]
pub(super) fn revision(version: &[u8]) -> Option<Revision> {
    str::from_utf8(version).ok().and_then(Revision::parse)
}

/// What a server is to a client that brings no session.
const MODERN_ONLY: Profile =
    Profile { strict: None, legacy: false, sse_pair: false, websocket: None };
