//! Clients on the shards of a server: handlers that call other servers.

use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;

use corelane::client::{ClientErrorKind, ClientPool, IoThread, LocalClient};
use corelane::model::Implementation;
use corelane::options::ExecutorKind;
use corelane::testing::block_on;
use corelane::{
    CallToolResult, Catalog, Client, HandlerError, NoArguments, Options, RequestContext, Server,
    Tool,
};
use corelane_test_support::{LineClient, TestServer, http_options, over_each_ring, tcp_options};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{client_of, discover_result};

/// Calls in flight at once over one connection; fewer than a server allows.
const CALLS: usize = 200;
/// More commands than the inbox of a shard holds.
const COMMANDS: usize = 2_000;

/// The arguments of the tool `proxy`.
#[derive(Deserialize, JsonSchema)]
struct Proxied {
    target: String,
    tool: String,
    arguments: Value,
}

/// Calls a tool of another server and returns its text, or the kind of the error.
async fn call(
    pool: Arc<ClientPool>,
    Proxied { target, tool, arguments }: Proxied,
    ctx: RequestContext,
) -> Result<CallToolResult, HandlerError> {
    let call = pool.call_tool(target.as_str(), &tool, &arguments);
    let result = ctx.run_until_cancelled(call.into_future()).await?;
    let result = result.map_err(|error| HandlerError::tool(format!("{:?}", error.kind())))?;
    Ok(CallToolResult::text(result.text()))
}

/// A server with the tool `proxy`, whose clients are on its shards.
fn server(options: Options) -> (Server, Arc<ClientPool>) {
    let pool = Arc::new(ClientPool::on_shards());
    let of_tool = Arc::clone(&pool);
    let proxy = Tool::new("proxy").local(move |args, ctx| call(Arc::clone(&of_tool), args, ctx));
    let blocking = Arc::clone(&pool);
    let blocking = Tool::new("blocking").blocking(move |call: Proxied, _| {
        assert!(IoThread::current().is_none());
        Ok::<_, HandlerError>(
            blocking.call_tool(call.target.as_str(), &call.tool, &call.arguments).wait()?.text(),
        )
    });
    let catalog = Catalog::builder(Implementation::new("proxy", "1.0.0"));
    let catalog = catalog.tool(proxy).tool(blocking).build().expect("valid catalog");
    (Server::builder(catalog).options(options).client_pool(&*pool), pool)
}

fn start(options: Options) -> TestServer {
    TestServer::with_server(|_| server(options).0)
}

fn connect(server: &TestServer) -> Client {
    client_of(server).connect_blocking().expect("a handshake")
}

fn tcp_target(server: &TestServer) -> String {
    format!("tcp://{}", server.tcp())
}

/// The arguments of `proxy` for a call of `echo`.
fn echo(target: &str, message: &str) -> Value {
    json!({ "target": target, "tool": "echo", "arguments": { "message": message } })
}

/// The arguments of `proxy` for a tool without arguments.
fn proxied(target: &str, tool: &str) -> Value {
    json!({ "target": target, "tool": tool, "arguments": {} })
}

/// The text of a call of `proxy`; that of an error too.
fn call_proxy(client: &Client, arguments: &Value) -> String {
    client.call_tool("proxy", arguments).wait().expect("a result").text()
}

/// Runs `test` with the options of a server, on each ring and executor.
fn over_each_engine(test: impl Fn(Options)) {
    over_each_ring(tcp_options(), &test);
    if cfg!(feature = "glommio") {
        let mut options = tcp_options();
        options.engine.executor = ExecutorKind::Glommio;
        test(options);
    }
}

#[test]
fn local_handler_calls_server_on_its_shard() {
    over_each_engine(|options| {
        let upstream = TestServer::start(tcp_options());
        let server = start(options);
        let (client, target) = (connect(&server), tcp_target(&upstream));
        for number in 0..3 {
            let number = number.to_string();
            assert_eq!(call_proxy(&client, &echo(&target, &number)), number);
        }
        let call = |_| client.call_tool("proxy", &echo(&target, "hi")).into_future();
        let calls: Vec<_> = (0..CALLS).map(call).collect();
        for call in calls {
            assert_eq!(block_on(call).unwrap().text(), "hi");
        }
        drop(client);
        server.close();
        let counters = upstream.close();
        let calls = CALLS as u64 + 3;
        assert_eq!((counters.connections.accepted, counters.requests.tools_call), (1, calls));
    });
}

