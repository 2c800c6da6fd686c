//! The ordered checks of an HTTP request: for each check, a request that fails it, with the status
//! and error code of the response. The connection stays open if the end of the request is known.

use corelane::Options;
use corelane::options::SecondStream;
use corelane_protocol::revision::Revision;
use corelane_test_support::messages::{
    LEGACY, MODERN, call, echo, initialize_with_elicitation, modern, request,
};
use corelane_test_support::{HttpClient, Request, TestServer, http_options, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

/// The configuration under which a check applies.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ServerKind {
    Default,
    /// Without legacy sessions.
    ModernOnly,
    /// With the strict profile, in which `initialize` names the revision, too.
    Strict,
    /// With the HTTP+SSE endpoints of 2024-11-05.
    LegacySse,
}

impl ServerKind {
    fn options(self, mut options: Options) -> Options {
        options.limits.message_bytes_max = 10_000;
        match self {
            Self::Default => {}
            Self::ModernOnly => options.http.legacy = false,
            Self::Strict => options.http.pinned = Some(Revision::V2025_06_18),
            Self::LegacySse => options.http.legacy_sse = true,
        }
        options
    }
}

/// A session id of no session.
const UNKNOWN_SESSION: &str = "6f0d5c1e-2b3a-4c4d-8e5f-60718293a4b5";

/// A request that fails a check.
struct FailingRequest {
    name: &'static str,
    kind: ServerKind,
    request: Request,
    /// HTTP status, JSON-RPC code and request id of the error.
    expected: (u16, i64, Option<i64>),
}

const fn failing(
    name: &'static str,
    kind: ServerKind,
    request: Request,
    expected: (u16, i64, Option<i64>),
) -> FailingRequest {
    FailingRequest { name, kind, request, expected }
}

const UNSUPPORTED_VERSION: &str = "2999-01-01";

/// Builds a request for each check that a head can fail.
fn failing_heads() -> Vec<FailingRequest> {
    let valid = Request::modern(&modern(echo(1, "hi")));
    vec![
        failing(
            "two Host fields",
            ServerKind::Default,
            valid.clone().add_field("Host", "localhost"),
            (400, -32600, None),
        ),
        failing(
            "body over the limit",
            ServerKind::Default,
            valid.clone().body(vec![b' '; 10_001]),
            (413, -32012, None),
        ),
        failing(
            "foreign Host",
            ServerKind::Default,
            valid.clone().field("Host", "evil.example"),
            (403, -32600, None),
        ),
        failing(
            "foreign Origin",
            ServerKind::Default,
            valid.clone().field("Origin", "https://evil.example"),
            (403, -32600, None),
        ),
        failing(
            "unknown path",
            ServerKind::Default,
            valid.clone().target("/else"),
            (404, -32600, None),
        ),
        failing(
            "GET without a session",
            ServerKind::Default,
            Request::new("GET", "/mcp").field("Accept", "*/*"),
            (405, -32600, None),
        ),
        failing(
            "no Content-Type",
            ServerKind::Strict,
            valid.clone().without_field("Content-Type").field("MCP-Protocol-Version", "2025-06-18"),
            (400, -32600, None),
        ),
        failing(
            "Content-Type is not JSON",
            ServerKind::Default,
            valid.clone().field("Content-Type", "text/json"),
            (415, -32600, None),
        ),
        failing(
            "compressed body",
            ServerKind::Default,
            valid.clone().field("Content-Encoding", "gzip"),
            (415, -32600, None),
        ),
    ]
}

