//! The server of a service: from its start to its end.

use std::sync::mpsc;

use corelane::model::Implementation;
use corelane::tower::McpService;
use corelane::{Catalog, NoArguments, Server, Tool};
use corelane_test_support::messages::{call, listen, modern, result_text};
use corelane_test_support::{Request, TIMEOUT, TestServer, http_options, tcp_options};
use serde_json::json;

use crate::tower::mounted::Mounted;

/// Sends `()` when it is dropped.
struct Ended(mpsc::Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        // The test may have ended.
        self.0.send(()).ok();
    }
}

/// A server with a tokio tool, and the end of the server.
fn server() -> (Server, mpsc::Receiver<()>) {
    let tool = Tool::new("runtime").tokio(|_: NoArguments, _| async {
        tokio::task::yield_now().await;
        tokio::runtime::Handle::try_current().map_or("none", |_| "host's")
    });
    let catalog = Catalog::builder(Implementation::new("mounted", "1")).tool(tool).build();
    let (sender, ended) = mpsc::channel();
    // Ignores the address of TCP.
    let server = Server::builder(catalog.expect("a valid catalog")).options(tcp_options());
    (server.on_start(move |_| Ended(sender)), ended)
}

#[test]
fn server_ends_with_last_clone() {
    let (server, ended) = server();
    let mut service = None;
    let axum = Mounted::start(|| {
        let started = McpService::new(server).expect("the server starts");
        service.insert(started).clone()
    });
    let mut client = axum.connect();
    let request = Request::modern(&modern(call(1, "runtime", json!({}))));
    assert_eq!(result_text(&client.exchange(&request).message()), "host's");
    drop(service);
    assert_eq!(result_text(&client.exchange(&request).message()), "host's");
    drop(client);
    assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Empty));
    axum.shut_down();
    ended.recv_timeout(TIMEOUT).expect("the server ends");
}

#[test]
fn drain_ends_streams_for_graceful_shutdown() {
    let (server, ended) = server();
    let mut handle = None;
    let axum = Mounted::start(|| {
        let service = McpService::new(server).expect("the server starts");
        handle = Some(service.handle());
        service
    });
    let mut stream = axum.connect();
    let request = listen(1, json!({"toolsListChanged": true}));
    stream.request_stream(&Request::modern(&request));
    stream.read_message_without_id();
    handle.expect("it is set").drain();
    stream.read_stream_to_end();
    axum.shut_down();
    ended.recv_timeout(TIMEOUT).expect("the server ends");
}

#[test]
fn ended_server_gets_503() {
    let server = TestServer::with_test_tools(http_options());
    let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
    let mut client = axum.connect();
    let request = Request::modern(&modern(call(1, "echo", json!({"message": "hi"}))));
    assert_eq!(result_text(&client.exchange(&request).message()), "hi");
    server.close();
    let response = client.exchange(&request);
    response.expect_error(503, 1001, None);
    assert_eq!(response.head.field("Retry-After"), Some("1"), "{response:?}");
}
