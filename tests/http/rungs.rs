//! The ladder over the wire: for every rung a request that breaks it, the status and the code that
//! the table has, and a connection that is kept wherever the end of the request is known.

use corelane::protocol::revision::Revision;
use corelane::server::Options;
use corelane::transport::http::ladder::{RUNGS, Step};
use serde_json::{Value, json};

use crate::client::Client;
use crate::messages::{LEGACY, MODERN, call, echo, initialize, modern, request};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, options};

/// Which server a rung belongs to.
#[derive(Clone, Copy, Eq, PartialEq)]
enum To {
    /// One with the defaults.
    Usual,
    /// One without legacy clients.
    ModernOnly,
    /// One of the strict profile.
    Strict,
    /// One with the endpoints of 2024-11-05.
    Pair,
}

impl To {
    fn options(self, mut options: Options) -> Options {
        options.limits.message_bytes_max = 10_000;
        match self {
            Self::Usual => {}
            Self::ModernOnly => options.http.legacy = false,
            Self::Strict => options.http.strict = Some(Revision::V2025_06_18),
            Self::Pair => options.http.sse_pair = true,
        }
        options
    }
}

/// A session of another life.
const UNKNOWN: &str = "6f0d5c1e-2b3a-4c4d-8e5f-60718293a4b5";

/// A handshake of WebSocket that breaks one of its rungs.
fn no_upgrade(step: Step) -> Request {
    let good = Request::new("GET", "/mcp/ws")
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Version", 13)
        .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    match step {
        Step::UpgradeAlone => good.body("{}"),
        Step::UpgradeVersion => good.field("Sec-WebSocket-Version", 8),
        Step::UpgradeKey => good.field("Sec-WebSocket-Key", "short"),
        Step::UpgradeProtocol => good.field("Sec-WebSocket-Protocol", "graphql-ws"),
        _ => good.without("Upgrade"),
    }
}

/// A revision that nobody speaks.
const NO_VERSION: &str = "2999-01-01";

