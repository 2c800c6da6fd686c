//! The client of the parity dialect: requests, streams, cancellation, and what a lost connection
//! leaves of them.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::client::{
    ClientErrorKind, ParityCapabilities, ParityChunk, ParityClient, ParityClientBuilder,
    ParityErrorCode, ParityEvent, ParityFeature, ParityRetryOptions, Program, ToolInfo,
};
use corelane::internal::demo;
use corelane::model::Implementation;
use corelane::testing::block_on;
use corelane::{CallToolResult, Catalog, NoArguments, RequestContext, Server, Tool};
use corelane_test_support::server::Gate;
use corelane_test_support::{
    LineClient, TIMEOUT, TestServer, http_and_tcp_options, http_options, tcp_options,
};
use serde_json::{Value, json};

use super::parity_relay::{Relay, unix_relay};
use super::reconnects::fast;
use super::websocket_peer::{accept, read_head};

use crate::CORELANE;

fn client_of(server: &TestServer) -> ParityClientBuilder {
    ParityClient::builder(format!("tcp://{}", server.tcp()).as_str())
}

/// Has a request report the numbers of its progress.
fn progress() -> (impl Fn(ParityChunk) + Send + Sync + 'static, Receiver<f64>) {
    let (tx, rx) = mpsc::channel();
    let on_chunk = move |chunk| {
        if let ParityChunk::Progress(progress) = chunk {
            // Fails once the test has ended.
            tx.send(progress.progress).unwrap_or(());
        }
    };
    (on_chunk, rx)
}

/// Reports the events of a client in a few words.
fn with_events(builder: ParityClientBuilder) -> (ParityClientBuilder, Receiver<String>) {
    let (tx, rx) = mpsc::channel();
    let builder = builder.on_event(move |event| {
        let text = match event {
            ParityEvent::Ready(server) => format!("ready {:?}", server.resumed),
            ParityEvent::Restarted { reason } => format!("restarted {reason}"),
            ParityEvent::Retried { error } => format!("retried {error}"),
            ParityEvent::Disconnected { .. } => "disconnected".to_owned(),
            other => format!("{other:?}"),
        };
        // Fails once the test has ended.
        tx.send(text).unwrap_or(());
    });
    (builder, rx)
}

fn next(events: &Receiver<String>) -> String {
    events.recv_timeout(TIMEOUT).expect("an event")
}

/// Calls a tool and streams another, and lists the tools.
fn check_calls(client: &ParityClient) {
    let echo = client.call_tool("echo", &json!({ "message": "hi" })).wait().expect("a result");
    assert_eq!(echo.text(), "hi");
    let (on_chunk, numbers) = progress();
    let slow = client.call_tool("slow", &json!({ "steps": 3, "step_ms": 0 })).on_chunk(on_chunk);
    assert_eq!(slow.wait().expect("a result").text(), "took 3 steps of 0 ms");
    assert_eq!(numbers.iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    let tools: Vec<ToolInfo> = block_on(client.list()).expect("a list");
    assert!(tools.iter().any(|tool| tool.name == "echo"));
    let error = client.request::<Value>("tools/none", &json!({})).wait();
    let error = error.expect_err("an unknown method");
    let unknown = ClientErrorKind::Parity { code: ParityErrorCode::FeatureNotAvailable };
    assert_eq!((error.kind(), error.is_retryable()), (unknown, false), "{error}");
    block_on(client.ping()).expect("an answer");
}

#[test]
fn parity_calls_run_over_each_transport() {
    let server = TestServer::start(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    check_calls(&client);
    let info = block_on(client.server()).unwrap();
    assert_eq!((info.name.as_deref(), info.resumed), (Some("test"), None));
    assert!(info.capabilities.has(ParityFeature::Resume));
    drop(client);
    server.close();
    let server = TestServer::start(http_options());
    for scheme in ["ws", "http"] {
        let target = format!("{scheme}://{}", server.http());
        let client = ParityClient::builder(target.as_str()).connect_blocking().unwrap();
        check_calls(&client);
        block_on(client.close());
    }
    server.close();
    let program = Program::new(CORELANE).arg("stdio").arg("--log").arg("error");
    let client = ParityClient::builder(program).connect_blocking().unwrap();
    check_calls(&client);
    block_on(client.close());
}

#[test]
fn parity_calls_run_over_unix_socket() {
    let server = TestServer::start(tcp_options());
    let directory = tempfile::tempdir().unwrap();
    let target = unix_relay(&directory.path().join("server.sock"), server.tcp());
    let client = ParityClient::builder(target.as_str()).connect_blocking().unwrap();
    check_calls(&client);
    block_on(client.close());
    server.close();
}

#[test]
fn refused_slash_of_websocket_finds_usual_path() {
    let server = TestServer::start(http_options());
    let target = format!("ws://{}/", server.http());
    let client = ParityClient::builder(target.as_str()).connect_blocking().unwrap();
    check_calls(&client);
    block_on(client.close());
    assert_eq!(server.close().connections.accepted, 2);
}

#[test]
fn refused_slash_of_websocket_is_tried_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("ws://{}/", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || {
        for path in ["/", "/mcp/ws"] {
            let mut socket = accept(&listener);
            let head = read_head(&mut socket);
            assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{head}");
            socket.write_all(b"HTTP/1.1 404 A\r\nContent-Length: 4\r\n\r\nnope").unwrap();
        }
        listener
    });
    let error = ParityClient::builder(target.as_str()).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Http { status: 404 }, "{error}");
    let listener = peer.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().map(drop).map_err(|it| it.kind()), Err(ErrorKind::WouldBlock));
}

