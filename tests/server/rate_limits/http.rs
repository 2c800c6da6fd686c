//! Limits over HTTP: status, header fields and body.

use corelane_test_support::http::Response;
use corelane_test_support::messages::{
    LEGACY, echo, initialize, modern, notification, request, request_without_params,
};
use corelane_test_support::{HttpClient, Request, TestServer};
use serde_json::json;

use crate::rate_limits::{CLIENT, expect_rate_limited, options, start};

/// Checks a response with status 429 to a request over the limit `"all"` of `limit` requests an
/// hour.
#[track_caller]
fn expect_too_many(response: &Response, limit: u64) {
    assert_eq!(response.status(), 429, "{response:?}");
    let text = format!("{limit} in 3600 seconds (all)");
    let milliseconds = expect_rate_limited(&response.message(), &text, 3_600 / limit);
    let seconds = milliseconds.div_ceil(1_000).to_string();
    assert_eq!(response.head.field("Retry-After"), Some(&*seconds), "{response:?}");
    let policy = format!("\"all\";q={limit};w=3600");
    assert_eq!(response.head.field("RateLimit-Policy"), Some(&*policy), "{response:?}");
    let rest = format!("\"all\";r=0;t={seconds}");
    assert_eq!(response.head.field("RateLimit"), Some(&*rest), "{response:?}");
}

#[test]
fn modern_request_over_limit_gets_429() {
    let server = start(&["tools/call rate=2/h"]);
    let mut client = server.connect_http();
    let call = Request::modern(&modern(echo(7, "x")));
    for _ in 0..2 {
        let served = client.exchange(&call);
        assert_eq!(served.status(), 200);
        for field in ["Retry-After", "RateLimit", "RateLimit-Policy"] {
            assert_eq!(served.head.field(field), None);
        }
    }
    let refused = client.exchange(&call);
    expect_too_many(&refused, 2);
    assert_eq!(refused.message()["id"], 7);
    // The connection stays open, for other methods.
    let list = modern(request(8, "tools/list", json!({})));
    assert_eq!(client.exchange(&Request::modern(&list)).status(), 200);
    drop(client);
    assert_eq!(server.close().overload.refused_rate, 1);
}

/// Begins a legacy session and returns what its requests have in common.
fn begin_session(client: &mut HttpClient) -> impl Fn(&serde_json::Value) -> Request + use<> {
    let opened = client.exchange(&Request::post(initialize(0, LEGACY)));
    assert_eq!(opened.status(), 200, "{opened:?}");
    let session = opened.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let post = move |message: &serde_json::Value| {
        Request::post(message)
            .field("Mcp-Session-Id", &session)
            .field("MCP-Protocol-Version", LEGACY)
    };
    let ready = client.exchange(&post(&notification("notifications/initialized")));
    assert_eq!(ready.status(), 202, "{ready:?}");
    post
}

#[test]
fn session_is_limited_on_every_shard() {
    let mut options = options(&["tools/call rate=3/h per=session"]);
    options.engine.shards = Some(4);
    let server = TestServer::start(options);
    let mut client = server.connect_http().with_revision(LEGACY);
    let post = begin_session(&mut client);
    let statuses = (0..32).map(|id| {
        let mut client = server.connect_http().with_revision(LEGACY);
        let response = client.exchange(&post(&echo(id, "x")));
        if response.status() == 429 {
            assert_eq!(response.head.field("RateLimit-Policy"), Some("\"session\";q=3;w=3600"));
            expect_rate_limited(&response.message(), "3 in 3600 seconds (session)", 1_200);
        }
        response.status()
    });
    let statuses: Vec<u16> = statuses.collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 29, "{statuses:?}");
    drop(client);
    server.close();
}

#[test]
fn messages_for_unknown_session_are_limited_everywhere() {
    let mut options = options(&["http/refused rate=3/h"]);
    options.engine.shards = Some(4);
    let server = TestServer::start(options);
    let mut client = server.connect_http().with_revision(LEGACY);
    let opened = client.exchange(&Request::post(initialize(0, LEGACY)));
    let session = opened.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let of_session = |request: Request| {
        request.field("Mcp-Session-Id", &session).field("MCP-Protocol-Version", LEGACY)
    };
    let ended = client.exchange(&of_session(Request::new("DELETE", "/mcp")));
    assert_eq!(ended.status(), 204);
    // The shard of a connection is not always that of the session.
    let refused = (0..16).map(|id| {
        let mut client = server.connect_http().with_revision(LEGACY);
        let response = client.exchange(&of_session(Request::post(echo(id, "x"))));
        assert_eq!(response.head.field("Mcp-Session-Id"), None);
        response.status()
    });
    let refused: Vec<u16> = refused.collect();
    assert_eq!(refused.iter().filter(|status| **status == 404).count(), 3, "{refused:?}");
    assert_eq!(refused.iter().filter(|status| **status == 429).count(), 13, "{refused:?}");
    drop(client);
    server.close();
}

