//! The checks of HTTP requests that need only a head: for each of them a failing request, with the
//! status of its response.

use corelane_protocol::revision::Revision;
use corelane_transport::http::checks::{
    CheckId, CheckProfile, EndpointPaths, Era, OperatorEndpoints, Rejection, RequestKind,
    check_head, era,
};
use corelane_transport::http::head::{Head, RequestLimits};

const DEFAULT: CheckProfile = profile(None, true, false);
const MODERN: CheckProfile = profile(None, false, false);
const WITH_LEGACY_SSE: CheckProfile = profile(None, true, true);
const STRICT: CheckProfile = profile(Some(Revision::V2025_06_18), true, true);

const fn profile(strict: Option<Revision>, legacy: bool, legacy_sse: bool) -> CheckProfile {
    CheckProfile {
        strict,
        pins_initialize: strict.is_some(),
        legacy,
        legacy_sse,
        session_id_query: false,
        paths: EndpointPaths::DEFAULT,
        websocket: None,
        parity: None,
        resource_metadata: false,
        server_card: false,
        upstreams: false,
        operators: OperatorEndpoints::All,
    }
}

/// A request to be written.
#[derive(Clone, Copy, Debug)]
struct Request {
    method: &'static str,
    target: &'static str,
    content_type: Option<&'static str>,
    coding: Option<&'static str>,
    accept: Option<&'static str>,
    version: Option<&'static str>,
    session: Option<&'static str>,
}

const POST: Request = Request {
    method: "POST",
    target: "/mcp",
    content_type: Some("application/json"),
    coding: None,
    accept: Some("application/json, text/event-stream"),
    version: None,
    session: None,
};
const GET: Request = Request {
    method: "GET",
    target: "/mcp",
    content_type: None,
    coding: None,
    accept: Some("text/event-stream"),
    version: Some("2025-11-25"),
    session: Some("5e55"),
};
const MESSAGE: Request = Request { target: "/messages?a=b&sessionId=5e55", accept: None, ..POST };
const PINNED: Request = Request { version: Some("2025-06-18"), ..POST };

/// Returns the status and JSON-RPC code of the response to a failed check.
fn response(check: CheckId) -> (u16, i32) {
    match check {
        CheckId::Path => (404, -32600),
        CheckId::HttpMethod => (405, -32600),
        CheckId::ContentType | CheckId::ContentCoding => (415, -32600),
        CheckId::AcceptBoth | CheckId::AcceptJson | CheckId::AcceptStream => (406, -32600),
        CheckId::StreamVersion => (400, -32022),
        _ => (400, -32600),
    }
}

/// Profiles, admitted requests, and the checks they pass.
const ADMITTED: [(CheckProfile, Request, &[CheckId]); 5] = [
    (
        DEFAULT,
        POST,
        &[
            CheckId::Path,
            CheckId::HttpMethod,
            CheckId::ContentType,
            CheckId::ContentCoding,
            CheckId::AcceptBoth,
        ],
    ),
    (
        DEFAULT,
        GET,
        &[CheckId::Path, CheckId::HttpMethod, CheckId::AcceptStream, CheckId::StreamVersion],
    ),
    (
        DEFAULT,
        Request { method: "DELETE", accept: None, ..GET },
        &[CheckId::Path, CheckId::HttpMethod, CheckId::StreamVersion],
    ),
    (
        WITH_LEGACY_SSE,
        MESSAGE,
        &[
            CheckId::Path,
            CheckId::HttpMethod,
            CheckId::ContentType,
            CheckId::ContentCoding,
            CheckId::SessionInQuery,
        ],
    ),
    (
        STRICT,
        PINNED,
        &[
            CheckId::Path,
            CheckId::HttpMethod,
            CheckId::ContentTypePresent,
            CheckId::ContentType,
            CheckId::ContentCoding,
            CheckId::AcceptJson,
            CheckId::VersionPinned,
        ],
    ),
];