/// Builds a request for each check of `Accept`, versions and sessions in a head.
fn failing_accept_and_version(session: &HttpSession) -> Vec<FailingRequest> {
    let valid = Request::modern(&modern(echo(1, "hi")));
    vec![
        failing(
            "Accept without an event stream",
            ServerKind::Default,
            valid.clone().field("Accept", "application/json"),
            (406, -32600, None),
        ),
        failing(
            "Accept without JSON",
            ServerKind::Strict,
            valid.clone().field("Accept", "text/event-stream"),
            (406, -32600, None),
        ),
        failing(
            "GET without an event stream",
            ServerKind::Default,
            session.get().field("Accept", "application/json"),
            (406, -32600, None),
        ),
        failing(
            "no version in the strict profile",
            ServerKind::Strict,
            valid.clone(),
            (400, -32600, None),
        ),
        failing(
            "GET with an unsupported version",
            ServerKind::Default,
            session.get().field("MCP-Protocol-Version", UNSUPPORTED_VERSION),
            (400, -32022, None),
        ),
        failing(
            "no session id in the query",
            ServerKind::LegacySse,
            valid.clone().target("/messages?other=1"),
            (400, -32600, None),
        ),
    ]
}

/// Builds a request for each check of a WebSocket upgrade.
fn failing_upgrades() -> Vec<FailingRequest> {
    let upgrade = Request::new("GET", "/mcp/ws")
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Version", 13)
        .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    vec![
        failing(
            "no Upgrade",
            ServerKind::Default,
            upgrade.clone().without_field("Upgrade"),
            (426, -32600, None),
        ),
        failing(
            "upgrade with a body",
            ServerKind::Default,
            upgrade.clone().body("{}"),
            (400, -32600, None),
        ),
        failing(
            "unsupported WebSocket version",
            ServerKind::Default,
            upgrade.clone().field("Sec-WebSocket-Version", 8),
            (426, -32600, None),
        ),
        failing(
            "invalid WebSocket key",
            ServerKind::Default,
            upgrade.clone().field("Sec-WebSocket-Key", "short"),
            (400, -32600, None),
        ),
        failing(
            "unsupported subprotocol",
            ServerKind::Default,
            upgrade.field("Sec-WebSocket-Protocol", "graphql-ws"),
            (400, -32600, None),
        ),
    ]
}

/// Builds a request for each check of its message.
fn failing_messages(session: &HttpSession) -> Vec<FailingRequest> {
    let valid = Request::modern(&modern(echo(1, "hi")));
    let legacy = Request::post(echo(1, "hi"));
    vec![
        failing(
            "invalid JSON",
            ServerKind::Default,
            valid.clone().body("{\"jsonrpc\":"),
            (400, -32700, None),
        ),
        failing("empty batch", ServerKind::Default, valid.clone().body("[]"), (400, -32600, None)),
        failing(
            "no version without legacy support",
            ServerKind::ModernOnly,
            legacy.clone(),
            (400, -32020, Some(1)),
        ),
        failing(
            "unsupported version",
            ServerKind::Default,
            legacy.clone().field("MCP-Protocol-Version", "1999-01-01"),
            (400, -32022, Some(1)),
        ),
        failing(
            "legacy request without a session id",
            ServerKind::Default,
            legacy.field("MCP-Protocol-Version", LEGACY),
            (400, -32600, Some(1)),
        ),
        failing(
            "unknown session",
            ServerKind::Default,
            session.post(&echo(1, "hi")).field("Mcp-Session-Id", UNKNOWN_SESSION),
            (404, -32600, None),
        ),
        failing("second GET stream", ServerKind::Default, session.get(), (409, -32600, None)),
        failing(
            "unknown Last-Event-ID",
            ServerKind::Default,
            session.get().field("Last-Event-ID", "9-9"),
            (400, -32600, None),
        ),
    ]
}