#[test]
fn handler_calls_over_http_and_websocket() {
    over_each_engine(|options| {
        let upstream = TestServer::start(http_options());
        let server = start(options);
        let client = connect(&server);
        for scheme in ["http", "ws"] {
            let target = format!("{scheme}://{}", upstream.http());
            for _ in 0..3 {
                assert_eq!(call_proxy(&client, &echo(&target, scheme)), scheme);
            }
        }
    });
}

#[test]
fn handler_calls_its_own_server() {
    for shards in [1, 2] {
        over_each_engine(|mut options| {
            options.engine.shards = Some(shards);
            let server = start(options);
            let target = tcp_target(&server);
            // Each on the shard that accepts it.
            let clients = [(); 8].map(|()| connect(&server));
            for client in &clients {
                let inner = echo(&target, "unknown");
                let nested = json!({ "target": target, "tool": "proxy", "arguments": inner });
                // The server has no tool `echo`.
                assert_eq!(call_proxy(client, &nested), "Rpc { code: -32602 }");
            }
        });
    }
}

#[test]
fn sockets_of_clients_do_not_count_as_connections() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 1;
        let upstreams = [(); 8].map(|()| TestServer::start(tcp_options()));
        let server = start(options);
        let client = connect(&server);
        for upstream in &upstreams {
            assert_eq!(call_proxy(&client, &echo(&tcp_target(upstream), "hi")), "hi");
        }
    });
}

#[test]
fn peer_that_dies_fails_its_call_only() {
    over_each_engine(|options| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dying = format!("tcp://{}", listener.local_addr().unwrap());
        let peer = thread::spawn(move || {
            let mut peer = LineClient::accept(&listener);
            let discover = peer.receive();
            peer.send(discover_result(&discover));
            assert_eq!(peer.receive()["method"], "tools/call");
        });
        let upstream = TestServer::with_test_tools(tcp_options());
        let server = start(options);
        let (client, target) = (connect(&server), tcp_target(&upstream));
        let held = client.call_tool("proxy", &proxied(&target, "hold")).into_future();
        assert_eq!(upstream.next_signal(), "begun");
        assert_eq!(call_proxy(&client, &proxied(&dying, "any")), "Closed");
        peer.join().unwrap();
        upstream.open_gate();
        assert_eq!(block_on(held).unwrap().text(), "held");
        assert_eq!(call_proxy(&client, &echo(&target, "hi")), "hi");
    });
}

#[test]
fn cancelled_call_cancels_its_inner_call() {
    over_each_engine(|options| {
        let upstream = TestServer::with_test_tools(tcp_options());
        let server = start(options);
        let (client, target) = (connect(&server), tcp_target(&upstream));
        let call = client.call_tool("proxy", &proxied(&target, "until-cancelled")).into_future();
        assert_eq!(upstream.next_signal(), "begun");
        drop(call);
        assert_eq!(upstream.next_signal(), "cancelled");
        assert_eq!(call_proxy(&client, &echo(&target, "hi")), "hi");
    });
}

#[test]
fn call_in_flight_completes_during_drain() {
    over_each_engine(|options| {
        let upstream = TestServer::with_test_tools(tcp_options());
        let server = start(options);
        let (client, target) = (connect(&server), tcp_target(&upstream));
        let call = client.call_tool("proxy", &proxied(&target, "hold")).into_future();
        assert_eq!(upstream.next_signal(), "begun");
        server.drain();
        upstream.open_gate();
        assert_eq!(block_on(call).unwrap().text(), "held");
        server.join();
    });
}

#[test]
fn drain_ends_http_session_of_client() {
    over_each_ring(tcp_options(), |options| {
        let upstream = TestServer::start(http_options());
        let pool = ClientPool::on_shards().configure(|client| {
            client.era(corelane::client::EraPreference::Legacy(
                corelane::model::Revision::V2025_11_25,
            ))
        });
        let pool = Arc::new(pool);
        let of_tool = Arc::clone(&pool);
        let proxy = Tool::new("proxy");
        let proxy = proxy.local(move |args, ctx| call(Arc::clone(&of_tool), args, ctx));
        let catalog = Catalog::builder(Implementation::new("proxy", "1.0.0")).tool(proxy).build();
        let server = Server::builder(catalog.unwrap()).options(options).client_pool(&*pool);
        let server = TestServer::with_server(|_| server);
        let client = connect(&server);
        let target = format!("http://{}", upstream.http());
        assert_eq!(call_proxy(&client, &echo(&target, "hi")), "hi");
        drop(client);
        server.close();
        upstream.wait_for_status(|status| status["sessions"] == 0);
    });
}

