//! The checks that need only a head.

use super::profile::{CheckProfile, EndpointPaths, OperatorEndpoints};
use super::request_kind::{ParityRequest, RequestKind, Route, SESSION_PARAMETER, upstream_change};
use super::{CheckId, Rejection};
use crate::http::head::{ContentCoding, ContentType, Field, Head, HttpMethod};
use corelane_protocol::error::Error;
use corelane_protocol::revision::Revision;

/// Runs the checks from [`CheckId::Path`] to the last one that needs no body, and classifies the
/// request. `bytes` are those `head` was parsed from; nothing is copied, and nothing is allocated
/// for an admitted request. Host and origin are checked by the guard before.
///
/// # Errors
///
/// The [`Rejection`] of the first check that fails.
#[inline]
pub fn check_head<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Result<RequestKind<'b>, Rejection> {
    let Some(route) = Route::find(head.path(bytes), profile) else {
        return Err(reject_path(profile));
    };
    match (route, head.method) {
        (Route::Mcp, HttpMethod::Post) => check_post(head, bytes, profile),
        (_, HttpMethod::Options) => Ok(classify_options(head, bytes, route.allow(profile))),
        (Route::Mcp, HttpMethod::Delete) => check_delete(head, bytes, profile),
        (Route::Mcp, HttpMethod::Get) => check_get(head, bytes, profile),
        (Route::LegacyMessages, HttpMethod::Post) => check_legacy_message(head, bytes),
        (Route::LegacySse, HttpMethod::Get) => Ok(RequestKind::LegacySse),
        (Route::Connections, HttpMethod::Get) => {
            Ok(RequestKind::Connections { query: head.query(bytes) })
        }
        (Route::ResourceMetadata, HttpMethod::Get | HttpMethod::Head) => {
            Ok(RequestKind::ResourceMetadata)
        }
        (Route::ServerCard, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::ServerCard),
        (Route::CardCatalog, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::CardCatalog),
        (Route::Metrics, HttpMethod::Get) => Ok(RequestKind::Metrics),
        (Route::Health, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::Health),
        (Route::Page, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::Page),
        (Route::Ready, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::Ready),
        (Route::Status, HttpMethod::Get | HttpMethod::Head) => Ok(RequestKind::Status),
        (Route::Upstreams, HttpMethod::Get) => Ok(RequestKind::Upstreams),
        (Route::UpstreamChange, HttpMethod::Post) => {
            let path = upstream_change(head.path(bytes)).unwrap_or_default();
            Ok(RequestKind::ChangeUpstream { path })
        }
        (Route::WebSocket, HttpMethod::Get) => Ok(RequestKind::Upgrade),
        (Route::Parity, HttpMethod::Post) => {
            check_content(head, false)?;
            let session_id = head.field(bytes, Field::McpSessionId);
            let streams = head.accept.event_stream && !head.accept.json;
            Ok(RequestKind::Parity(ParityRequest::Message { session_id, streams }))
        }
        (Route::Parity, HttpMethod::Delete) => {
            let session_id = head.field(bytes, Field::McpSessionId);
            Ok(RequestKind::Parity(ParityRequest::End { session_id }))
        }
        (Route::ParityEvents, HttpMethod::Get) => {
            let session_id = head.field(bytes, Field::McpSessionId);
            let last_event_id = head.field(bytes, Field::LastEventId);
            let query = head.query(bytes);
            Ok(RequestKind::Parity(ParityRequest::Events { session_id, last_event_id, query }))
        }
        (Route::ParitySchemas, HttpMethod::Get | HttpMethod::Head) => {
            Ok(RequestKind::Parity(ParityRequest::Schema { path: head.path(bytes) }))
        }
        (route, _) => Err(reject_method(route.allow(profile))),
    }
}

