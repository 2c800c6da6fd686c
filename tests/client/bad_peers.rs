//! Servers that misbehave: a call fails with a known reason, and no other is affected.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientErrorKind, EraPreference};
use corelane::testing::block_on;
use corelane_test_support::LineClient;
use serde_json::{Value, json};

use super::{discover_result, response};

/// Serves one connection by `serve`; returns a client of it.
fn peer(serve: impl FnOnce(LineClient) + Send + 'static) -> (ClientBuilder, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("tcp://{}", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || serve(LineClient::accept(&listener)));
    (Client::builder(target.as_str()), peer)
}

/// Serves one connection after its handshake.
fn ready_peer(serve: impl FnOnce(LineClient) + Send + 'static) -> (Client, JoinHandle<()>) {
    let (builder, peer) = peer(|mut peer| {
        let discover = peer.receive();
        peer.send(discover_result(&discover));
        serve(peer);
    });
    (builder.connect_blocking().expect("a handshake"), peer)
}

fn text_result(request: &Value, text: &str) -> Value {
    response(request, &json!({ "content": [{ "type": "text", "text": text }] }))
}

#[test]
fn response_over_the_limit_fails_its_call() {
    let (client, peer) = ready_peer(|mut peer| {
        let [first, second] = [(); 2].map(|()| peer.receive());
        let id = &first["id"];
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":\"");
        peer.send_bytes(start.as_bytes());
        for _ in 0..20 {
            peer.send_bytes(&vec![b'a'; 1 << 20]);
        }
        peer.send_bytes(b"\"}}\n");
        peer.send(text_result(&second, "second"));
        peer.receive_rest();
    });
    let first = client.call_tool("a", &json!({})).timeout(Duration::from_hours(1));
    let mut first = first.into_future();
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let second = client.call_tool("b", &json!({})).wait().unwrap();
    let error = block_on(first).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    assert!(error.to_string().contains("longer than 16777216 bytes"), "{error}");
    assert_eq!(second.text(), "second");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn messages_that_no_call_expects_are_ignored() {
    let (client, peer) = ready_peer(|mut peer| {
        let call = peer.receive();
        peer.send(json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
        peer.send(json!({ "jsonrpc": "2.0", "id": "2", "result": {} }));
        peer.send(json!({ "jsonrpc": "2.0", "id": null, "error": { "code": 1, "message": "" } }));
        peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/unknown" }));
        peer.send_line(b"listening on port 8080");
        peer.send_line(b"\xff\xfe");
        peer.send_line(b"");
        peer.send(text_result(&call, "first"));
        peer.send(text_result(&call, "second"));
        let next = peer.receive();
        peer.send(text_result(&next, "next"));
        peer.receive_rest();
    });
    let call = || client.call_tool("a", &json!({})).wait().unwrap().text();
    assert_eq!(call(), "first");
    assert_eq!(call(), "next");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn oversized_message_is_skipped() {
    let (client, peer) = ready_peer(|mut peer| {
        let call = peer.receive();
        peer.send_line(&vec![b'x'; 20 << 20]);
        peer.send(text_result(&call, "after"));
        peer.receive_rest();
    });
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "after");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn server_that_stops_reading_bounds_its_calls() {
    // More than the calls that may wait and those that may be in flight.
    const CALLS: usize = 20_000;
    let (stop, is_stopped) = mpsc::channel::<()>();
    let (client, stuck) = ready_peer(move |peer| {
        is_stopped.recv().unwrap();
        drop(peer);
    });
    let arguments = json!({ "text": "x".repeat(1 << 10) });
    let mut calls: Vec<_> =
        (0..CALLS).map(|_| client.call_tool("a", &arguments).into_future()).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut errors = Vec::new();
    calls.retain_mut(|call| match Pin::new(call).poll(&mut context) {
        Poll::Ready(outcome) => {
            errors.push(outcome.unwrap_err().kind());
            false
        }
        Poll::Pending => true,
    });
    let (other, peer) = ready_peer(|mut peer| {
        let call = peer.receive();
        peer.send(text_result(&call, "unaffected"));
        peer.receive_rest();
    });
    assert_eq!(other.call_tool("a", &json!({})).wait().unwrap().text(), "unaffected");
    block_on(client.close());
    stop.send(()).unwrap();
    errors.extend(calls.into_iter().map(|call| block_on(call).unwrap_err().kind()));
    let (busy, closed): (Vec<_>, Vec<_>) =
        errors.into_iter().partition(|kind| *kind == ClientErrorKind::Busy);
    assert!(busy.len() > CALLS / 10, "{} calls were refused", busy.len());
    assert!(closed.iter().all(|kind| *kind == ClientErrorKind::Closed), "{closed:?}");
    drop(other);
    stuck.join().unwrap();
    peer.join().unwrap();
}

#[test]
fn references_in_schemas_are_not_fetched() {
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    foreign.set_nonblocking(true).unwrap();
    let schema = format!("http://{}/schema.json", foreign.local_addr().unwrap());
    let (client, peer) = ready_peer(move |mut peer| {
        let list = peer.receive();
        let schema = json!({ "type": "object", "$ref": schema });
        let tool = json!({ "name": "a", "inputSchema": schema, "outputSchema": schema });
        peer.send(response(&list, &json!({ "resultType": "complete", "tools": [tool] })));
        let call = peer.receive();
        let content = json!([{ "type": "text", "text": "called" }]);
        let result = json!({ "content": content, "structuredContent": { "n": 1 } });
        peer.send(response(&call, &result));
        peer.receive_rest();
    });
    assert_eq!(block_on(client.list_tools()).unwrap().len(), 1);
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "called");
    drop(client);
    peer.join().unwrap();
    let accepted = foreign.accept().expect_err("no connection");
    assert_eq!(accepted.kind(), ErrorKind::WouldBlock);
}

#[test]
fn result_of_another_shape_fails_its_call() {
    let (client, peer) = ready_peer(|mut peer| {
        for result in [json!(7), json!({ "content": "text" }), json!({ "resultType": "odd" })] {
            let call = peer.receive();
            peer.send(response(&call, &result));
        }
        peer.receive_rest();
    });
    for _ in 0..3 {
        let error = client.call_tool("a", &json!({})).wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    }
    drop(client);
    peer.join().unwrap();
}

#[test]
fn server_that_closes_at_discover_is_initialized() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        let mut first = LineClient::accept(&listener);
        assert_eq!(first.receive()["method"], "server/discover");
        drop(first);
        let mut second = LineClient::accept(&listener);
        let initialize = second.receive();
        assert_eq!(initialize["method"], "initialize");
        second.send(response(
            &initialize,
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "old", "version": "1" },
            }),
        ));
        assert_eq!(second.receive()["method"], "notifications/initialized");
        let call = second.receive();
        second.send(text_result(&call, "served"));
        second.receive_rest();
    });
    let client = Client::builder(target.as_str()).connect_lazy().unwrap();
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "served");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn unanswered_handshake_times_out() {
    let (builder, peer) = peer(|mut peer| {
        assert_eq!(peer.receive_rest().len(), 1);
    });
    let builder = builder.era(EraPreference::Modern);
    let error = builder.request_timeout(Duration::from_millis(20)).connect_blocking();
    assert_eq!(error.unwrap_err().kind(), ClientErrorKind::Handshake);
    peer.join().unwrap();
}

#[test]
fn lists_end_after_a_bounded_number_of_pages() {
    let (client, peer) = ready_peer(|mut peer| {
        for page in 0..1_000 {
            let list = peer.receive();
            let cursor = page.to_string();
            peer.send(response(&list, &json!({ "tools": [], "nextCursor": cursor })));
        }
        peer.expect_end();
    });
    let error = block_on(client.list_tools()).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    drop(client);
    peer.join().unwrap();
}