#[test]
fn client_of_shard_works_on_other_threads() {
    over_each_engine(|options| {
        let upstream = TestServer::with_test_tools(tcp_options());
        let target = tcp_target(&upstream);
        let (client_tx, clients) = mpsc::channel();
        let pool = Arc::new(ClientPool::on_shards());
        let of_state = Arc::clone(&pool);
        let catalog = Catalog::builder(Implementation::new("state", "1.0.0")).build().unwrap();
        let server = Server::with_state(catalog, move |_| {
            client_tx.send(of_state.client(target.as_str()).unwrap()).unwrap();
        });
        let server = server.options(options).client_pool(&*pool);
        let server = TestServer::with_server(|_| server);
        let client = clients.recv().unwrap();
        let echo = json!({ "message": "hi" });
        let call = || client.call_tool("echo", &echo).into_future();
        for call in (0..COMMANDS).map(|_| call()).collect::<Vec<_>>() {
            assert_eq!(block_on(call).unwrap().text(), "hi");
        }
        assert_eq!(pool.servers(), 0, "on this thread");
        let held = client.call_tool("hold", &json!({})).into_future();
        assert_eq!(upstream.next_signal(), "begun");
        server.close();
        for error in [block_on(held).unwrap_err(), block_on(call()).unwrap_err()] {
            assert_eq!(error.kind(), ClientErrorKind::Closed);
        }
    });
}

#[test]
fn wait_on_shard_of_client_fails() {
    over_each_engine(|options| {
        let upstream = TestServer::start(tcp_options());
        let target = tcp_target(&upstream);
        let pool = Arc::new(ClientPool::on_shards());
        let of_tool = Arc::clone(&pool);
        let wait = Tool::new("wait").inline(move |_: NoArguments, _| {
            let shard = IoThread::current().expect("the shard");
            let errors = [
                of_tool.call_tool(target.as_str(), "echo", &json!({})).wait().unwrap_err(),
                Client::builder(target.as_str()).io_thread(&shard).connect_blocking().unwrap_err(),
            ];
            format!("{:?}", errors.map(|error| error.kind()))
        });
        let catalog = Catalog::builder(Implementation::new("wait", "1.0.0")).tool(wait).build();
        let server = Server::builder(catalog.unwrap()).options(options).client_pool(&*pool);
        let server = TestServer::with_server(|_| server);
        let result = connect(&server).call_tool("wait", &json!({})).wait().unwrap();
        assert_eq!(result.text(), "[InvalidInput, InvalidInput]");
    });
}

#[test]
fn blocking_handler_gets_client_of_io_thread() {
    let upstream = TestServer::start(tcp_options());
    let (server, pool) = server(tcp_options());
    let server = TestServer::with_server(|_| server);
    let call = connect(&server).call_tool("blocking", &echo(&tcp_target(&upstream), "hi"));
    assert_eq!(call.wait().unwrap().text(), "hi");
    assert_eq!(pool.servers(), 1);
}

#[test]
fn in_process_server_gets_client_of_io_thread() {
    let upstream = TestServer::start(tcp_options());
    let (server, pool) = server(Options::default());
    let client = LocalClient::new(server.connect().unwrap());
    let arguments = echo(&tcp_target(&upstream), "hi");
    assert_eq!(block_on(client.call_tool("proxy", &arguments)).unwrap().text(), "hi");
    assert_eq!(pool.servers(), 1);
}

#[test]
fn io_thread_is_current_in_its_tasks() {
    assert!(IoThread::current().is_none());
    let upstream = TestServer::start(tcp_options());
    let target = tcp_target(&upstream);
    let thread = IoThread::start().unwrap();
    let task = thread.spawn(move || async move {
        let thread = IoThread::current().expect("this thread");
        let client = Client::builder(target.as_str()).io_thread(&thread).connect().await?;
        client.call_tool("echo", &json!({ "message": "hi" })).await
    });
    assert_eq!(block_on(task.unwrap()).unwrap().unwrap().text(), "hi");
}