#[test]
fn parity_cancellation_stops_the_handler() {
    let server = TestServer::with_test_tools(tcp_options());
    check_cancellation(&server, &format!("tcp://{}", server.tcp()));
    server.close();
    let server = TestServer::with_test_tools(http_options());
    check_cancellation(&server, &format!("http://{}", server.http()));
    server.close();
}

fn check_cancellation(server: &TestServer, target: &str) {
    let client = ParityClient::builder(target).connect_blocking().expect("a client");
    // By dropping the future, of a stream and of a request.
    let (on_chunk, numbers) = progress();
    let call = client.call_tool("until-cancelled", &json!({})).on_chunk(on_chunk).into_future();
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(numbers.recv_timeout(TIMEOUT), Ok(1.0));
    drop(call);
    assert_eq!(server.next_signal(), "cancelled");
    let call = client.call_tool("until-cancelled", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    drop(call);
    assert_eq!(server.next_signal(), "cancelled");
    // From elsewhere.
    let call = client.call_tool("until-cancelled", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    call.canceller().cancel();
    assert_eq!(block_on(call).expect_err("it ends").kind(), ClientErrorKind::Cancelled);
    assert_eq!(server.next_signal(), "cancelled");
    block_on(client.ping()).expect("an answer");
    block_on(client.close());
}

#[test]
fn parity_request_times_out() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let call = client.call_tool("until-cancelled", &json!({})).timeout(Duration::from_millis(50));
    assert_eq!(call.wait().unwrap_err().kind(), ClientErrorKind::Timeout);
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(server.next_signal(), "cancelled");
    drop(client);
    server.close();
}

#[test]
fn idempotency_key_is_used_once() {
    let server = TestServer::start(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let call = || client.call_tool("echo", &json!({ "message": "m" })).idempotency_key("order-1");
    assert_eq!(call().wait().unwrap().text(), "m");
    let error = call().wait().unwrap_err();
    let expected = ClientErrorKind::Parity { code: ParityErrorCode::AlreadyProcessed };
    assert_eq!(error.kind(), expected, "{error}");
    assert!(error.data().is_some_and(|details| details.contains("resultHash")), "{error:?}");
    let empty = client.call_tool("echo", &json!({})).idempotency_key("").wait().unwrap_err();
    assert_eq!(empty.kind(), ClientErrorKind::InvalidInput);
    drop(client);
    server.close();
}

#[test]
fn refined_capabilities_are_kept() {
    let server = TestServer::start(tcp_options());
    let refined = ParityCapabilities::of([ParityFeature::Tools]);
    let client = client_of(&server).refine(refined).connect_blocking().unwrap();
    let capabilities = block_on(client.server()).unwrap().capabilities;
    assert!(capabilities.has(ParityFeature::Tools) && !capabilities.has(ParityFeature::Streaming));
    let echo = || client.call_tool("echo", &json!({ "message": "m" }));
    assert_eq!(echo().wait().unwrap().text(), "m");
    let error = echo().on_chunk(|_| {}).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
    drop(client);
    server.close();
}

#[test]
fn stream_loses_and_doubles_nothing() {
    let server = TestServer::start(tcp_options());
    let relay = Relay::start(server.tcp(), &[700, 2_000, 1_200, 3_000, 5_000]);
    check_stream(&relay.target("tcp"));
    server.close();
    let server = TestServer::start(http_options());
    let relay = Relay::start(server.http(), &[1_000, 2_000, 1_200, 3_000, 5_000]);
    check_stream(&relay.target("ws"));
    server.close();
}

/// Sends twenty times progress, waits for the gate, and sends twenty times more.
fn halves(gate: &Gate) -> Catalog {
    let gate = gate.clone();
    let tool = Tool::new("halves").local(move |_: NoArguments, ctx: RequestContext| {
        let gate = gate.clone();
        async move {
            (1..=20).for_each(|step| ctx.progress(f64::from(step), None, None));
            gate.wait(&ctx).await?;
            (21..=40).for_each(|step| ctx.progress(f64::from(step), None, None));
            Ok(CallToolResult::text("both"))
        }
    });
    Catalog::builder(Implementation::new("test", "1")).tool(tool).build().expect("valid")
}

#[test]
fn broken_event_stream_loses_and_doubles_nothing() {
    let server = TestServer::with_gate(http_options(), halves);
    let relay = Relay::start(server.http(), &[]);
    let builder = ParityClient::builder(relay.target("http").as_str()).reconnect(fast());
    let (builder, events) = with_events(builder);
    let client = builder.connect_blocking().unwrap();
    let (on_chunk, numbers) = progress();
    let call = client.call_tool("halves", &json!({})).on_chunk(on_chunk).into_future();
    let mut received: Vec<f64> = numbers.iter().take(3).collect();
    for _ in 0..3 {
        relay.break_connections(server.http());
        while next(&events) != "ready Some(true)" {}
    }
    server.open_gate();
    assert_eq!(block_on(call).unwrap().text(), "both");
    received.extend(numbers.iter());
    assert_eq!(received, (1..=40).map(f64::from).collect::<Vec<_>>());
    block_on(client.close());
    server.close();
}

fn check_stream(target: &str) {
    let (builder, events) = with_events(ParityClient::builder(target).reconnect(fast()));
    let client = builder.connect_blocking().expect("a client");
    let (on_chunk, numbers) = progress();
    let slow = client.call_tool("slow", &json!({ "steps": 200, "step_ms": 0 })).on_chunk(on_chunk);
    assert_eq!(slow.wait().expect("a result").text(), "took 200 steps of 0 ms");
    let expected: Vec<f64> = (1..=200).map(f64::from).collect();
    assert_eq!(numbers.iter().collect::<Vec<_>>(), expected);
    block_on(client.close());
    let events: Vec<String> = events.iter().collect();
    assert_eq!(events[0], "ready None");
    assert!(events.contains(&"ready Some(true)".to_owned()), "{events:?}");
    assert!(!events.iter().any(|event| event.starts_with("restarted")), "{events:?}");
}

#[test]
fn lost_connection_keeps_streams_and_idempotent_requests() {
    let server = TestServer::with_test_tools(tcp_options());
    check_loss(&server, server.tcp(), "tcp");
    server.close();
    let server = TestServer::with_test_tools(http_options());
    check_loss(&server, server.http(), "http");
    server.close();
    let server = TestServer::with_test_tools(http_options());
    check_loss(&server, server.http(), "ws");
    server.close();
}

fn check_loss(server: &TestServer, address: SocketAddr, scheme: &str) {
    let relay = Relay::start(address, &[]);
    let target = relay.target(scheme);
    let builder = ParityClient::builder(target.as_str()).reconnect(fast());
    let (builder, events) = with_events(builder);
    let client = builder.connect_blocking().expect("a client");
    assert_eq!(next(&events), "ready None");
    let (on_chunk, numbers) = progress();
    let stream = client.call_tool("hold", &json!({})).on_chunk(on_chunk).into_future();
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(numbers.recv_timeout(TIMEOUT), Ok(1.0));
    let plain = client.call_tool("hold", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    relay.break_connections(address);
    assert_eq!(block_on(plain).expect_err("it may have run").kind(), ClientErrorKind::Closed);
    assert_eq!(next(&events), "disconnected");
    assert_eq!(next(&events), "ready Some(true)");
    server.open_gate();
    assert_eq!(block_on(stream).expect("a result").text(), "held");
    assert!(numbers.try_recv().is_err());
    block_on(client.close());
}

#[test]
fn ended_session_over_http_is_begun_again() {
    let first = TestServer::with_test_tools(http_options());
    let second = TestServer::with_test_tools(http_options());
    let relay = Relay::start(first.http(), &[]);
    let target = relay.target("http");
    let builder = ParityClient::builder(target.as_str()).reconnect(fast());
    let (builder, events) = with_events(builder);
    let client = builder.connect_blocking().unwrap();
    relay.break_connections(second.http());
    // The second server does not know the session, and has not run the call.
    let echo = client.call_tool("echo", &json!({ "message": "m" })).wait().unwrap();
    assert_eq!(echo.text(), "m");
    let events: Vec<String> = (0..4).map(|_| next(&events)).collect();
    let expected = ["ready None", "disconnected", "ready Some(false)", "restarted unknown_server"];
    assert_eq!(events, expected);
    block_on(client.close());
    first.close();
    second.close();
}

/// Knows the token `right`.
struct OneToken;

impl TokenVerifier for OneToken {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        (token == "right").then(|| Principal::new("ada")).ok_or(TokenError::Unknown)
    }
}

#[test]
fn parity_token_is_sent_and_refused() {
    let options = http_and_tcp_options();
    let catalog = demo::catalog(Implementation::new("test", "1")).unwrap();
    let server = TestServer::with_server(|_| {
        Server::builder(catalog).options(options).token_verifier(OneToken)
    });
    let targets = [
        format!("tcp://{}", server.tcp()),
        format!("http://{}", server.http()),
        format!("ws://{}", server.http()),
    ];
    for target in &targets {
        let builder = || ParityClient::builder(target.as_str());
        let client = builder().auth_token("right").connect_blocking().unwrap();
        let echo = client.call_tool("echo", &json!({ "message": "m" })).wait().unwrap();
        assert_eq!(echo.text(), "m");
        let replaced = client.set_auth_token("right");
        assert_eq!(replaced.is_err(), target.starts_with("http"), "{target}");
        block_on(client.ping()).unwrap();
        block_on(client.close());
        let error = builder().auth_token("wrong").connect_blocking().unwrap_err();
        let is_expected = match error.kind() {
            ClientErrorKind::Unauthorized { challenge } => {
                target.starts_with("ws") && challenge.is_some_and(|it| it.starts_with("Bearer"))
            }
            kind => {
                !target.starts_with("ws")
                    && kind == ClientErrorKind::Parity { code: ParityErrorCode::Unauthorized }
            }
        };
        assert!(is_expected, "{target}: {error:?}");
    }
    server.close();
}

#[test]
fn restarted_server_advises_to_restart() {
    let first = TestServer::with_test_tools(tcp_options());
    let second = TestServer::with_test_tools(tcp_options());
    let relay = Relay::start(first.tcp(), &[]);
    let builder = ParityClient::builder(relay.target("tcp").as_str()).reconnect(fast());
    let (builder, events) = with_events(builder);
    let client = builder.connect_blocking().unwrap();
    let (on_chunk, numbers) = progress();
    let stream = client.call_tool("hold", &json!({})).on_chunk(on_chunk).into_future();
    assert_eq!(first.next_signal(), "begun");
    assert_eq!(numbers.recv_timeout(TIMEOUT), Ok(1.0));
    relay.break_connections(second.tcp());
    let error = block_on(stream).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Restart, "{error}");
    assert!(error.to_string().contains("unknown_server"), "{error}");
    let events: Vec<String> = (0..4).map(|_| next(&events)).collect();
    let expected = ["ready None", "disconnected", "ready Some(false)", "restarted unknown_server"];
    assert_eq!(events, expected);
    // The new session serves.
    block_on(client.ping()).unwrap();
    first.open_gate();
    drop(client);
    first.close();
    second.close();
}

/// Receives one message of the dialect.
fn receive(peer: &mut LineClient) -> Value {
    let line = peer.receive_line().expect("a message");
    serde_json::from_str(&line).expect("JSON")
}

/// A peer that acknowledges the handshake and then is scripted.
fn scripted_peer(
    script: impl FnOnce(&mut LineClient) + Send + 'static,
) -> (ParityClientBuilder, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("tcp://{}", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || {
        let mut peer = LineClient::accept(&listener);
        let handshake = receive(&mut peer);
        assert_eq!(handshake["type"], "handshake");
        peer.send(json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "a",
            "capabilities": { "tools": true, "maxConcurrent": 1, "maxPayloadBytes": 1_000 },
        }));
        script(&mut peer);
    });
    (ParityClient::builder(target.as_str()), peer)
}

