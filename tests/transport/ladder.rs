//! The ladder, walked rung by rung: the table as the specification has it, and for every rung that
//! needs only a head a request that breaks it.

use corelane::protocol::error::Error;
use corelane::protocol::revision::Revision;
use corelane::transport::http::head::Head;
use corelane::transport::http::ladder::{
    Among, Era, Kind, Looker, Profile, RUNGS, Refusal, Step, admit_head, era,
};
use corelane::transport::http::limits::Limits;

/// (step, status, code): the table said once more.
const EXPECTED: [(Step, u16, i32); 37] = [
    (Step::Frame, 400, -32600),
    (Step::Size, 413, -32012),
    (Step::Host, 403, -32600),
    (Step::Origin, 403, -32600),
    (Step::Path, 404, -32600),
    (Step::Verb, 405, -32600),
    (Step::ContentTypeNamed, 400, -32600),
    (Step::ContentType, 415, -32600),
    (Step::ContentCoding, 415, -32600),
    (Step::AcceptBoth, 406, -32600),
    (Step::AcceptJson, 406, -32600),
    (Step::AcceptStream, 406, -32600),
    (Step::VersionPinned, 400, -32600),
    (Step::VersionOfStream, 400, -32022),
    (Step::SessionInQuery, 400, -32600),
    (Step::UpgradeAsked, 426, -32600),
    (Step::UpgradeAlone, 400, -32600),
    (Step::UpgradeVersion, 426, -32600),
    (Step::UpgradeKey, 400, -32600),
    (Step::UpgradeProtocol, 400, -32600),
    (Step::Parse, 400, -32700),
    (Step::Message, 400, -32600),
    (Step::VersionNamed, 400, -32020),
    (Step::VersionKnown, 400, -32022),
    (Step::SessionNamed, 400, -32600),
    (Step::SessionOpen, 404, -32600),
    (Step::StreamFree, 409, -32600),
    (Step::EventKnown, 400, -32600),
    (Step::Meta, 400, -32602),
    (Step::VersionMirrored, 400, -32020),
    (Step::MethodMirrored, 400, -32020),
    (Step::NameMirrored, 400, -32020),
    (Step::Version, 400, -32022),
    (Step::Method, 404, -32601),
    (Step::ParametersMirrored, 400, -32020),
    (Step::Params, 400, -32602),
    (Step::Capability, 400, -32021),
];

const USUAL: Profile = Profile { strict: None, legacy: true, sse_pair: false, websocket: None };
const MODERN: Profile = Profile { strict: None, legacy: false, sse_pair: false, websocket: None };
const PAIR: Profile = Profile { strict: None, legacy: true, sse_pair: true, websocket: None };
const STRICT: Profile =
    Profile { strict: Some(Revision::V2025_06_18), legacy: true, sse_pair: true, websocket: None };

/// A request to be written down.
#[derive(Clone, Copy, Debug)]
struct Request {
    verb: &'static str,
    target: &'static str,
    content_type: Option<&'static str>,
    coding: Option<&'static str>,
    accept: Option<&'static str>,
    version: Option<&'static str>,
    session: Option<&'static str>,
}

const POST: Request = Request {
    verb: "POST",
    target: "/mcp",
    content_type: Some("application/json"),
    coding: None,
    accept: Some("application/json, text/event-stream"),
    version: None,
    session: None,
};
const GET: Request = Request {
    verb: "GET",
    target: "/mcp",
    content_type: None,
    coding: None,
    accept: Some("text/event-stream"),
    version: Some("2025-11-25"),
    session: Some("5e55"),
};
const MESSAGE: Request = Request { target: "/messages?a=b&sessionId=5e55", accept: None, ..POST };
const PINNED: Request = Request { version: Some("2025-06-18"), ..POST };

/// The ways up: for whom, a request that is admitted, the rungs that it passes.
const WAYS: [(Profile, Request, &[Step]); 5] = [
    (
        USUAL,
        POST,
        &[Step::Path, Step::Verb, Step::ContentType, Step::ContentCoding, Step::AcceptBoth],
    ),
    (USUAL, GET, &[Step::Path, Step::Verb, Step::AcceptStream, Step::VersionOfStream]),
    (
        USUAL,
        Request { verb: "DELETE", accept: None, ..GET },
        &[Step::Path, Step::Verb, Step::VersionOfStream],
    ),
    (
        PAIR,
        MESSAGE,
        &[Step::Path, Step::Verb, Step::ContentType, Step::ContentCoding, Step::SessionInQuery],
    ),
    (
        STRICT,
        PINNED,
        &[
            Step::Path,
            Step::Verb,
            Step::ContentTypeNamed,
            Step::ContentType,
            Step::ContentCoding,
            Step::AcceptJson,
            Step::VersionPinned,
        ],
    ),
];