impl Request {
    /// Returns the request changed to fail `step`.
    fn failing(mut self, check: CheckId) -> Self {
        match check {
            CheckId::Path => {
                self.target = if self.target == "/mcp" { "/mcp/x?sessionId=1" } else { "/message" };
            }
            CheckId::HttpMethod if self.session.is_some() => self.session = None,
            CheckId::HttpMethod => self.method = "PUT",
            CheckId::ContentTypePresent => self.content_type = None,
            // A missing Content-Type fails the check before.
            CheckId::ContentType => self.content_type = self.content_type.and(Some("text/plain")),
            CheckId::ContentCoding => self.coding = Some("gzip"),
            CheckId::AcceptBoth | CheckId::AcceptStream => self.accept = Some("application/json"),
            CheckId::AcceptJson => self.accept = Some("text/event-stream"),
            CheckId::VersionPinned => self.version = Some("2025-11-25"),
            CheckId::StreamVersion => self.version = Some("1900-01-01"),
            CheckId::SessionInQuery if self.target.starts_with("/messages") => {
                self.target = "/messages?sessionid=5e55";
            }
            CheckId::SessionInQuery => {}
            _ => panic!("{check:?} needs more than a head"),
        }
        self
    }

    fn text(&self) -> String {
        let fields = [
            ("Content-Type", self.content_type),
            ("Content-Encoding", self.coding),
            ("Accept", self.accept),
            ("MCP-Protocol-Version", self.version),
            ("Mcp-Session-Id", self.session),
        ];
        let fields =
            fields.iter().filter_map(|(name, value)| Some(format!("{name}: {}\r\n", (*value)?)));
        let fields: String = fields.collect();
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", self.method, self.target)
    }

    /// Runs the checks of the head.
    fn run_checks(&self, profile: &CheckProfile) -> Result<String, Rejection> {
        run_checks(&self.text(), profile, |kind| format!("{kind:?}"))
    }
}