/// Builds a request for each check of a modern message.
fn failing_modern_messages() -> Vec<FailingRequest> {
    let good = modern(echo(1, "hi"));
    let valid = Request::modern(&good);
    let modern_request = |message: Value| Request::modern(&modern(message));
    let with_header = modern_request(call(1, "test_header_parameter", json!({"region": "here"})));
    let mut unsupported = good;
    let version = "io.modelcontextprotocol/protocolVersion";
    unsupported["params"]["_meta"][version] = json!(UNSUPPORTED_VERSION);
    vec![
        failing(
            "no _meta",
            ServerKind::Default,
            Request::modern(&echo(1, "hi")),
            (400, -32602, Some(1)),
        ),
        failing(
            "version differs from _meta",
            ServerKind::Default,
            valid.clone().field("MCP-Protocol-Version", UNSUPPORTED_VERSION),
            (400, -32020, Some(1)),
        ),
        failing(
            "no Mcp-Method",
            ServerKind::Default,
            valid.clone().without_field("Mcp-Method"),
            (400, -32020, Some(1)),
        ),
        failing(
            "Mcp-Name differs from the name",
            ServerKind::Default,
            valid.field("Mcp-Name", "ECHO"),
            (400, -32020, Some(1)),
        ),
        failing(
            "unsupported version in _meta",
            ServerKind::Default,
            Request::modern(&unsupported).field("MCP-Protocol-Version", UNSUPPORTED_VERSION),
            (400, -32022, Some(1)),
        ),
        failing(
            "method of another revision",
            ServerKind::Default,
            modern_request(request(1, "ping", json!({}))),
            (404, -32601, Some(1)),
        ),
        failing(
            "Mcp-Param header differs from the argument",
            ServerKind::Default,
            with_header.field("Mcp-Param-Region", "there"),
            (400, -32020, Some(1)),
        ),
        failing(
            "unknown tool",
            ServerKind::Default,
            modern_request(call(1, "nothing", json!({}))),
            (400, -32602, Some(1)),
        ),
        failing(
            "missing client capability",
            ServerKind::Default,
            modern_request(call(1, "test_missing_capability", json!({}))),
            (400, -32021, Some(1)),
        ),
    ]
}

fn expect_refused(client: &mut HttpClient, failing: &FailingRequest) {
    eprintln!("{}", failing.name);
    client.send(&failing.request);
    let response = client.read_response();
    let (status, code, id) = failing.expected;
    response.expect_error(status, code, id.map(Value::from));
    // After these the start of the next request is unknown.
    let is_lost = matches!(failing.name, "two Host fields" | "body over the limit");
    assert_eq!(response.head.closes_connection(), is_lost, "{response:?}");
    if is_lost {
        client.expect_eof_or_reset();
    } else {
        client.expect_alive();
    }
}

#[test]
fn each_failed_check_gets_its_status_and_code() {
    on_one_shard_and_two(|mut options| {
        options.http.second_stream = SecondStream::Refuse;
        for kind in
            [ServerKind::Default, ServerKind::ModernOnly, ServerKind::Strict, ServerKind::LegacySse]
        {
            let server = TestServer::with_test_tools(kind.options(options.clone()));
            let session = match kind {
                ServerKind::Default => HttpSession::initialize(server.address(), LEGACY),
                _ => HttpSession::with_id(server.address(), UNKNOWN_SESSION, LEGACY),
            };
            // Occupies the GET stream, so that a second one is refused.
            let listener = (kind == ServerKind::Default).then(|| session.open_stream());
            let mut requests = failing_heads();
            requests.extend(failing_accept_and_version(&session));
            requests.extend(failing_upgrades());
            requests.extend(failing_messages(&session));
            requests.extend(failing_modern_messages());
            let mut refused = 0;
            for failing in requests.iter().filter(|failing| failing.kind == kind) {
                let revision = if kind == ServerKind::Default { MODERN } else { LEGACY };
                let mut client = server.connect_http().with_revision(revision);
                expect_refused(&mut client, failing);
                refused += 1;
            }
            assert!(refused > 0);
            drop((listener, session));
            server.close();
        }
    });
}