#[test]
fn refused_stream_and_upgrade_count_once() {
    let get = |field: &str, value: &str| {
        Request::new("GET", "/mcp").field("Accept", "text/event-stream").field(field, value)
    };
    let upgrade = Request::new("GET", "/mcp/ws")
        .field("Connection", "Upgrade")
        .field("Upgrade", "websocket")
        .field("Sec-WebSocket-Version", "1");
    for request in [get("Mcp-Session-Id", "malformed"), upgrade] {
        let server = start(&["* rate=2/h"]);
        let statuses = [(); 3].map(|()| server.connect_http().exchange(&request).status());
        assert!(statuses[..2].iter().all(|status| matches!(status, 400 | 404 | 426)));
        assert_eq!(statuses[2], 429, "{statuses:?}");
        server.close();
    }
}

#[test]
fn small_limit_is_exact_over_connections() {
    let mut options = options(&["tools/call rate=5/h"]);
    options.engine.shards = Some(4);
    let server = TestServer::start(options);
    let call = Request::modern(&modern(echo(7, "x")));
    let mut clients: Vec<HttpClient> = (0..16).map(|_| server.connect_http()).collect();
    let statuses = clients.iter_mut().map(|client| client.exchange(&call).status());
    let statuses: Vec<u16> = statuses.collect();
    assert_eq!(statuses[..5], [200; 5], "{statuses:?}");
    assert_eq!(statuses[5..], [429; 11], "{statuses:?}");
    drop(clients);
    server.close();
}

#[test]
fn initialize_over_limit_begins_no_session() {
    let server = start(&["initialize rate=1/h"]);
    let mut client = server.connect_http().with_revision(LEGACY);
    drop(begin_session(&mut client));
    let refused = client.exchange(&Request::post(initialize(1, LEGACY)));
    expect_too_many(&refused, 1);
    assert_eq!(refused.head.field("Mcp-Session-Id"), None);
    drop(client);
    server.close();
}

#[test]
fn refusal_is_readable_for_scripts_of_pages() {
    let mut options = options(&["tools/call rate=1/h"]);
    options.http.origins = vec!["http://app.test".to_owned()];
    let server = TestServer::start(options);
    let mut client = server.connect_http();
    let call = Request::modern(&modern(echo(7, "x"))).field("Origin", "http://app.test");
    assert_eq!(client.exchange(&call).status(), 200);
    let refused = client.exchange(&call);
    expect_too_many(&refused, 1);
    let exposed = refused.head.field("Access-Control-Expose-Headers").unwrap_or_default();
    assert!(exposed.contains("RateLimit, RateLimit-Policy"), "{exposed}");
    drop(client);
    server.close();
}

#[test]
fn metrics_have_refusals_and_keys() {
    let server = start(&["tools/call rate=1/h per=address"]);
    let mut client = HttpClient::connect_from(CLIENT, server.http());
    let call = Request::modern(&modern(echo(7, "x")));
    let statuses = [(); 3].map(|()| client.exchange(&call).status());
    assert_eq!(statuses, [200, 429, 429]);
    let metrics = client.exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(metrics.body).expect("UTF-8");
    for line in ["corelane_refused_total{reason=\"rate\"} 2", "corelane_rate_keys 1"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    drop(client);
    server.close();
}

#[test]
fn ping_of_modern_client_is_not_limited_method() {
    // A method that the revision does not have is refused as such, whatever the limits.
    let server = start(&["* rate=1/h"]);
    let mut client = server.connect_http();
    for _ in 0..2 {
        let ping = Request::modern(&modern(request_without_params(1, "ping")));
        client.exchange(&ping).expect_error(404, -32601, Some(json!(1)));
    }
    drop(client);
    assert_eq!(server.close().overload.refused_rate, 0);
}
