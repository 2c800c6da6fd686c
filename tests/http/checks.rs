//! The ordered checks of an HTTP request: for each check, a request that fails it, with the status
//! and error code of the table. The connection stays open if the end of the request is known.

use corelane::protocol::revision::Revision;
use corelane::server::Options;
use corelane::transport::http::checks::{CHECKS, CheckId};
use serde_json::{Value, json};

use crate::http_session::HttpSession;
use crate::messages::{LEGACY, MODERN, call, echo, initialize, modern, request};
use crate::request::Request;
use crate::test_client::TestClient;
use crate::test_server::{TestServer, on_one_shard_and_two, options};

/// The configuration under which a check applies.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ServerKind {
    Default,
    /// Without legacy sessions.
    ModernOnly,
    /// With the strict profile.
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
            Self::Strict => options.http.strict = Some(Revision::V2025_06_18),
            Self::LegacySse => options.http.legacy_sse = true,
        }
        options
    }
}

/// A session id of no session.
const UNKNOWN_SESSION: &str = "6f0d5c1e-2b3a-4c4d-8e5f-60718293a4b5";

/// Builds a WebSocket upgrade request that fails a check.
fn invalid_upgrade(check_id: CheckId) -> Request {
    let good = Request::new("GET", "/mcp/ws")
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Version", 13)
        .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    match check_id {
        CheckId::UpgradeBody => good.body("{}"),
        CheckId::UpgradeVersion => good.field("Sec-WebSocket-Version", 8),
        CheckId::UpgradeKey => good.field("Sec-WebSocket-Key", "short"),
        CheckId::UpgradeProtocol => good.field("Sec-WebSocket-Protocol", "graphql-ws"),
        _ => good.without_field("Upgrade"),
    }
}

const UNSUPPORTED_VERSION: &str = "2999-01-01";

/// Builds a request that fails a check. Returns the server it fails on, the request, and the id in
/// the error.
fn failing_request(
    check_id: CheckId,
    session: &HttpSession,
) -> (ServerKind, Request, Option<Value>) {
    let good = modern(echo(1, "hi"));
    let valid = Request::modern(&good);
    let (kind, request) = match check_id {
        CheckId::Framing => (ServerKind::Default, valid.add_field("Host", "localhost")),
        CheckId::BodySize => (ServerKind::Default, valid.body(vec![b' '; 10_001])),
        CheckId::Host => (ServerKind::Default, valid.field("Host", "evil.example")),
        CheckId::Origin => (ServerKind::Default, valid.field("Origin", "https://evil.example")),
        CheckId::Path => (ServerKind::Default, valid.target("/else")),
        CheckId::HttpMethod => {
            (ServerKind::Default, Request::new("GET", "/mcp").field("Accept", "*/*"))
        }
        CheckId::ContentTypePresent => (
            ServerKind::Strict,
            valid.without_field("Content-Type").field("MCP-Protocol-Version", "2025-06-18"),
        ),
        CheckId::ContentType => (ServerKind::Default, valid.field("Content-Type", "text/json")),
        CheckId::ContentCoding => (ServerKind::Default, valid.field("Content-Encoding", "gzip")),
        CheckId::AcceptBoth => (ServerKind::Default, valid.field("Accept", "application/json")),
        CheckId::AcceptJson => (ServerKind::Strict, valid.field("Accept", "text/event-stream")),
        CheckId::AcceptStream => {
            (ServerKind::Default, session.get().field("Accept", "application/json"))
        }
        CheckId::VersionPinned => (ServerKind::Strict, valid),
        CheckId::StreamVersion => {
            (ServerKind::Default, session.get().field("MCP-Protocol-Version", UNSUPPORTED_VERSION))
        }
        CheckId::SessionInQuery => (ServerKind::LegacySse, valid.target("/messages?other=1")),
        CheckId::Parse => (ServerKind::Default, valid.body("{\"jsonrpc\":")),
        CheckId::MessageShape => (ServerKind::Default, valid.body("[]")),
        _ => return failing_message(check_id, session),
    };
    (kind, request, None)
}