#[test]
fn first_failed_check_determines_the_status() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let good = Request::modern(&modern(echo(1, "hi")));
    let mut request = good.without_field("Mcp-Method");
    client.exchange(&request).expect_error(400, -32020, Some(json!(1)));
    request = request.body("{");
    client.exchange(&request).expect_error(400, -32700, None);
    request = request.field("Accept", "text/html");
    client.exchange(&request).expect_error(406, -32600, None);
    request = request.field("Content-Encoding", "gzip");
    client.exchange(&request).expect_error(415, -32600, None);
    request = request.field("Content-Type", "text/html");
    client.exchange(&request).expect_error(415, -32600, None);
    request = request.method("PUT");
    client.exchange(&request).expect_error(405, -32600, None);
    request = request.field("Origin", "https://evil.example");
    client.exchange(&request).expect_error(403, -32600, None);
    request = request.add_field("Host", "localhost");
    client.exchange(&request).expect_error(400, -32600, None);
    drop(client);
    server.close();
}

#[test]
fn accept_encoding_is_sent_only_for_encoded_body() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let good = Request::modern(&modern(echo(1, "hi")));
    for coding in ["gzip", "br, identity", "X-Gzip"] {
        // The first bytes of a gzip stream; the server does not parse them.
        let body = b"\x1f\x8b\x08\0\0\0\0\0";
        let response = client.exchange(&good.clone().field("Content-Encoding", coding).body(body));
        response.expect_error(415, -32600, None);
        assert_eq!(response.head.field("Accept-Encoding"), Some("identity"), "{coding}");
    }
    // RFC 9110, section 12.5.3: clients must be able to tell both reasons for 415 apart.
    let response = client.exchange(&good.clone().field("Content-Type", "text/html"));
    response.expect_error(415, -32600, None);
    assert_eq!(response.head.field("Accept-Encoding"), None);
    let response = client.exchange(&good.field("Content-Encoding", "identity"));
    assert_eq!(response.status(), 200, "{response:?}");
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn invalid_head_is_rejected_before_the_body() {
    let server = TestServer::with_test_tools(http_options());
    let good = Request::modern(&modern(echo(1, "hi")));
    for (request, status) in [
        (good.clone().field("Host", "evil.example"), 403),
        (good.clone().target("/else"), 404),
        (good.clone().method("PUT"), 405),
        (good.clone().field("Content-Type", "text/plain"), 415),
        (good.clone().field("Content-Encoding", "deflate"), 415),
        (good.clone().field("Accept", "text/plain"), 406),
        (good.clone().field("Content-Length", 1_u64 << 40), 413),
    ] {
        let mut client = server.connect_http();
        client.send_bytes(&request.head_and_body()[0]);
        let response = client.read_response();
        assert_eq!(response.status(), status, "{response:?}");
        assert!(response.head.closes_connection(), "{response:?}");
        client.expect_eof_or_reset();
    }
    let counters = server.close();
    assert_eq!(counters.traffic.messages_in, 0, "{counters}");
}

#[test]
fn initialize_without_legacy_support_gets_supported_versions() {
    let mut options = http_options();
    options.http.legacy = false;
    let server = TestServer::with_test_tools(options);
    let mut client = server.connect_http();
    for header in [None, Some(LEGACY), Some(MODERN), Some("x")] {
        let request = Request::post(initialize_with_elicitation(1, LEGACY));
        let request = match header {
            Some(version) => request.field("MCP-Protocol-Version", version),
            None => request,
        };
        let error = client.exchange(&request).expect_error(400, -32022, Some(json!(1)));
        assert_eq!(error["error"]["data"]["supported"], json!([MODERN]), "{error}");
        assert_eq!(error["error"]["data"]["requested"], LEGACY, "{error}");
    }
    for verb in ["GET", "DELETE"] {
        let request = Request::new(verb, "/mcp").field("Mcp-Session-Id", UNKNOWN_SESSION);
        client.exchange(&request).expect_error(405, -32600, None);
    }
    drop(client);
    server.close();
}
