//! Large messages, which threads in the background parse: they have the responses of small ones.

use corelane::internal::demo;
use corelane::{CallToolResult, Catalog, NoArguments, Options, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{
    BATCHED, LEGACY, call, echo, expect_error, initialize, modern, result_text,
};
use corelane_test_support::websocket::{FIN, TEXT, encode_frame, text_frame};
use corelane_test_support::{
    HttpClient, Request, TestServer, WebSocketClient, http_and_tcp_options, http_options,
    over_each_ring, tcp_options,
};

use serde_json::{Value, json};

/// The length of the argument of a large message.
const LARGE_BYTES: usize = 20_000;

/// Runs a test on two shards that parse messages from 1 KiB on in the background.
fn on_two_shards(test: impl Fn(Options)) {
    let mut options = tcp_options();
    options.http.address = http_options().http.address;
    over_each_ring(options, |mut options| {
        options.engine.shards = Some(2);
        options.limits.parse_on_thread_bytes = 1024;
        test(options);
    });
}

fn large_text() -> String {
    "\"\\é\n".repeat(LARGE_BYTES / 5)
}

/// Returns a large request that is no JSON, with its id at the end.
fn invalid_request(id: i64) -> String {
    let params = format!("[{}tru]", "[1,\"]\"],".repeat(LARGE_BYTES / 8));
    format!("{{\"method\":\"ping\",\"params\":{params},\"jsonrpc\":\"2.0\",\"id\":{id}}}")
}

#[test]
fn large_line_is_answered_before_the_next() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_initialized(LEGACY);
        let large = large_text();
        client.send(echo(1, &large));
        client.send(echo(2, "small"));
        client.send(echo(3, &large));
        for (id, text) in [(1, &*large), (2, "small"), (3, &large)] {
            let response = client.receive();
            assert_eq!((response["id"].as_i64(), result_text(&response)), (Some(id), text));
        }
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.tools_call, 3, "{counters}");
        assert!(counters.shard.messages_received >= 2, "{counters}");
    });
}

#[test]
fn large_invalid_line_gets_its_id() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_initialized(LEGACY);
        let response = client.exchange(invalid_request(7));
        expect_error(&response, -32700, Some(7.into()));
        let blank = " ".repeat(LARGE_BYTES);
        client.send(&*blank);
        assert_eq!(result_text(&client.exchange(echo(8, "next"))), "next");
        drop(client);
        server.close();
    });
}

#[test]
fn large_last_line_without_newline_is_answered() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_tcp();
        let line = modern(echo(1, &large_text())).to_string();
        client.send_bytes(line.as_bytes());
        client.shutdown_write();
        assert_eq!(result_text(&client.receive()), large_text());
        drop(client);
        server.close();
    });
}

#[test]
fn large_body_is_answered_before_pipelined_request() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let large = large_text();
        let requests = [echo(1, &large), echo(2, "small"), echo(3, &large)]
            .map(|call| Request::modern(&modern(call)));
        for request in &requests {
            client.register_request(request);
        }
        client.send_bytes(&requests.map(|request| request.bytes()).concat());
        for text in [&*large, "small", &large] {
            assert_eq!(result_text(&client.read_response().message()), text);
        }
        let response = client.exchange(&Request::post(invalid_request(7)));
        assert_eq!(response.status(), 400);
        expect_error(&response.message(), -32700, Some(7.into()));
        drop(client);
        server.close();
    });
}

#[test]
fn large_body_reaches_session_of_each_shard() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut first = HttpClient::connect(server.http()).with_revision(LEGACY);
        let begun = first.exchange(&Request::post(initialize(0, LEGACY)));
        let session = begun.head.field("mcp-session-id").expect("a session").to_owned();
        // Connections of both shards.
        for id in 1..16 {
            let mut client = HttpClient::connect(server.http()).with_revision(LEGACY);
            let request = Request::post(echo(id, &large_text())).field("Mcp-Session-Id", &session);
            assert_eq!(result_text(&client.exchange(&request).message()), large_text());
            let request = Request::post(invalid_request(id)).field("Mcp-Session-Id", &session);
            expect_error(&client.exchange(&request).message(), -32700, Some(id.into()));
        }
        drop(first);
        server.close();
    });
}

#[test]
fn large_websocket_texts_are_answered_in_order() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.http(), LEGACY);
        let large = large_text();
        let calls = [echo(1, "small"), echo(2, &large), echo(3, "small"), echo(4, &large)];
        for call in &calls {
            peer.register_request(call);
        }
        // Four texts in one message, then in one each.
        let lines = calls.each_ref().map(ToString::to_string).join("\n");
        peer.send_bytes(&encode_frame(FIN | TEXT, lines.as_bytes()));
        for call in &calls {
            peer.register_request(call);
            peer.send_bytes(&text_frame(call));
        }
        for _ in 0..2 {
            for text in ["small", &*large, "small", &large] {
                assert_eq!(result_text(&peer.read_message()), text);
            }
        }
        peer.send_bytes(&text_frame(invalid_request(7)));
        expect_error(&peer.read_message(), -32700, Some(7.into()));
        peer.close(1000);
        server.close();
    });
}

