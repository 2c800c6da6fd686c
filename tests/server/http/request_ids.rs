//! `X-Request-ID`: taken over or made, returned in each response, and read by handlers.

use std::collections::BTreeSet;

use corelane::model::Implementation;
use corelane::{Catalog, NoArguments, Tool};
use corelane_test_support::messages::{LEGACY, call, echo, modern, request, result_text};
use corelane_test_support::{
    HttpClient, Request, ResponseHead, TestServer, http_options, on_one_shard_and_two,
};
use serde_json::json;

use crate::http::http_session::HttpSession;

const FIELD: &str = "X-Request-ID";

/// One tool of each kind that returns the id of its request.
fn catalog() -> Catalog {
    let inline = Tool::new("inline")
        .inline(|_: NoArguments, ctx| ctx.request().request_id().unwrap_or("none").to_owned());
    let local = Tool::new("local").local(|_: NoArguments, ctx| async move {
        ctx.sleep(std::time::Duration::from_millis(1)).await?;
        Ok(ctx.request().request_id().unwrap_or("none").to_owned())
    });
    let blocking = Tool::new("blocking")
        .blocking(|_: NoArguments, ctx| ctx.request().request_id().unwrap_or("none").to_owned());
    let builder = Catalog::builder(Implementation::new("ids", "1"));
    builder.tools([inline, local, blocking]).build().expect("the catalog is valid")
}

const TOOLS: [&str; 3] = ["inline", "local", "blocking"];

fn id_of(head: &ResponseHead) -> String {
    head.field(FIELD).unwrap_or_else(|| panic!("no {FIELD}: {head:?}")).to_owned()
}

/// Asserts that `id` is a UUID of version 4 in lower case (RFC 9562, section 5.4).
#[track_caller]
fn expect_uuid(id: &str) {
    let groups: Vec<&str> = id.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    assert!(groups.concat().bytes().all(is_digit), "{id}");
    assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{id}");
}

fn ping() -> Request {
    Request::modern(&modern(echo(1, "hi")))
}

#[test]
fn sent_request_id_reaches_handler_and_response() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let session = HttpSession::initialize(server.address(), LEGACY);
        let longest = "~".repeat(128);
        let sent = ["a", "7f3c-\"!\"", "a,b", "00000000-0000-1000-8000-000000000000", &longest];
        for (tool, id) in TOOLS.into_iter().flat_map(|tool| sent.map(|id| (tool, id))) {
            let message = call(7, tool, json!({}));
            let modern = Request::modern(&modern(message.clone()));
            for (mut client, request) in
                [(session.connect(), session.post(&message)), (server.connect_http(), modern)]
            {
                let response = client.exchange(&request.field(FIELD, id));
                assert_eq!(id_of(&response.head), id);
                assert_eq!(result_text(&response.message()), id, "{tool}");
            }
        }
        server.close();
    });
}

#[test]
fn missing_request_id_becomes_uuid() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut seen = BTreeSet::new();
        for tool in TOOLS.into_iter().cycle().take(60) {
            let message = call(7, tool, json!({}));
            let modern = Request::modern(&modern(message.clone()));
            for (mut client, request) in
                [(session.connect(), session.post(&message)), (server.connect_http(), modern)]
            {
                let response = client.exchange(&request);
                let id = id_of(&response.head);
                expect_uuid(&id);
                assert_eq!(result_text(&response.message()), id, "{tool}");
                assert!(seen.insert(id), "an id is made twice");
            }
        }
        server.close();
    });
}

#[test]
fn unusable_request_id_becomes_uuid() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let too_long = "x".repeat(129);
    for id in ["", "a b", "a\tb", "ä", "a\u{200b}", "a, b", &too_long] {
        let response = client.exchange(&ping().field(FIELD, id));
        assert_eq!(response.status(), 200, "{id:?}");
        expect_uuid(&id_of(&response.head));
    }
    let twice = ping().field(FIELD, "a").add_field("x-request-id", "b");
    for request in [twice.clone(), twice.add_field(FIELD, "a")] {
        expect_uuid(&id_of(&client.exchange(&request).head));
    }
    client.send_bytes(&ping().field(FIELD, "a\u{1}b").bytes());
    expect_uuid(&id_of(&client.read_head()));
    drop(client);
    server.close();
}

#[test]
fn equal_request_ids_are_one() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let repeated = ping().field(FIELD, "one").add_field("x-request-id", "one");
    for request in [repeated, ping().field(FIELD, "one, one"), ping().field(FIELD, "  one \t")] {
        assert_eq!(id_of(&client.exchange(&request).head), "one", "{request:?}");
    }
    drop(client);
    server.close();
}

#[test]
fn every_kind_of_response_has_request_id() {
    let server = TestServer::with_test_tools(http_options());
    let refused = [
        ping().field("Content-Type", "text/plain"),
        ping().field("Accept", "text/html"),
        ping().field("Mcp-Name", "other"),
        ping().field("Host", "evil.example"),
        ping().field("Origin", "http://evil.example"),
        ping().body("{"),
        ping().method("PUT"),
        ping().target("/nowhere"),
        ping().http_1_0(),
        ping().field("Expect", "never"),
        ping().add_field("Content-Length", "x"),
        ping().add_field("Transfer-Encoding", "gzip"),
        Request::modern(&modern(request(1, "no/such", json!({})))),
        Request::modern(&modern(call(1, "no such tool", json!({})))),
        Request::post(echo(1, "without a session")),
        Request::new("DELETE", "/mcp").field("Mcp-Session-Id", "unknown"),
        Request::new("OPTIONS", "/mcp"),
        Request::new("GET", "/healthz"),
        Request::new("GET", "/metrics"),
        Request::new("HEAD", "/"),
    ];
    for request in refused {
        let mut client = HttpClient::connect(server.http());
        client.send_bytes(&request.clone().field(FIELD, "mine").bytes());
        assert_eq!(id_of(&client.read_head()), "mine", "{request:?}");
        let mut client = HttpClient::connect(server.http());
        client.send_bytes(&request.bytes());
        expect_uuid(&id_of(&client.read_head()));
    }
    server.close();
}

#[test]
fn stream_and_handshake_have_request_id() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let listen = json!({ "notifications": { "toolsListChanged": true } });
        let listen = Request::modern(&modern(request("l", "subscriptions/listen", listen)));
        for request in [session.get(), listen] {
            for sent in [None, Some("mine")] {
                let mut client = server.connect_http();
                let request = match sent {
                    Some(id) => request.clone().field(FIELD, id),
                    None => request.clone(),
                };
                let id = id_of(&client.request_stream(&request));
                match sent {
                    Some(sent) => assert_eq!(id, sent),
                    None => expect_uuid(&id),
                }
            }
        }
        server.close();
    });
}

#[test]
fn pages_may_read_request_id() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let response = client.exchange(&ping().field("Origin", "http://localhost:6274"));
    let exposed = response.head.field("Access-Control-Expose-Headers").unwrap_or_default();
    assert!(exposed.split(", ").any(|name| name == FIELD), "{response:?}");
    drop(client);
    server.close();
}