/// The request that breaks a rung, and the id that its refusal names.
fn broken(step: Step, session: &Session) -> (To, Request, Option<Value>) {
    let good = modern(echo(1, "hi"));
    let asking = Request::modern(&good);
    let old = Request::post(echo(1, "hi"));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut message = good.clone();
        change(&mut message);
        message
    };
    let header = call(1, "test_header_parameter", json!({"region": "here"}));
    let one = Some(json!(1));
    let (to, request, id) = match step {
        Step::Frame => (To::Usual, asking.another("Host", "localhost"), None),
        Step::Size => (To::Usual, asking.body(vec![b' '; 10_001]), None),
        Step::Host => (To::Usual, asking.field("Host", "evil.example"), None),
        Step::Origin => (To::Usual, asking.field("Origin", "https://evil.example"), None),
        Step::Path => (To::Usual, asking.target("/else"), None),
        Step::Verb => (To::Usual, Request::new("GET", "/mcp").field("Accept", "*/*"), None),
        Step::ContentTypeNamed => (
            To::Strict,
            asking.without("Content-Type").field("MCP-Protocol-Version", "2025-06-18"),
            None,
        ),
        Step::ContentType => (To::Usual, asking.field("Content-Type", "text/json"), None),
        Step::ContentCoding => (To::Usual, asking.field("Content-Encoding", "gzip"), None),
        Step::AcceptBoth => (To::Usual, asking.field("Accept", "application/json"), None),
        Step::AcceptJson => (To::Strict, asking.field("Accept", "text/event-stream"), None),
        Step::AcceptStream => {
            (To::Usual, session.listen().field("Accept", "application/json"), None)
        }
        Step::VersionPinned => (To::Strict, asking, None),
        Step::VersionOfStream => {
            (To::Usual, session.listen().field("MCP-Protocol-Version", NO_VERSION), None)
        }
        Step::SessionInQuery => (To::Pair, asking.target("/messages?other=1"), None),
        Step::Parse => (To::Usual, asking.body("{\"jsonrpc\":"), None),
        Step::Message => (To::Usual, asking.body("[]"), None),
        Step::VersionNamed => (To::ModernOnly, old, one),
        Step::VersionKnown => (To::Usual, old.field("MCP-Protocol-Version", "1999-01-01"), one),
        Step::SessionNamed => (To::Usual, old.field("MCP-Protocol-Version", LEGACY), one),
        Step::SessionOpen => {
            (To::Usual, session.post(&echo(1, "hi")).field("Mcp-Session-Id", UNKNOWN), None)
        }
        Step::StreamFree => (To::Usual, session.listen(), None),
        Step::EventKnown => (To::Usual, session.listen().field("Last-Event-ID", "9-9"), None),
        Step::Meta => (To::Usual, Request::modern(&echo(1, "hi")), one),
        Step::VersionMirrored => (To::Usual, asking.field("MCP-Protocol-Version", NO_VERSION), one),
        Step::MethodMirrored => (To::Usual, asking.without("Mcp-Method"), one),
        Step::NameMirrored => (To::Usual, asking.field("Mcp-Name", "ECHO"), one),
        Step::Version => {
            let message = with(&|message| {
                let version = "io.modelcontextprotocol/protocolVersion";
                message["params"]["_meta"][version] = json!(NO_VERSION);
            });
            (To::Usual, Request::modern(&message).field("MCP-Protocol-Version", NO_VERSION), one)
        }
        Step::Method => (To::Usual, Request::modern(&modern(request(1, "ping", json!({})))), one),
        Step::ParametersMirrored => {
            (To::Usual, Request::modern(&modern(header)).field("Mcp-Param-Region", "there"), one)
        }
        Step::Params => (To::Usual, Request::modern(&modern(call(1, "nothing", json!({})))), one),
        Step::Capability => {
            let message = modern(call(1, "test_missing_capability", json!({})));
            (To::Usual, Request::modern(&message), one)
        }
        step => (To::Usual, no_upgrade(step), None),
    };
    (to, request, id)
}

fn expect_refused(client: &mut Client, step: Step, request: &Request, id: Option<Value>) {
    let rung = step.rung();
    eprintln!("{step:?}: {}", rung.asks);
    client.send(request);
    let answer = client.answer();
    let (status, code) = (rung.status.code(), rung.kind.row().code);
    answer.expect_error(status, code.into(), id);
    // Behind these nobody can tell where the next request begins.
    let is_lost = matches!(step, Step::Frame | Step::Size);
    assert_eq!(answer.head.closes(), is_lost, "{answer:?}");
    if is_lost {
        client.expect_end_or_reset();
    } else {
        client.expect_alive();
    }
}

#[test]
fn whoever_breaks_a_rung_is_told_by_its_status_and_code_and_keeps_the_connection() {
    on_one_shard_and_two(|options| {
        for to in [To::Usual, To::ModernOnly, To::Strict, To::Pair] {
            let stage = Stage::open(to.options(options.clone()));
            let session = match to {
                To::Usual => Session::begin(stage.address(), LEGACY),
                _ => Session::named(stage.address(), UNKNOWN, LEGACY),
            };
            // Whoever listens takes the stream that others then find taken.
            let listener = (to == To::Usual).then(|| session.attend());
            let steps = RUNGS.iter().map(|rung| (rung.step, broken(rung.step, &session)));
            let mut refused = 0;
            for (step, (_, request, id)) in steps.filter(|(_, broken)| broken.0 == to) {
                let revision = if to == To::Usual { MODERN } else { LEGACY };
                let mut client = stage.connect().speaking(revision);
                expect_refused(&mut client, step, &request, id);
                refused += 1;
            }
            assert!(refused > 0);
            drop((listener, session));
            stage.close();
        }
    });
}