fn run_checks<T>(
    text: &str,
    profile: &CheckProfile,
    inspect: impl FnOnce(RequestKind<'_>) -> T,
) -> Result<T, Rejection> {
    let head = Head::parse(text.as_bytes(), &RequestLimits::default()).unwrap().unwrap();
    check_head(&head, text.as_bytes(), profile).map(inspect)
}

/// Runs the checks of a head given as lines.
fn run_checks_on_lines<T>(
    lines: &[&str],
    profile: &CheckProfile,
    inspect: impl FnOnce(RequestKind<'_>) -> T,
) -> Result<T, Rejection> {
    run_checks(&format!("{}\r\nHost: localhost\r\n\r\n", lines.join("\r\n")), profile, inspect)
}

#[test]
fn request_failing_one_check_is_rejected_by_it() {
    for (profile, request, checks) in &ADMITTED {
        assert!(request.run_checks(profile).is_ok(), "{request:?}");
        for &check in *checks {
            let rejection = request.failing(check).run_checks(profile).unwrap_err();
            assert_eq!(rejection.check, check, "{request:?}");
            assert_eq!((rejection.status.code(), rejection.error.code), response(check));
            assert_eq!(rejection.allow.is_some(), check == CheckId::HttpMethod);
        }
    }
}

#[test]
fn request_failing_several_checks_reports_the_first() {
    for (profile, request, checks) in &ADMITTED {
        for (index, &first) in checks.iter().enumerate() {
            let broken =
                checks[index..].iter().fold(*request, |request, check| request.failing(*check));
            assert_eq!(broken.run_checks(profile).unwrap_err().check, first, "{broken:?}");
        }
    }
}

#[test]
fn accept_requires_both_response_types() {
    let accepting = |accept| Request { accept, ..POST }.run_checks(&DEFAULT);
    for accept in [
        "application/json, text/event-stream",
        "text/event-stream;q=0.5,application/json",
        "*/*",
        "application/*, text/*",
    ] {
        assert!(accepting(Some(accept)).is_ok(), "{accept}");
    }
    let half = ["application/json", "text/event-stream", "text/html", "*/*, application/json;q=0"];
    for accept in half.map(Some).into_iter().chain([None]) {
        assert_eq!(accepting(accept).unwrap_err().check, CheckId::AcceptBoth, "{accept:?}");
    }
}

#[test]
fn content_encoding_other_than_identity_is_rejected() {
    let lines = ["POST /mcp HTTP/1.1", "Content-Type: application/json", "Accept: */*"];
    let coded = |coding: &[&str]| {
        let lines: Vec<&str> = lines.iter().chain(coding).copied().collect();
        run_checks_on_lines(&lines, &DEFAULT, |_| ()).map_err(|rejection| rejection.check)
    };
    for coding in [&["Content-Encoding: identity"][..], &["content-encoding:"], &[]] {
        assert_eq!(coded(coding), Ok(()), "{coding:?}");
    }
    for coding in [
        &["Content-Encoding: gzip"][..],
        &["CONTENT-ENCODING: Identity, GZIP"],
        &["Content-Encoding: zstd", "Content-Encoding: identity"],
        &["Content-Encoding: identity", "Content-Encoding: br"],
    ] {
        assert_eq!(coded(coding), Err(CheckId::ContentCoding), "{coding:?}");
    }
}

#[test]
fn strict_profile_pins_revision_and_json() {
    let climb = |request: Request| request.run_checks(&STRICT).map_err(|rejection| rejection.check);
    for accept in [None, Some("application/json"), Some("*/*")] {
        assert!(climb(Request { accept, ..PINNED }).is_ok(), "{accept:?}");
    }
    assert_eq!(climb(Request { version: None, ..PINNED }), Err(CheckId::VersionPinned));
    assert_eq!(climb(GET), Err(CheckId::HttpMethod));
    assert!(climb(Request { method: "DELETE", version: PINNED.version, ..GET }).is_ok());
    assert_eq!(climb(Request { method: "DELETE", ..GET }), Err(CheckId::VersionPinned));
    assert_eq!(climb(MESSAGE), Err(CheckId::Path));
    assert_eq!(climb(Request { target: "/sse", ..GET }), Err(CheckId::Path));
    let rejection = GET.run_checks(&STRICT).unwrap_err();
    assert_eq!(rejection.allow, Some("POST, DELETE, OPTIONS"));
}

#[test]
fn get_without_legacy_session_is_not_allowed() {
    for request in [
        Request { session: None, ..GET },
        Request { version: Some("2026-07-28"), ..GET },
        Request { method: "DELETE", session: None, ..GET },
        Request { method: "DELETE", version: Some("2026-07-28"), ..GET },
    ] {
        let rejection = request.run_checks(&DEFAULT).unwrap_err();
        assert_eq!(
            (rejection.check, rejection.allow),
            (CheckId::HttpMethod, Some("POST, OPTIONS"))
        );
    }
    for verb in ["GET", "DELETE"] {
        let rejection = Request { method: verb, ..GET }.run_checks(&MODERN).unwrap_err();
        assert_eq!(
            (rejection.check, rejection.allow),
            (CheckId::HttpMethod, Some("POST, OPTIONS"))
        );
    }
}

#[test]
fn session_id_is_ignored_without_sessions() {
    let session = |profile: &CheckProfile, version| {
        let request = Request { version, session: Some("5e55"), ..POST };
        run_checks(&request.text(), profile, |kind| match kind {
            RequestKind::Post { session_id: session, .. } => session.map(<[u8]>::to_vec),
            other => panic!("{other:?}"),
        })
        .unwrap()
    };
    for version in [None, Some("2025-03-26"), Some("2025-11-25"), Some("1900-01-01")] {
        assert_eq!(session(&DEFAULT, version).as_deref(), Some(&b"5e55"[..]));
        assert_eq!(session(&MODERN, version), None);
    }
    assert_eq!(session(&DEFAULT, Some("2026-07-28")), None);
}

#[test]
fn session_and_event_ids_are_passed_unchanged() {
    let lines = [
        "GET /mcp/ HTTP/1.1",
        "mcp-session-id: \tAbc ",
        "Accept: text/event-stream",
        "Last-Event-ID: 3-17",
    ];
    run_checks_on_lines(&lines, &DEFAULT, |kind| {
        assert_eq!(
            kind,
            RequestKind::GetStream { session_id: b"Abc", last_event_id: Some(b"3-17") }
        );
    })
    .unwrap();
    run_checks(&MESSAGE.text(), &WITH_LEGACY_SSE, |kind| {
        assert_eq!(kind, RequestKind::LegacyMessage { session_id: b"5e55" });
    })
    .unwrap();
    assert_eq!(MESSAGE.run_checks(&DEFAULT).unwrap_err().check, CheckId::Path);
}

#[test]
fn pages_allow_get_and_head_only() {
    let paths = ["/", "/healthz", "/readyz", "/status", "/status?x=/mcp", "/healthz/"];
    for path in paths {
        for verb in ["GET", "HEAD"] {
            let kind =
                run_checks_on_lines(&[&format!("{verb} {path} HTTP/1.1")], &STRICT, |kind| {
                    matches!(
                        kind,
                        RequestKind::Health
                            | RequestKind::Page
                            | RequestKind::Ready
                            | RequestKind::Status
                    )
                });
            assert_eq!(kind, Ok(true), "{verb} {path}");
        }
        let rejection = Request { target: path, ..POST }.run_checks(&DEFAULT).unwrap_err();
        assert_eq!(
            (rejection.check, rejection.allow),
            (CheckId::HttpMethod, Some("GET, HEAD, OPTIONS"))
        );
    }
    for path in ["//", "/mcp//", "/MCP", "/mcp/ws", "/.well-known/x", "/healthz%2f"] {
        let rejection = Request { target: path, ..POST }.run_checks(&DEFAULT).unwrap_err();
        assert_eq!(rejection.check, CheckId::Path, "{path}");
    }
}

#[test]
fn configured_paths_replace_the_defaults() {
    let profile = |mcp, legacy_sse| CheckProfile {
        paths: EndpointPaths::new(mcp, "/api/sse", "/api/messages"),
        legacy_sse,
        ..DEFAULT
    };
    let admitted = |request: Request, profile: &CheckProfile| {
        request.run_checks(profile).map_err(|rejection| rejection.check).map(drop)
    };
    for mcp in ["/api", "/mcpx", "/a", "/mcp"] {
        for target in [mcp, &format!("{mcp}/"), &format!("{mcp}?a=/b")] {
            let line = format!("GET {target} HTTP/1.1");
            let get = [&*line, "Accept: text/event-stream", "Mcp-Session-Id: 5e55"];
            let kind = run_checks_on_lines(&get, &profile(mcp, false), |kind| format!("{kind:?}"));
            assert!(kind.unwrap().starts_with("GetStream"), "{target}");
        }
    }
    let custom = profile("/api", true);
    for (target, method) in [("/api/sse", "GET"), ("/api/messages?sessionId=1", "POST")] {
        let request = Request { method, target, ..MESSAGE };
        assert_eq!(admitted(request, &custom), Ok(()), "{target}");
        assert_eq!(admitted(request, &profile("/api", false)), Err(CheckId::Path), "{target}");
    }
    for target in ["/mcp", "/mcp/", "/sse", "/messages?sessionId=1", "/api/x"] {
        let rejection = Request { target, ..POST }.run_checks(&custom).unwrap_err();
        assert_eq!(rejection.check, CheckId::Path, "{target}");
        assert_eq!(rejection.error.message, "not found: the MCP endpoint is /api");
    }
}

#[test]
fn session_id_is_read_from_query_if_enabled() {
    let enabled = |profile: CheckProfile| CheckProfile { session_id_query: true, ..profile };
    let checked = |request: &Request, profile: &CheckProfile| {
        run_checks(&request.text(), profile, |kind| match kind {
            RequestKind::Post { session_id, .. } => session_id.map(<[u8]>::to_vec),
            RequestKind::GetStream { session_id, .. }
            | RequestKind::DeleteSession { session_id } => Some(session_id.to_vec()),
            other => panic!("{other:?}"),
        })
        .map_err(|rejection| rejection.check)
    };
    let delete = Request { method: "DELETE", accept: None, ..GET };
    for request in [POST, GET, delete] {
        let queried = Request { target: "/mcp?a=b&sessionId=5e55", session: None, ..request };
        let named = Ok(Some(b"5e55".to_vec()));
        assert_eq!(checked(&queried, &enabled(DEFAULT)), named);
        let both = Request { session: Some("5e55"), ..queried };
        assert_eq!(checked(&both, &enabled(DEFAULT)), named);
        let differing = Request { session: Some("5e56"), ..queried };
        assert_eq!(checked(&differing, &enabled(DEFAULT)), Err(CheckId::SessionIdAgrees));
        assert_eq!(checked(&differing, &DEFAULT), Ok(Some(b"5e56".to_vec())));
        assert_ne!(checked(&queried, &DEFAULT), named);
        for without_session in [
            checked(&queried, &enabled(MODERN)),
            checked(&Request { version: Some("2026-07-28"), ..differing }, &enabled(DEFAULT)),
        ] {
            let is_post = request.method == "POST";
            let expected = if is_post { Ok(None) } else { Err(CheckId::HttpMethod) };
            assert_eq!(without_session, expected);
        }
    }
}

#[test]
fn operators_listener_serves_no_mcp_path() {
    let only = CheckProfile { operators: OperatorEndpoints::Only, ..DEFAULT };
    let custom = CheckProfile { paths: EndpointPaths::new("/api", "/s", "/m"), ..only.clone() };
    for (profile, target) in [(only, "/mcp"), (custom, "/api")] {
        let rejection = Request { target, ..POST }.run_checks(&profile).unwrap_err();
        assert_eq!(rejection.check, CheckId::Path);
    }
}

#[test]
fn options_with_origin_and_method_is_preflight() {
    let preflight = ["Origin: http://localhost:3000", "Access-Control-Request-Method: POST"];
    let options = |target: &str, lines: &[&str]| {
        let line = format!("OPTIONS {target} HTTP/1.1");
        let lines: Vec<&str> = [line.as_str()].iter().chain(lines).copied().collect();
        run_checks_on_lines(&lines, &DEFAULT, |kind| format!("{kind:?}")).unwrap()
    };
    let allow = "POST, GET, DELETE, OPTIONS";
    assert_eq!(options("/mcp", &preflight), format!("{:?}", RequestKind::Preflight { allow }));
    assert_eq!(options("/mcp", &preflight[..1]), format!("{:?}", RequestKind::Options { allow }));
    assert_eq!(options("*", &[]), format!("{:?}", RequestKind::Options { allow }));
}

#[test]
fn meta_version_takes_precedence_over_header() {
    for version in [None, Some(&b"2025-11-25"[..]), Some(b"2026-07-28"), Some(b"\xff")] {
        assert_eq!(era(version, true, &DEFAULT), Ok(Era::Modern));
        assert_eq!(era(version, true, &MODERN), Ok(Era::Modern));
    }
    assert_eq!(era(None, false, &DEFAULT), Ok(Era::Legacy));
    assert_eq!(era(None, false, &MODERN).unwrap_err().check, CheckId::VersionPresent);
    for revision in Revision::ALL {
        let version = Some(revision.as_str().as_bytes());
        let expected = if revision.is_modern() { Era::Modern } else { Era::Legacy };
        assert_eq!(era(version, false, &DEFAULT), Ok(expected));
        let modern = era(version, false, &MODERN).map_err(|rejection| rejection.check);
        let rejected = Err(CheckId::VersionSupported);
        assert_eq!(modern, if revision.is_modern() { Ok(Era::Modern) } else { rejected });
    }
    for unknown in [&b""[..], b"1900-01-01", b"2025-06-18 ", b"\xff\xfe"] {
        assert_eq!(
            era(Some(unknown), false, &DEFAULT).unwrap_err().check,
            CheckId::VersionSupported
        );
    }
}

#[test]
fn unsupported_version_error_lists_supported_versions() {
    let supported = |profile: &CheckProfile| {
        let error = era(Some(b"1900-01-01"), false, profile).unwrap_err().error;
        let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requested"], "1900-01-01");
        data["supported"].to_string()
    };
    assert_eq!(supported(&MODERN), r#"["2026-07-28"]"#);
    assert!(supported(&DEFAULT).starts_with(r#"["2026-07-28","2025-11-25""#));
    assert_eq!(supported(&STRICT), r#"["2025-06-18"]"#);
}