impl Request {
    /// The same request with one thing wrong.
    fn broken(mut self, step: Step) -> Self {
        match step {
            Step::Path => {
                self.target = if self.target == "/mcp" { "/mcp/x?sessionId=1" } else { "/message" };
            }
            Step::Verb if self.session.is_some() => self.session = None,
            Step::Verb => self.verb = "PUT",
            Step::ContentTypeNamed => self.content_type = None,
            // What names nothing breaks the rung below.
            Step::ContentType => self.content_type = self.content_type.and(Some("text/plain")),
            Step::ContentCoding => self.coding = Some("gzip"),
            Step::AcceptBoth | Step::AcceptStream => self.accept = Some("application/json"),
            Step::AcceptJson => self.accept = Some("text/event-stream"),
            Step::VersionPinned => self.version = Some("2025-11-25"),
            Step::VersionOfStream => self.version = Some("1900-01-01"),
            Step::SessionInQuery if self.target.starts_with("/messages") => {
                self.target = "/messages?sessionid=5e55";
            }
            Step::SessionInQuery => {}
            _ => panic!("{step:?} needs more than a head"),
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
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", self.verb, self.target)
    }

    /// What becomes of it.
    fn climb(&self, profile: &Profile) -> Result<String, Refusal> {
        climb(&self.text(), profile, |kind| format!("{kind:?}"))
    }
}

fn climb<T>(text: &str, profile: &Profile, look: impl FnOnce(Kind<'_>) -> T) -> Result<T, Refusal> {
    let head = Head::parse(text.as_bytes(), &Limits::default()).unwrap().unwrap();
    admit_head(&head, text.as_bytes(), profile).map(look)
}

/// The same with lines written by hand.
fn climb_lines<T>(
    lines: &[&str],
    profile: &Profile,
    look: impl FnOnce(Kind<'_>) -> T,
) -> Result<T, Refusal> {
    climb(&format!("{}\r\nHost: localhost\r\n\r\n", lines.join("\r\n")), profile, look)
}

#[test]
fn every_rung_says_what_the_specification_says() {
    assert_eq!(RUNGS.len(), EXPECTED.len());
    for (rung, (step, status, code)) in RUNGS.iter().zip(EXPECTED) {
        assert_eq!(rung.step, step);
        assert_eq!(rung.status.code(), status, "{step:?}");
        assert_eq!(rung.kind.row().code, code, "{step:?}");
        assert_eq!(step.rung().step, step);
        assert!(rung.asks.len() > 10, "{step:?} does not say what it asks");
    }
}

#[test]
fn a_rung_above_the_body_has_the_status_of_its_error() {
    for rung in RUNGS.iter().filter(|rung| rung.among == Among::Modern) {
        let error = Error::new(rung.kind, "");
        assert_eq!(rung.status.code(), error.http_status(Revision::LATEST), "{:?}", rung.step);
    }
}

#[test]
fn nothing_of_a_body_is_read_below_the_last_rung_of_a_head() {
    let needs_body = |looker| matches!(looker, Looker::Era | Looker::Mirror | Looker::Road);
    assert!(RUNGS.is_sorted_by_key(|rung| needs_body(rung.by)));
}

#[test]
fn every_rung_of_a_head_is_on_some_way_and_no_way_leaves_the_order() {
    for (_, request, steps) in &WAYS {
        assert!(steps.is_sorted(), "{request:?}");
    }
    for rung in RUNGS.iter().filter(|rung| rung.by == Looker::Head) {
        let mut ways = WAYS.iter().filter(|(_, _, steps)| steps.contains(&rung.step));
        assert!(ways.next().is_some(), "{:?} is never broken", rung.step);
    }
}

#[test]
fn a_request_that_breaks_one_rung_is_refused_there() {
    for (profile, request, steps) in &WAYS {
        assert!(request.climb(profile).is_ok(), "{request:?}");
        for &step in *steps {
            let refusal = request.broken(step).climb(profile).unwrap_err();
            assert_eq!(refusal.step, step, "{request:?}");
            assert_eq!(refusal.status, step.rung().status);
            assert_eq!(refusal.error.kind, step.rung().kind);
            assert_eq!(refusal.allow.is_some(), step == Step::Verb);
        }
    }
}

#[test]
fn a_request_that_breaks_several_rungs_is_told_of_the_lowest() {
    for (profile, request, steps) in &WAYS {
        for (place, &low) in steps.iter().enumerate() {
            let broken =
                steps[place..].iter().fold(*request, |request, step| request.broken(*step));
            assert_eq!(broken.climb(profile).unwrap_err().step, low, "{broken:?}");
        }
    }
}

#[test]
fn both_types_of_an_answer_are_accepted_by_name_or_by_range() {
    let accepting = |accept| Request { accept, ..POST }.climb(&USUAL);
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
        assert_eq!(accepting(accept).unwrap_err().step, Step::AcceptBoth, "{accept:?}");
    }
}

#[test]
fn a_body_to_which_something_was_done_is_refused_however_that_is_written() {
    let lines = ["POST /mcp HTTP/1.1", "Content-Type: application/json", "Accept: */*"];
    let coded = |coding: &[&str]| {
        let lines: Vec<&str> = lines.iter().chain(coding).copied().collect();
        climb_lines(&lines, &USUAL, |_| ()).map_err(|refusal| refusal.step)
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
        assert_eq!(coded(coding), Err(Step::ContentCoding), "{coding:?}");
    }
}

#[test]
fn the_strict_profile_answers_json_and_knows_one_revision() {
    let climb = |request: Request| request.climb(&STRICT).map_err(|refusal| refusal.step);
    for accept in [None, Some("application/json"), Some("*/*")] {
        assert!(climb(Request { accept, ..PINNED }).is_ok(), "{accept:?}");
    }
    assert_eq!(climb(Request { version: None, ..PINNED }), Err(Step::VersionPinned));
    assert_eq!(climb(GET), Err(Step::Verb));
    assert!(climb(Request { verb: "DELETE", version: PINNED.version, ..GET }).is_ok());
    assert_eq!(climb(Request { verb: "DELETE", ..GET }), Err(Step::VersionPinned));
    assert_eq!(climb(MESSAGE), Err(Step::Path));
    assert_eq!(climb(Request { target: "/sse", ..GET }), Err(Step::Path));
    let refusal = GET.climb(&STRICT).unwrap_err();
    assert_eq!(refusal.allow, Some("POST, DELETE, OPTIONS"));
}

#[test]
fn a_get_without_a_session_or_of_a_modern_client_is_not_allowed() {
    for request in [
        Request { session: None, ..GET },
        Request { version: Some("2026-07-28"), ..GET },
        Request { verb: "DELETE", session: None, ..GET },
        Request { verb: "DELETE", version: Some("2026-07-28"), ..GET },
    ] {
        let refusal = request.climb(&USUAL).unwrap_err();
        assert_eq!((refusal.step, refusal.allow), (Step::Verb, Some("POST, OPTIONS")));
    }
    for verb in ["GET", "DELETE"] {
        let refusal = Request { verb, ..GET }.climb(&MODERN).unwrap_err();
        assert_eq!((refusal.step, refusal.allow), (Step::Verb, Some("POST, OPTIONS")));
    }
}

#[test]
fn a_session_id_means_nothing_where_there_are_no_sessions() {
    let session = |profile: &Profile, version| {
        let request = Request { version, session: Some("5e55"), ..POST };
        climb(&request.text(), profile, |kind| match kind {
            Kind::Post { session, .. } => session.map(<[u8]>::to_vec),
            other => panic!("{other:?}"),
        })
        .unwrap()
    };
    for version in [None, Some("2025-03-26"), Some("2025-11-25"), Some("1900-01-01")] {
        assert_eq!(session(&USUAL, version).as_deref(), Some(&b"5e55"[..]));
        assert_eq!(session(&MODERN, version), None);
    }
    assert_eq!(session(&USUAL, Some("2026-07-28")), None);
}

#[test]
fn the_parts_that_a_session_needs_are_handed_on_as_they_came() {
    let lines = [
        "GET /mcp/ HTTP/1.1",
        "mcp-session-id: \tAbc ",
        "Accept: text/event-stream",
        "Last-Event-ID: 3-17",
    ];
    climb_lines(&lines, &USUAL, |kind| {
        assert_eq!(kind, Kind::Stream { session: b"Abc", last_event: Some(b"3-17") });
    })
    .unwrap();
    climb(&MESSAGE.text(), &PAIR, |kind| assert_eq!(kind, Kind::Message { session: b"5e55" }))
        .unwrap();
    assert_eq!(MESSAGE.climb(&USUAL).unwrap_err().step, Step::Path);
}

#[test]
fn pages_are_read_and_nothing_is_posted_to_them() {
    let paths = ["/", "/healthz", "/readyz", "/status", "/status?x=/mcp", "/healthz/"];
    for path in paths {
        for verb in ["GET", "HEAD"] {
            let kind = climb_lines(&[&format!("{verb} {path} HTTP/1.1")], &STRICT, |kind| {
                matches!(kind, Kind::Health | Kind::Page | Kind::Ready | Kind::Status)
            });
            assert_eq!(kind, Ok(true), "{verb} {path}");
        }
        let refusal = Request { target: path, ..POST }.climb(&USUAL).unwrap_err();
        assert_eq!((refusal.step, refusal.allow), (Step::Verb, Some("GET, HEAD, OPTIONS")));
    }
    for path in ["//", "/mcp//", "/MCP", "/mcp/ws", "/.well-known/x", "/healthz%2f"] {
        let refusal = Request { target: path, ..POST }.climb(&USUAL).unwrap_err();
        assert_eq!(refusal.step, Step::Path, "{path}");
    }
}

#[test]
fn options_is_a_preflight_where_a_page_asks_what_it_may() {
    let asked = ["Origin: http://localhost:3000", "Access-Control-Request-Method: POST"];
    let options = |target: &str, lines: &[&str]| {
        let line = format!("OPTIONS {target} HTTP/1.1");
        let lines: Vec<&str> = [line.as_str()].iter().chain(lines).copied().collect();
        climb_lines(&lines, &USUAL, |kind| format!("{kind:?}")).unwrap()
    };
    let allow = "POST, GET, DELETE, OPTIONS";
    assert_eq!(options("/mcp", &asked), format!("{:?}", Kind::Preflight { allow }));
    assert_eq!(options("/mcp", &asked[..1]), format!("{:?}", Kind::Options { allow }));
    assert_eq!(options("*", &[]), format!("{:?}", Kind::Options { allow }));
}

#[test]
fn the_body_says_its_era_before_the_header_does() {
    for version in [None, Some(&b"2025-11-25"[..]), Some(b"2026-07-28"), Some(b"\xff")] {
        assert_eq!(era(version, true, &USUAL), Ok(Era::Modern));
        assert_eq!(era(version, true, &MODERN), Ok(Era::Modern));
    }
    assert_eq!(era(None, false, &USUAL), Ok(Era::Legacy));
    assert_eq!(era(None, false, &MODERN).unwrap_err().step, Step::VersionNamed);
    for revision in Revision::ALL {
        let version = Some(revision.as_str().as_bytes());
        let expected = if revision.is_modern() { Era::Modern } else { Era::Legacy };
        assert_eq!(era(version, false, &USUAL), Ok(expected));
        let modern = era(version, false, &MODERN).map_err(|refusal| refusal.step);
        let refused = Err(Step::VersionKnown);
        assert_eq!(modern, if revision.is_modern() { Ok(Era::Modern) } else { refused });
    }
    for unknown in [&b""[..], b"1900-01-01", b"2025-06-18 ", b"\xff\xfe"] {
        assert_eq!(era(Some(unknown), false, &USUAL).unwrap_err().step, Step::VersionKnown);
    }
}

#[test]
fn a_refused_revision_is_told_which_ones_are_spoken() {
    let supported = |profile: &Profile| {
        let error = era(Some(b"1900-01-01"), false, profile).unwrap_err().error;
        let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requested"], "1900-01-01");
        data["supported"].to_string()
    };
    assert_eq!(supported(&MODERN), r#"["2026-07-28"]"#);
    assert!(supported(&USUAL).starts_with(r#"["2026-07-28","2025-11-25""#));
    assert_eq!(supported(&STRICT), r#"["2025-06-18"]"#);
}