#[test]
fn of_two_rungs_that_are_broken_the_lower_is_told() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let good = Request::modern(&modern(echo(1, "hi")));
    let mut request = good.without("Mcp-Method");
    client.ask(&request).expect_error(400, -32020, Some(json!(1)));
    request = request.body("{");
    client.ask(&request).expect_error(400, -32700, None);
    request = request.field("Accept", "text/html");
    client.ask(&request).expect_error(406, -32600, None);
    request = request.field("Content-Encoding", "gzip");
    client.ask(&request).expect_error(415, -32600, None);
    request = request.field("Content-Type", "text/html");
    client.ask(&request).expect_error(415, -32600, None);
    request = request.verb("PUT");
    client.ask(&request).expect_error(405, -32600, None);
    request = request.field("Origin", "https://evil.example");
    client.ask(&request).expect_error(403, -32600, None);
    request = request.another("Host", "localhost");
    client.ask(&request).expect_error(400, -32600, None);
    drop(client);
    stage.close();
}

#[test]
fn only_a_body_that_is_encoded_is_told_which_encoding_is_taken() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let good = Request::modern(&modern(echo(1, "hi")));
    for coding in ["gzip", "br, identity", "X-Gzip"] {
        // The first bytes of what gzip writes: no JSON, and not looked at.
        let body = b"\x1f\x8b\x08\0\0\0\0\0";
        let answer = client.ask(&good.clone().field("Content-Encoding", coding).body(body));
        answer.expect_error(415, -32600, None);
        assert_eq!(answer.head.field("Accept-Encoding"), Some("identity"), "{coding}");
    }
    // RFC 9110, section 12.5.3: else the client could take one reason for the other.
    let answer = client.ask(&good.clone().field("Content-Type", "text/html"));
    answer.expect_error(415, -32600, None);
    assert_eq!(answer.head.field("Accept-Encoding"), None);
    let answer = client.ask(&good.field("Content-Encoding", "identity"));
    assert_eq!(answer.status(), 200, "{answer:?}");
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn what_a_head_refuses_is_refused_before_its_body_comes() {
    let stage = Stage::open(options());
    let good = Request::modern(&modern(echo(1, "hi")));
    for (request, status) in [
        (good.clone().field("Host", "evil.example"), 403),
        (good.clone().target("/else"), 404),
        (good.clone().verb("PUT"), 405),
        (good.clone().field("Content-Type", "text/plain"), 415),
        (good.clone().field("Content-Encoding", "deflate"), 415),
        (good.clone().field("Accept", "text/plain"), 406),
        (good.clone().field("Content-Length", 1_u64 << 40), 413),
    ] {
        let mut client = stage.connect();
        client.send_bytes(&request.parts()[0]);
        let answer = client.answer();
        assert_eq!(answer.status(), status, "{answer:?}");
        assert!(answer.head.closes(), "{answer:?}");
        client.expect_end_or_reset();
    }
    let counters = stage.close();
    assert_eq!(counters.traffic.messages_in, 0, "{counters}");
}

#[test]
fn a_client_of_the_handshake_that_finds_no_handshake_is_told_which_revisions_there_are() {
    let mut options = options();
    options.http.legacy = false;
    let stage = Stage::open(options);
    let mut client = stage.connect();
    let request = Request::post(initialize(1, LEGACY)).field("MCP-Protocol-Version", LEGACY);
    let error = client.ask(&request).expect_error(400, -32022, Some(json!(1)));
    assert_eq!(error["error"]["data"]["supported"], json!([MODERN]), "{error}");
    assert_eq!(error["error"]["data"]["requested"], LEGACY, "{error}");
    for verb in ["GET", "DELETE"] {
        let request = Request::new(verb, "/mcp").field("Mcp-Session-Id", UNKNOWN);
        client.ask(&request).expect_error(405, -32600, None);
    }
    drop(client);
    stage.close();
}