/// Builds a request whose HTTP fields, body framing and JSON are valid, but that fails a later
/// check. Returns the same as [`failing_request`].
fn failing_message(
    check_id: CheckId,
    session: &HttpSession,
) -> (ServerKind, Request, Option<Value>) {
    let good = modern(echo(1, "hi"));
    let valid = Request::modern(&good);
    let legacy = Request::post(echo(1, "hi"));
    let one = Some(json!(1));
    match check_id {
        CheckId::VersionPresent => (ServerKind::ModernOnly, legacy, one),
        CheckId::VersionSupported => {
            (ServerKind::Default, legacy.field("MCP-Protocol-Version", "1999-01-01"), one)
        }
        CheckId::SessionIdPresent => {
            (ServerKind::Default, legacy.field("MCP-Protocol-Version", LEGACY), one)
        }
        CheckId::SessionExists => (
            ServerKind::Default,
            session.post(&echo(1, "hi")).field("Mcp-Session-Id", UNKNOWN_SESSION),
            None,
        ),
        CheckId::StreamAvailable => (ServerKind::Default, session.get(), None),
        CheckId::EventIdKnown => {
            (ServerKind::Default, session.get().field("Last-Event-ID", "9-9"), None)
        }
        CheckId::Meta => (ServerKind::Default, Request::modern(&echo(1, "hi")), one),
        CheckId::VersionConsistent => {
            (ServerKind::Default, valid.field("MCP-Protocol-Version", UNSUPPORTED_VERSION), one)
        }
        CheckId::MethodConsistent => (ServerKind::Default, valid.without_field("Mcp-Method"), one),
        CheckId::NameConsistent => (ServerKind::Default, valid.field("Mcp-Name", "ECHO"), one),
        CheckId::MetaVersionSupported => {
            let version = "io.modelcontextprotocol/protocolVersion";
            let mut message = good;
            message["params"]["_meta"][version] = json!(UNSUPPORTED_VERSION);
            let request = Request::modern(&message);
            let request = request.field("MCP-Protocol-Version", UNSUPPORTED_VERSION);
            (ServerKind::Default, request, one)
        }
        CheckId::Method => {
            let message = modern(request(1, "ping", json!({})));
            (ServerKind::Default, Request::modern(&message), one)
        }
        CheckId::ParamHeadersConsistent => {
            let header = call(1, "test_header_parameter", json!({"region": "here"}));
            let request = Request::modern(&modern(header));
            (ServerKind::Default, request.field("Mcp-Param-Region", "there"), one)
        }
        CheckId::Params => {
            let message = modern(call(1, "nothing", json!({})));
            (ServerKind::Default, Request::modern(&message), one)
        }
        CheckId::Capability => {
            let message = modern(call(1, "test_missing_capability", json!({})));
            (ServerKind::Default, Request::modern(&message), one)
        }
        check_id => (ServerKind::Default, invalid_upgrade(check_id), None),
    }
}

fn expect_refused(
    client: &mut TestClient,
    check_id: CheckId,
    request: &Request,
    id: Option<Value>,
) {
    let check = check_id.check();
    eprintln!("{check_id:?}: {}", check.requirement);
    client.send(request);
    let response = client.read_response();
    let (status, code) = (check.status.code(), check.error_kind.properties().code);
    response.expect_error(status, code.into(), id);
    // After these the start of the next request is unknown.
    let is_lost = matches!(check_id, CheckId::Framing | CheckId::BodySize);
    assert_eq!(response.head.closes_connection(), is_lost, "{response:?}");
    if is_lost {
        client.expect_eof_or_reset();
    } else {
        client.expect_alive();
    }
}

#[test]
fn each_failed_check_gets_its_status_and_code() {
    on_one_shard_and_two(|options| {
        for kind in
            [ServerKind::Default, ServerKind::ModernOnly, ServerKind::Strict, ServerKind::LegacySse]
        {
            let server = TestServer::start(kind.options(options.clone()));
            let session = match kind {
                ServerKind::Default => HttpSession::initialize(server.address(), LEGACY),
                _ => HttpSession::with_id(server.address(), UNKNOWN_SESSION, LEGACY),
            };
            // Occupies the GET stream, so that a second one is refused.
            let listener = (kind == ServerKind::Default).then(|| session.open_stream());
            let requests =
                CHECKS.iter().map(|check| (check.id, failing_request(check.id, &session)));
            let mut refused = 0;
            for (check_id, (_, request, id)) in requests.filter(|(_, failing)| failing.0 == kind) {
                let revision = if kind == ServerKind::Default { MODERN } else { LEGACY };
                let mut client = server.connect().with_revision(revision);
                expect_refused(&mut client, check_id, &request, id);
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
    let server = TestServer::start(options());
    let mut client = server.connect();
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
    let server = TestServer::start(options());
    let mut client = server.connect();
    let good = Request::modern(&modern(echo(1, "hi")));
    for coding in ["gzip", "br, identity", "X-Gzip"] {
        // The first bytes of a gzip stream; the server does not parse them.
        let body = b"\x1f\x8b\x08\0\0\0\0\0";
        let response = client.exchange(&good.clone().field("Content-Encoding", coding).body(body));
        response.expect_error(415, -32600, None);
        assert_eq!(response.head.field("Accept-Encoding"), Some("identity"), "{coding}");
    }
    // RFC 9110, section 12.5.3: clients must be able to distinguish both reasons for 415.
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
    let server = TestServer::start(options());
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
        let mut client = server.connect();
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
    let mut options = options();
    options.http.legacy = false;
    let server = TestServer::start(options);
    let mut client = server.connect();
    let request = Request::post(initialize(1, LEGACY)).field("MCP-Protocol-Version", LEGACY);
    let error = client.exchange(&request).expect_error(400, -32022, Some(json!(1)));
    assert_eq!(error["error"]["data"]["supported"], json!([MODERN]), "{error}");
    assert_eq!(error["error"]["data"]["requested"], LEGACY, "{error}");
    for verb in ["GET", "DELETE"] {
        let request = Request::new(verb, "/mcp").field("Mcp-Session-Id", UNKNOWN_SESSION);
        client.exchange(&request).expect_error(405, -32600, None);
    }
    drop(client);
    server.close();
}