/// POST of the MCP endpoint.
#[inline]
fn check_post<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Result<RequestKind<'b>, Rejection> {
    check_content(head, profile.strict.is_some())?;
    let accept = head.accept;
    let version = head.field(bytes, Field::McpProtocolVersion);
    let session = session_id(head, bytes, profile);
    if profile.strict.is_some() {
        if accept.is_present && !accept.json {
            return Err(CheckId::AcceptJson.reject("Accept must include application/json"));
        }
        // Without a session it may be `initialize`, which only its body tells.
        if profile.pins_initialize || !matches!(session, Ok(None)) {
            check_pinned_version(version, profile)?;
        }
    } else if !(accept.json && accept.event_stream) {
        return Err(CheckId::AcceptBoth
            .reject("Accept must list both application/json and text/event-stream"));
    }
    Ok(RequestKind::Post { session_id: session?, protocol_version: version })
}

/// Returns the session id of a request to the MCP endpoint; `None` if the server has no sessions or
/// the request names a modern revision.
#[inline]
fn session_id<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Result<Option<&'b [u8]>, Rejection> {
    let session = head.field(bytes, Field::McpSessionId);
    if session.is_none() && !profile.session_id_query {
        return Ok(None);
    }
    let version = head.field(bytes, Field::McpProtocolVersion);
    if !profile.has_sessions() || version.and_then(parse_revision).is_some_and(Revision::is_modern)
    {
        return Ok(None);
    }
    let queried = session_id_in_query(head, bytes, profile);
    if queried.is_some() && session.is_some() && queried != session {
        return Err(CheckId::SessionIdAgrees
            .reject("Mcp-Session-Id differs from the query parameter sessionId"));
    }
    Ok(session.or(queried))
}

/// Returns the session id in the query of a request to the MCP endpoint, if it may be there.
pub fn session_id_in_query<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Option<&'b [u8]> {
    let query = profile.session_id_query.then(|| head.query(bytes))?;
    query_parameter(query, SESSION_PARAMETER)
}

/// DELETE of the MCP endpoint: ends a legacy session.
fn check_delete<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Result<RequestKind<'b>, Rejection> {
    let session = require_session(head, bytes, profile.has_sessions(), profile)?;
    match profile.strict {
        Some(_) => check_pinned_version(head.field(bytes, Field::McpProtocolVersion), profile)?,
        None => check_stream_version(head, bytes, profile)?,
    }
    Ok(RequestKind::DeleteSession { session_id: session })
}

/// GET of the MCP endpoint: the stream of a legacy session.
fn check_get<'b>(
    head: &Head,
    bytes: &'b [u8],
    profile: &CheckProfile,
) -> Result<RequestKind<'b>, Rejection> {
    let session =
        require_session(head, bytes, profile.has_streams(), profile).map_err(reject_get)?;
    if !head.accept.event_stream {
        return Err(CheckId::AcceptStream.reject("Accept must list text/event-stream"));
    }
    check_stream_version(head, bytes, profile)?;
    Ok(RequestKind::GetStream {
        session_id: session,
        last_event_id: head.field(bytes, Field::LastEventId),
    })
}

/// POST of a 2024-11-05 client. `Accept` is ignored: the response is 202, and results are sent on
/// the event stream.
fn check_legacy_message<'b>(head: &Head, bytes: &'b [u8]) -> Result<RequestKind<'b>, Rejection> {
    check_content(head, false)?;
    match query_parameter(head.query(bytes), SESSION_PARAMETER) {
        Some(session) => Ok(RequestKind::LegacyMessage { session_id: session }),
        None => Err(CheckId::SessionInQuery.reject("query parameter sessionId is missing")),
    }
}

/// Returns the value of a parameter of `query`, as written.
pub fn query_parameter<'b>(query: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let mut parameters = query.split(|byte| *byte == b'&');
    parameters.find_map(|parameter| parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn classify_options(head: &Head, bytes: &[u8], allow: &'static str) -> RequestKind<'static> {
    let is_preflight = head.field(bytes, Field::Origin).is_some()
        && head.other_fields(bytes, b"access-control-request-method").next().is_some();
    if is_preflight { RequestKind::Preflight { allow } } else { RequestKind::Options { allow } }
}

/// Checks `Content-Type` and `Content-Encoding` of a message.
#[inline]
fn check_content(head: &Head, is_strict: bool) -> Result<(), Rejection> {
    match (head.content_type, head.content_coding) {
        (ContentType::Json, ContentCoding::Identity) => Ok(()),
        (ContentType::Json, ContentCoding::Other) => {
            let message = "Content-Encoding is not supported: send the body uncompressed";
            Err(CheckId::ContentCoding.reject(message))
        }
        (ContentType::Missing, _) if is_strict => {
            Err(CheckId::ContentTypePresent.reject("Content-Type is missing"))
        }
        (ContentType::Missing | ContentType::Other, _) => {
            Err(CheckId::ContentType.reject("Content-Type must be application/json"))
        }
    }
}

/// Returns the session id of a GET or DELETE. `is_supported` is whether the profile supports the
/// method at all.
fn require_session<'b>(
    head: &Head,
    bytes: &'b [u8],
    is_supported: bool,
    profile: &CheckProfile,
) -> Result<&'b [u8], Rejection> {
    if !is_supported {
        return Err(reject_method(Route::Mcp.allow(profile)));
    }
    // Without a session id the response is that of a server without sessions.
    session_id(head, bytes, profile)?
        .ok_or_else(|| reject_method(Route::Mcp.allow(&STATELESS_PROFILE)))
}

