//! Connections that are lost: what happens to calls, and when the client connects again.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::{
    ClientBuilder, ClientErrorKind, ConnectionEvent, EraPreference, ReconnectMode, ReconnectOptions,
};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{LineClient, TIMEOUT, TestServer, http_options, tcp_options};
use serde_json::{Value, json};

use super::websocket_peer::{WebSocketPeer, serve};
use super::{client_of, discover_result, response, websocket};

/// Reports the connection events of a client in a few words.
fn with_events(builder: ClientBuilder) -> (ClientBuilder, Receiver<String>) {
    let (event_tx, event_rx) = mpsc::channel();
    let builder = builder.on_connection_event(move |event| {
        let text = match event {
            ConnectionEvent::Connected => "connected".to_owned(),
            ConnectionEvent::Disconnected { reason, retry_in } => {
                format!("disconnected, retry {}: {reason}", retry_in.is_some())
            }
            ConnectionEvent::ConnectFailed { reason, retry_in } => {
                format!("failed, retry {}: {reason}", retry_in.is_some())
            }
            other => format!("{other:?}"),
        };
        // Fails once the test has ended.
        event_tx.send(text).unwrap_or(());
    });
    (builder, event_rx)
}

fn expect_event(events: &Receiver<String>, expected: &str) {
    let event = events.recv_timeout(TIMEOUT).expect("an event");
    assert!(event.starts_with(expected), "{event}, not {expected}");
}

/// Options whose delays are a millisecond at most.
pub(crate) fn fast() -> ReconnectOptions {
    let mut options = ReconnectOptions::default();
    options.delay_min = Duration::from_millis(1);
    options.delay_max = Duration::from_millis(1);
    options
}

/// As [`fast`], and only when a call needs a connection.
pub(crate) fn on_demand() -> ReconnectOptions {
    let mut options = fast();
    options.mode = ReconnectMode::OnDemand;
    options
}

/// A peer on lines, and a client of it.
pub(crate) fn line_peer(
    serve: impl FnOnce(&TcpListener) + Send + 'static,
) -> (ClientBuilder, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("tcp://{}", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || serve(&listener));
    (Client::builder(target.as_str()), peer)
}

/// Accepts a connection and answers `server/discover`.
fn accept_ready(listener: &TcpListener) -> LineClient {
    let mut peer = LineClient::accept(listener);
    let discover = peer.receive();
    assert_eq!(discover["method"], "server/discover");
    peer.send(discover_result(&discover));
    peer
}

fn text_result(request: &Value, text: &str) -> Value {
    response(request, &json!({ "content": [{ "type": "text", "text": text }] }))
}

#[test]
fn lost_connection_is_opened_again_without_a_call() {
    let (builder, peer) = line_peer(|listener| {
        drop(accept_ready(listener));
        let mut peer = accept_ready(listener);
        peer.receive_rest();
    });
    let (builder, events) = with_events(builder.reconnect(fast()));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected, retry true");
    expect_event(&events, "connected");
    block_on(client.close());
    expect_event(&events, "disconnected, retry false: the client was closed");
    peer.join().unwrap();
}

#[test]
fn connection_on_demand_waits_for_a_call() {
    let (builder, peer) = line_peer(|listener| {
        drop(accept_ready(listener));
        let mut peer = accept_ready(listener);
        let call = peer.receive();
        peer.send(text_result(&call, "again"));
        peer.receive_rest();
    });
    let (builder, events) = with_events(builder.reconnect(on_demand()));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected, retry false");
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "again");
    expect_event(&events, "connected");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn calls_wait_until_the_server_is_back() {
    let (gone_tx, gone_rx) = mpsc::channel();
    let (back_tx, back_rx) = mpsc::channel();
    let (builder, peer) = line_peer(move |listener| {
        drop(accept_ready(listener));
        gone_tx.send(()).unwrap();
        // Handshakes that end before their response.
        for _ in 0..3 {
            assert_eq!(LineClient::accept(listener).receive()["method"], "server/discover");
        }
        back_rx.recv().unwrap();
        let mut peer = accept_ready(listener);
        for index in 0..10 {
            let call = peer.receive();
            assert_eq!(call["params"]["arguments"]["index"], index);
            peer.send(text_result(&call, "back"));
        }
        peer.receive_rest();
    });
    let (builder, events) = with_events(builder.reconnect(fast()));
    let client = builder.connect_blocking().unwrap();
    gone_rx.recv().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected");
    let call = |index: usize| client.call_tool("a", &json!({ "index": index })).into_future();
    let calls: Vec<_> = (0..10).map(call).collect();
    for _ in 0..3 {
        expect_event(&events, "failed, retry true");
    }
    back_tx.send(()).unwrap();
    for call in calls {
        assert_eq!(block_on(call).unwrap().text(), "back");
    }
    drop(client);
    peer.join().unwrap();
}