fn error_response(request: &Value, code: &str, retryable: bool) -> Value {
    let error = json!({
        "code": code, "message": "a test", "retryable": retryable, "retryAfter": 0.001,
    });
    json!({ "type": "response", "id": request["id"], "error": error })
}

fn text_response(request: &Value, text: &str) -> Value {
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    json!({ "type": "response", "id": request["id"], "result": result })
}

#[test]
fn rate_limited_request_is_repeated() {
    let (builder, peer) = scripted_peer(|peer| {
        for _ in 0..2 {
            let request = receive(peer);
            peer.send(error_response(&request, "error.rate_limited", true));
        }
        let request = receive(peer);
        peer.send(text_response(&request, "at last"));
        // The tool may have run.
        let request = receive(peer);
        peer.send(error_response(&request, "error.internal", true));
        let request = receive(peer);
        peer.send(error_response(&request, "error.rate_limited", false));
        peer.expect_end();
    });
    let mut retry = ParityRetryOptions::default();
    retry.delay_min = Duration::from_millis(1);
    let (builder, events) = with_events(builder.retry(retry));
    let client = builder.connect_blocking().unwrap();
    let call = || client.call_tool("a", &json!({})).wait();
    assert_eq!(call().unwrap().text(), "at last");
    assert_eq!(next(&events), "ready None");
    for _ in 0..2 {
        let expected = "retried the server answered with error.rate_limited: a test";
        assert_eq!(next(&events), expected);
    }
    let error = call().unwrap_err();
    let internal = ClientErrorKind::Parity { code: ParityErrorCode::Internal };
    assert_eq!((error.kind(), error.is_retryable()), (internal, true));
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1)));
    assert!(!call().unwrap_err().is_retryable());
    drop(client);
    peer.join().unwrap();
}