/// Checks that a request other than `initialize` has the header that the strict profile requires.
/// If the only revision is a modern one, the checks of the body apply instead, whose errors carry
/// the request id.
///
/// # Errors
///
/// [`CheckId::VersionPinned`].
#[inline]
pub fn check_pinned_version(
    version: Option<&[u8]>,
    profile: &CheckProfile,
) -> Result<(), Rejection> {
    match profile.strict {
        Some(pinned) if !pinned.is_modern() && version != Some(pinned.as_str().as_bytes()) => {
            Err(reject_version(pinned))
        }
        _ => Ok(()),
    }
}

#[cold]
fn reject_version(pinned: Revision) -> Rejection {
    CheckId::VersionPinned.reject(format!("MCP-Protocol-Version must be {pinned}"))
}

/// Checks the header of a GET or DELETE; clients up to 2025-03-26 omit it.
fn check_stream_version(
    head: &Head,
    bytes: &[u8],
    profile: &CheckProfile,
) -> Result<(), Rejection> {
    match head.field(bytes, Field::McpProtocolVersion) {
        Some(version) if parse_revision(version).is_none() => {
            let requested = String::from_utf8_lossy(version);
            let error = Error::unsupported_protocol_version_with(&requested, profile.revisions());
            Err(CheckId::StreamVersion.reject_with(error))
        }
        _ => Ok(()),
    }
}

#[cold]
fn reject_path(profile: &CheckProfile) -> Rejection {
    if profile.serves_clients() {
        let text = match (profile.paths.mcp(), &profile.parity) {
            ("", Some(parity)) => format!("not found: the endpoint is {parity}"),
            (mcp, _) => format!("not found: the MCP endpoint is {mcp}"),
        };
        CheckId::Path.reject(text)
    } else {
        let more =
            if profile.upstreams { ", /connections and /upstreams" } else { " and /connections" };
        let text = format!("not found: this address serves /healthz, /readyz, /metrics{more}");
        CheckId::Path.reject(text)
    }
}

#[cold]
fn reject_method(allow: &'static str) -> Rejection {
    let message = "method not allowed: see the Allow header";
    Rejection { allow: Some(allow), ..CheckId::HttpMethod.reject(message) }
}

/// Adds to the rejection of a GET without a session, such as that of a browser, where the page is.
#[cold]
fn reject_get(rejection: Rejection) -> Rejection {
    if rejection.check != CheckId::HttpMethod {
        return rejection;
    }
    let message =
        "method not allowed: MCP clients send POST to this path; the page for browsers is at /";
    Rejection { allow: rejection.allow, ..CheckId::HttpMethod.reject(message) }
}

/// Parses a header value as a supported revision.
#[inline]
pub(super) fn parse_revision(version: &[u8]) -> Option<Revision> {
    Revision::parse_bytes(version)
}

/// The profile of a server without sessions.
const STATELESS_PROFILE: CheckProfile = CheckProfile {
    strict: None,
    pins_initialize: false,
    legacy: false,
    legacy_sse: false,
    session_id_query: false,
    paths: EndpointPaths::DEFAULT,
    websocket: None,
    parity: None,
    resource_metadata: false,
    server_card: false,
    upstreams: false,
    operators: OperatorEndpoints::Monitoring,
};
