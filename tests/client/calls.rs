//! Calls to the server of this library, over TCP and HTTP.

use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::{CallToolResult, ClientErrorKind, EraPreference, IoThread, Request};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{LineClient, TestServer, tcp_options};
use serde_json::json;

use super::{ERAS, client_of, discover_result, expect_revision, over_each_transport, response};

/// The newest revision of each era.
const BOTH_ERAS: [EraPreference; 2] =
    [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)];

#[test]
fn call_tool_in_every_era() {
    let server = TestServer::start(tcp_options());
    for era in ERAS {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
        assert!(!result.is_error);
        assert_eq!(result.text(), "hi", "{era:?}");
        expect_revision(&client, era);
        block_on(client.close());
    }
}

#[test]
fn lists_and_reads_return_typed_results() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let tools = block_on(client.list_tools()).unwrap();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.input_schema["type"], "object");
    let resources = block_on(client.list_resources()).unwrap();
    let read = client.read_resource(&resources[0].uri).wait().unwrap();
    assert_eq!(read.contents[0].uri, resources[0].uri);
    assert!(!block_on(client.list_resource_templates()).unwrap().is_empty());
    assert!(!block_on(client.list_prompts()).unwrap().is_empty());
}

#[test]
fn failures_have_their_kinds() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let failure = |call: Request<CallToolResult>| call.wait().unwrap_err().kind();
    let unknown = failure(client.call_tool("no such tool", &json!({})));
    assert_eq!(unknown, ClientErrorKind::Rpc { code: -32602 });
    let invalid = failure(client.call_tool("echo", &json!([1])));
    assert_eq!(invalid, ClientErrorKind::InvalidInput);
    let slow = client.call_tool("until-cancelled", &json!({}));
    assert_eq!(failure(slow.timeout(Duration::from_millis(20))), ClientErrorKind::Timeout);
    assert_eq!((server.next_signal(), server.next_signal()), ("begun", "cancelled"));
    let result = client.call_tool("echo", &json!({ "message": "still" })).wait().unwrap();
    assert_eq!(result.text(), "still");
}

#[test]
fn first_calls_share_one_handshake() {
    let server = TestServer::start(tcp_options());
    let client = client_of(&server).connect_lazy().unwrap();
    let calls: Vec<_> = (0..1_000)
        .map(|index| {
            let message = json!({ "message": index.to_string() });
            (index, client.call_tool("echo", &message).into_future())
        })
        .collect();
    for (index, call) in calls {
        assert_eq!(block_on(call).unwrap().text(), index.to_string());
    }
    drop(client);
    assert_eq!(server.close().connections.accepted, 1);
}

#[test]
fn threads_share_a_client() {
    over_each_transport(|_, client| {
        for era in BOTH_ERAS {
            let thread = IoThread::start().unwrap();
            let client = client().era(era).io_thread(&thread).connect_blocking().unwrap();
            thread::scope(|scope| {
                for name in ["a", "b", "c", "d"] {
                    let client = client.clone();
                    scope.spawn(move || {
                        for index in 0..200 {
                            let text = format!("{name}{index}");
                            let call = client.call_tool("echo", &json!({ "message": text }));
                            assert_eq!(call.wait().unwrap().text(), text);
                        }
                    });
                }
            });
        }
    });
}

#[test]
fn progress_is_reported_before_the_result() {
    over_each_transport(|_, client| {
        for era in BOTH_ERAS {
            let client = client().era(era).connect_blocking().unwrap();
            let (progress_tx, progress_rx) = mpsc::channel();
            let call = client.call_tool("test_tool_with_progress", &json!({}));
            call.on_progress(move |progress| progress_tx.send(progress.progress).unwrap())
                .wait()
                .unwrap();
            let progress: Vec<f64> = progress_rx.try_iter().collect();
            assert_eq!(progress, [0.0, 50.0, 100.0], "{era:?}");
        }
    });
}

#[test]
fn dropped_call_is_cancelled_on_the_server() {
    over_each_transport(|server, client| {
        for era in BOTH_ERAS {
            let client = client().era(era).connect_blocking().unwrap();
            let call = client.call_tool("until-cancelled", &json!({})).into_future();
            assert_eq!(server.next_signal(), "begun");
            drop(call);
            assert_eq!(server.next_signal(), "cancelled");
        }
    });
}

#[test]
fn refused_connection_fails_every_call() {
    let address = {
        let server = TestServer::start(tcp_options());
        server.tcp()
    };
    let client = Client::builder(format!("tcp://{address}").as_str()).connect_lazy().unwrap();
    for _ in 0..2 {
        let error = client.call_tool("echo", &json!({})).wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    }
}

#[test]
fn client_connects_again_after_a_loss() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        for index in 0..2 {
            let mut peer = LineClient::accept(&listener);
            // The revision is known from the first connection.
            let discover = peer.receive();
            assert_eq!(discover["method"], "server/discover");
            peer.send(discover_result(&discover));
            let call = peer.receive();
            if index > 0 {
                let content = json!([{ "type": "text", "text": "again" }]);
                peer.send(response(&call, &json!({ "content": content })));
                peer.receive_rest();
            }
        }
    });
    let client = Client::builder(target.as_str()).connect_blocking().unwrap();
    let call = || client.call_tool("echo", &json!({})).wait();
    assert_eq!(call().unwrap_err().kind(), ClientErrorKind::Closed);
    assert_eq!(call().unwrap().text(), "again");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn panicking_callback_ends_no_call() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let call = client.call_tool("test_tool_with_progress", &json!({}));
    let result = call.on_progress(|_| panic!("a test")).wait().unwrap();
    assert!(!result.is_error, "{result:?}");
}

#[test]
fn bearer_is_a_member_of_messages_on_lines() {
    let sent = |era| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("tcp://{}", listener.local_addr().unwrap());
        let peer = thread::spawn(move || LineClient::accept(&listener).receive());
        let client = Client::builder(target.as_str()).era(era).bearer("secret");
        assert!(!format!("{client:?}").contains("secret"));
        client.connect_blocking().unwrap_err();
        peer.join().unwrap()
    };
    let discover = sent(EraPreference::Modern);
    assert_eq!(discover["params"]["_meta"]["auth_token"], "secret");
    let initialize = sent(EraPreference::Legacy(Revision::V2025_11_25));
    assert_eq!(initialize["params"]["auth_token"], "secret");
    for (target, token) in [("tcp://a:1", "a b"), ("tcp://a:1", ""), ("stdio:a", "secret")] {
        let error = Client::builder(target).bearer(token).connect_blocking().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    }
}