#[test]
fn limits_of_the_server_are_kept() {
    let (builder, peer) = scripted_peer(|peer| {
        let first = receive(peer);
        peer.send(text_response(&first, "first"));
        // The second one has waited.
        let second = receive(peer);
        assert_eq!(second["params"]["arguments"]["number"], 2);
        peer.send(text_response(&second, "second"));
        peer.expect_end();
    });
    let client = builder.connect_blocking().unwrap();
    let calls = [1, 2].map(|number| client.call_tool("a", &json!({ "number": number })));
    let [first, second] = calls.map(IntoFuture::into_future);
    assert_eq!(block_on(first).unwrap().text(), "first");
    assert_eq!(block_on(second).unwrap().text(), "second");
    let long = client.call_tool("a", &json!({ "text": "x".repeat(1_000) })).wait().unwrap_err();
    assert_eq!(long.kind(), ClientErrorKind::InvalidInput, "{long}");
    let prompt = client.request::<Value>("prompts/list", &json!({})).wait().unwrap_err();
    assert_eq!(prompt.kind(), ClientErrorKind::Unsupported, "{prompt}");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn refused_handshake_is_a_typed_error() {
    let mut options = tcp_options();
    options.parity.mode = corelane::options::ParityMode::Off;
    let server = TestServer::start(options);
    let error = client_of(&server).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Handshake, "{error}");
    assert!(error.to_string().contains("does not answer in the parity dialect"), "{error}");
    server.close();
    let mut options = http_options();
    options.parity.mode = corelane::options::ParityMode::Off;
    let server = TestServer::start(options);
    let target = format!("http://{}", server.http());
    let error = ParityClient::builder(target.as_str()).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Handshake, "{error}");
    server.close();
}
