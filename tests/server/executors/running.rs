//! A running server in a host program: its addresses, its end, and what stops it.

use std::pin::pin;
use std::sync::mpsc::{self, Receiver};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, Handle, NoArguments, Options, Running, Server, Tool};
use corelane_test_support::messages::{call, modern};
use corelane_test_support::{LineClient, TIMEOUT, tcp_options};
use serde_json::json;

/// Starts a server with a tool that never ends, whose start is received.
fn start(options: Options) -> (Running, Receiver<()>) {
    let (started, starts) = mpsc::channel();
    let tool = Tool::new("wait").local(move |_: NoArguments, _| {
        started.send(()).unwrap_or_default();
        std::future::pending::<()>()
    });
    let catalog = Catalog::builder(Implementation::new("host", "1")).tool(tool).build();
    let server = Server::builder(catalog.expect("the catalog is valid")).options(options);
    (server.start().expect("the server starts"), starts)
}

fn options() -> Options {
    let mut options = tcp_options();
    options.engine.drain_timeout = Duration::from_hours(1);
    options.engine.drain_delay = Duration::from_hours(1);
    options
}

/// Connects a client whose call of the tool has started.
fn connect_with_call(running: &Running, starts: &Receiver<()>) -> LineClient {
    let mut client = LineClient::connect(running.tcp_address().expect("TCP"));
    client.send(modern(call(1, "wait", json!({}))));
    starts.recv_timeout(TIMEOUT).expect("the call starts");
    client
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn server_listens_only_on_given_addresses() {
    let catalog = Catalog::builder(Implementation::new("host", "1")).build();
    let server = Server::builder(catalog.expect("the catalog is valid")).http("127.0.0.1:0");
    let running = server.start().expect("the server starts");
    assert_eq!(running.addresses().len(), 1);
    assert_ne!(running.http_address().expect("HTTP").port(), 0);
    assert_eq!(running.tcp_address(), None);
    assert!(block_on(running.shutdown(Duration::ZERO)).is_ok());
}

#[test]
fn unresolvable_address_fails_the_start() {
    let catalog = Catalog::builder(Implementation::new("host", "1")).build();
    let server = Server::builder(catalog.expect("the catalog is valid")).tcp("127.0.0.1");
    assert!(server.start().is_err());
}

#[test]
fn wait_ends_with_the_server() {
    let (mut running, _starts) = start(tcp_options());
    // A dropped future has no effect.
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(running.wait()).poll(&mut context).is_pending());
    let handle = running.handle();
    let drain = std::thread::spawn(move || Handle::drain(&handle));
    block_on(running.wait()).expect("no shard fails");
    drain.join().unwrap();
    assert!(matches!(pin!(running.wait()).poll(&mut context), Poll::Ready(Ok(_))), "again");
    running.join().expect("no shard fails");
}

#[test]
fn shutdown_cuts_requests_after_grace() {
    let (running, starts) = start(options());
    let mut client = connect_with_call(&running, &starts);
    let counters = block_on(running.shutdown(Duration::from_millis(1))).expect("no shard fails");
    assert_eq!(counters.requests.cut, 1);
    let response = client.receive();
    assert_eq!(response["error"]["data"]["started"], true, "{response}");
    client.expect_end();
}

#[test]
fn dropped_server_cuts_requests() {
    let (running, starts) = start(options());
    let mut client = connect_with_call(&running, &starts);
    drop(running);
    let response = client.receive();
    assert_eq!(response["error"]["data"]["started"], true, "{response}");
    client.expect_end();
}

#[test]
fn dropped_server_ends_a_drain() {
    let (running, starts) = start(options());
    let mut client = connect_with_call(&running, &starts);
    running.handle().drain();
    drop(running);
    assert_eq!(client.receive()["error"]["data"]["started"], true);
    client.expect_end();
}

/// The state of a shard that panics at its end.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped on purpose");
    }
}

#[test]
fn failed_shard_fails_the_server() {
    let catalog = Catalog::builder(Implementation::new("host", "1")).build();
    let mut options = tcp_options();
    options.engine.shards = Some(2);
    let catalog = catalog.expect("the catalog is valid");
    let server = Server::with_state(catalog, |shard| (shard == 0).then(|| PanicsInDrop));
    let mut running = server.options(options).start().expect("the server starts");
    running.handle().drain();
    let error = block_on(running.wait()).expect_err("a shard fails");
    assert!(error.to_string().contains("dropped on purpose"), "{error}");
    assert!(running.join().expect_err("again").to_string().contains("dropped on purpose"));
}