#[test]
fn sent_call_fails_and_idempotent_one_is_repeated() {
    for resends in [false, true] {
        let (builder, peer) = line_peer(move |listener| {
            let mut peer = accept_ready(listener);
            let mut methods = [peer.receive(), peer.receive()];
            methods.sort_by_key(|request| request["method"].to_string());
            assert_eq!(methods[0]["method"], "tools/call");
            assert_eq!(methods[1]["method"], "tools/list");
            drop(peer);
            let mut peer = accept_ready(listener);
            if resends {
                let list = peer.receive();
                assert_eq!(list["method"], "tools/list");
                peer.send(response(&list, &json!({ "tools": [] })));
            }
            peer.receive_rest();
        });
        let mut options = fast();
        options.resend_idempotent = resends;
        let (builder, events) = with_events(builder.reconnect(options));
        let client = builder.connect_blocking().unwrap();
        let list = client.request::<Value>("tools/list", &json!({})).into_future();
        let call = client.call_tool("a", &json!({})).into_future();
        let error = block_on(call).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
        match block_on(list) {
            Ok(list) => assert!(resends, "{list}"),
            Err(error) => assert!(!resends && error.kind() == ClientErrorKind::Closed, "{error}"),
        }
        expect_event(&events, "connected");
        expect_event(&events, "disconnected");
        expect_event(&events, "connected");
        drop(client);
        peer.join().unwrap();
    }
}

#[test]
fn attempts_max_fails_the_calls_that_wait() {
    let (gone_tx, gone_rx) = mpsc::channel();
    let (builder, peer) = line_peer(move |listener| {
        drop(accept_ready(listener));
        gone_rx.recv().unwrap();
    });
    let mut options = on_demand();
    options.attempts_max = Some(3);
    let (builder, events) = with_events(builder.reconnect(options));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected");
    // Nothing listens any more.
    gone_tx.send(()).unwrap();
    peer.join().unwrap();
    let error = client.call_tool("a", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    let failures = (0..3).map(|_| events.recv_timeout(TIMEOUT).expect("an event"));
    assert!(failures.into_iter().all(|event| event.starts_with("failed")));
    assert!(events.try_recv().is_err());
}

#[test]
fn call_without_connection_fails_at_its_timeout() {
    let (gone_tx, gone_rx) = mpsc::channel();
    let (builder, peer) = line_peer(move |listener| {
        drop(accept_ready(listener));
        gone_rx.recv().unwrap();
    });
    let (builder, events) = with_events(builder.reconnect(on_demand()));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected");
    gone_tx.send(()).unwrap();
    peer.join().unwrap();
    let call = client.call_tool("a", &json!({})).timeout(Duration::from_millis(50));
    let error = call.wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    assert!(error.to_string().contains("no connection within 50ms"), "{error}");
    let error = block_on(client.server()).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
}

#[test]
fn server_errors_at_initialize_are_retried() {
    for code in [-32603, -32012] {
        let (builder, peer) = line_peer(move |listener| {
            let initialize = |peer: &mut LineClient| {
                let request = peer.receive();
                assert_eq!(request["method"], "initialize");
                request
            };
            let accept = |peer: &mut LineClient| {
                let request = initialize(peer);
                let result = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "a", "version": "1" },
                });
                peer.send(response(&request, &result));
                assert_eq!(peer.receive()["method"], "notifications/initialized");
            };
            accept(&mut LineClient::accept(listener));
            let mut refusing = LineClient::accept(listener);
            let id = initialize(&mut refusing)["id"].clone();
            let error = json!({ "code": code, "message": "shutting down" });
            refusing.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            drop(refusing);
            let mut peer = LineClient::accept(listener);
            accept(&mut peer);
            let call = peer.receive();
            peer.send(text_result(&call, "back"));
            peer.receive_rest();
        });
        let era = EraPreference::Legacy(Revision::V2025_11_25);
        let (builder, events) = with_events(builder.era(era).reconnect(fast()));
        let client = builder.connect_blocking().unwrap();
        expect_event(&events, "connected");
        expect_event(&events, "disconnected, retry true");
        expect_event(&events, "failed, retry true");
        expect_event(&events, "connected");
        assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "back");
        drop(client);
        peer.join().unwrap();
    }
}