/// Bytes of a message that a thread parses for longer than it takes to begin a drain.
const HUGE_BYTES: usize = 12 << 20;

/// Waits until a server has received so many bytes.
fn wait_for_bytes(server: &TestServer, bytes: u64) {
    let bytes_in = || server.handle().counters().traffic.bytes_in;
    for _ in 0..POLLS_MAX {
        if bytes_in() >= bytes {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} bytes are received", bytes_in());
}

const POLLS_MAX: usize = 1_000_000;

#[test]
fn drain_answers_message_on_parse_thread() {
    over_each_ring(http_and_tcp_options(), |mut options| {
        options.engine.shards = Some(1);
        let server = TestServer::with_test_tools(options);
        let call = modern(echo(1, &"[0]".repeat(HUGE_BYTES / 3)));
        let (line, body) = (call.to_string() + "\n", Request::modern(&call));
        let frame = text_frame(&call);
        let (mut tcp, mut http) = (server.connect_tcp(), server.connect_http());
        let mut websocket = WebSocketClient::connect(server.http());
        http.register_request(&body);
        websocket.register_request(&call);
        let body = body.bytes();
        let received = line.len() + body.len() + frame.len();
        tcp.send_bytes(line.as_bytes());
        http.send_bytes(&body);
        websocket.send_bytes(&frame);
        wait_for_bytes(&server, received as u64);
        server.drain();
        for response in [tcp.receive(), http.read_response().message(), websocket.read_message()] {
            assert_eq!(result_text(&response).len(), HUGE_BYTES);
        }
        tcp.expect_end();
        http.expect_eof_or_reset();
        drop((tcp, http, websocket));
        let counters = server.join();
        assert_eq!(counters.requests.tools_call, 3, "{counters}");
    });
}

#[test]
fn large_results_of_batch_are_whole() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_initialized(BATCHED);
        let large = large_text();
        let unknown = call(2, "no_such_tool", json!({ "message": large }));
        let calls = [echo(1, &large), unknown, echo(3, "small"), echo(4, &large)];
        for _ in 0..3 {
            let response = client.exchange(json!(calls));
            let responses = response.as_array().expect("a batch");
            assert_eq!(responses.len(), 4, "{response}");
            for (index, text) in [(0, &*large), (2, "small"), (3, &large)] {
                assert_eq!(result_text(&responses[index]), text);
            }
            expect_error(&responses[1], -32602, Some(2.into()));
        }
        drop(client);
        server.close();
    });
}

#[test]
fn large_result_before_connection_close_is_whole() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let large = large_text();
        let request = Request::modern(&modern(echo(1, &large)));
        for request in [request.clone().field("Connection", "close"), request] {
            let mut client = server.connect_http();
            client.register_request(&request);
            client.send_bytes(&request.bytes());
            // The end of the input does not cancel it.
            client.shutdown_write();
            assert_eq!(result_text(&client.read_response().message()), large);
        }
        server.close();
    });
}

#[test]
fn closed_connection_drops_large_result() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let large = large_text();
        for count in 1..20 {
            let mut client = server.connect_initialized(LEGACY);
            (0..count).for_each(|id| client.send(echo(id, &large)));
            drop(client);
            let mut peer = WebSocketClient::initialize(server.http(), LEGACY);
            peer.send_bytes(&text_frame(echo(1, &large)));
            drop(peer);
        }
        let mut client = server.connect_initialized(LEGACY);
        assert_eq!(result_text(&client.exchange(echo(1, &large))), large);
        drop(client);
        server.close();
    });
}

/// The demo tools, and `lines`, whose result is large.
fn catalog_of_lines(lines: &str) -> Catalog {
    let lines = lines.to_owned();
    let lines = Tool::new("lines")
        .blocking(move |_: NoArguments, _| CallToolResult::text(lines.clone()).with_text("last"));
    let builder = demo::add_services(Catalog::builder(Implementation::new("large", "1")));
    builder.tools([lines]).build().expect("valid catalog")
}

#[test]
fn large_result_of_blocking_handler_is_whole() {
    on_two_shards(|options| {
        let lines = "\"\\é\n".repeat(100_000);
        let server = TestServer::with_catalog(options, catalog_of_lines(&lines));
        let call = |id: i64| call(id, "lines", json!({}));
        let expect = |response: &Value| {
            let content = &response["result"]["content"];
            assert_eq!((result_text(response), &content[1]["text"]), (&*lines, &json!("last")));
        };
        for revision in [LEGACY, BATCHED] {
            let mut client = server.connect_initialized(revision);
            expect(&client.exchange(call(1)));
        }
        let mut client = server.connect_http();
        expect(&client.exchange(&Request::modern(&modern(call(2)))).message());
        let mut peer = WebSocketClient::initialize(server.http(), LEGACY);
        peer.register_request(&call(3));
        peer.send_bytes(&text_frame(call(3)));
        expect(&peer.read_message());
        peer.close(1000);
        drop(client);
        server.close();
    });
}