#[test]
fn websocket_close_is_followed_by_a_connection() {
    for code in [1000, 1001, 1012, 1013] {
        let (builder, peer) = serve(move |listener| {
            WebSocketPeer::accept(listener).handshake().close(code, "restart");
            let mut peer = WebSocketPeer::accept(listener).handshake();
            let call = peer.receive();
            peer.send(&text_result(&call, "again"));
            assert_eq!(peer.expect_close(), Some(1000));
        });
        let (builder, events) = with_events(builder.reconnect(fast()));
        let client = builder.connect_blocking().unwrap();
        expect_event(&events, "connected");
        let reason = format!("the server closed the connection with close code {code}: restart");
        expect_event(&events, &format!("disconnected, retry true: {reason}"));
        expect_event(&events, "connected");
        assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "again");
        block_on(client.close());
        peer.join().unwrap();
    }
}

#[test]
fn unanswered_ping_is_followed_by_a_connection() {
    let (builder, peer) = serve(|listener| {
        let silent = WebSocketPeer::accept(listener).handshake();
        let peer = WebSocketPeer::accept(listener).handshake();
        assert_eq!(peer.expect_close(), Some(1000));
        drop(silent);
    });
    let mut options = fast();
    options.ping_interval = Some(Duration::from_millis(250));
    let (builder, events) = with_events(builder.reconnect(options));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    let reason = "the server did not answer a ping within 250ms";
    expect_event(&events, &format!("disconnected, retry true: {reason}"));
    expect_event(&events, "connected");
    block_on(client.close());
    peer.join().unwrap();
}

#[test]
fn refused_upgrade_ends_the_attempts() {
    let (builder, peer) = serve(|listener| {
        WebSocketPeer::accept(listener).handshake().close(1001, "");
        let mut socket = super::websocket_peer::accept(listener);
        super::websocket_peer::read_head(&mut socket);
        socket.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let (builder, events) = with_events(builder.reconnect(fast()));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected, retry true");
    expect_event(&events, "failed, retry false: the server answered with HTTP status 401");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn shutdown_of_our_server_is_reported() {
    for (server, is_websocket) in
        [(TestServer::start(http_options()), true), (TestServer::start(tcp_options()), false)]
    {
        let builder = if is_websocket { websocket::client_of(&server) } else { client_of(&server) };
        let (builder, events) = with_events(builder.reconnect(on_demand()));
        let client = builder.connect_blocking().unwrap();
        expect_event(&events, "connected");
        server.close();
        let event = events.recv_timeout(TIMEOUT).expect("an event");
        assert!(event.starts_with("disconnected"), "{event}");
        assert_eq!(event.contains("close code 1001"), is_websocket, "{event}");
        drop(client);
    }
}

#[test]
fn unix_socket_is_connected_to_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let peer = thread::spawn(move || {
        for answers in [1, 2] {
            let (socket, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
            let mut answer = |result: &dyn Fn(&Value) -> Value| {
                let request = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                writeln!(&socket, "{}", result(&request)).unwrap();
            };
            answer(&discover_result);
            if answers == 2 {
                answer(&|call| text_result(call, "again"));
                assert!(lines.next().is_none());
            }
        }
    });
    let target = format!("unix:{}", path.display());
    let (builder, events) = with_events(Client::builder(target.as_str()).reconnect(fast()));
    let client = builder.connect_blocking().unwrap();
    expect_event(&events, "connected");
    expect_event(&events, "disconnected, retry true");
    expect_event(&events, "connected");
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "again");
    drop(client);
    peer.join().unwrap();
}
