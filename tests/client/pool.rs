//! Clients of many servers.

use corelane::client::{ClientErrorKind, ClientPool};
use corelane::testing::block_on;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

#[test]
fn concurrent_first_calls_make_one_handshake() {
    let server = TestServer::start(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    let pool = ClientPool::new().unwrap();
    let call = |index: usize| {
        let message = json!({ "message": index.to_string() });
        pool.call_tool(target.as_str(), "echo", &message).into_future()
    };
    let calls: Vec<_> = (0..10_000).map(call).collect();
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(block_on(call).unwrap().text(), index.to_string());
    }
    drop(pool);
    let counters = server.close();
    assert_eq!((counters.connections.accepted, counters.requests.discover), (1, 1));
    assert_eq!(counters.requests.tools_call, 10_000);
}

#[test]
fn least_used_server_loses_its_place() {
    let servers = [(); 3].map(|()| TestServer::start(tcp_options()));
    let targets = servers.each_ref().map(|server| format!("tcp://{}", server.tcp()));
    let pool = ClientPool::new().unwrap().servers_max(2);
    let call = |target: &str| {
        let call = pool.call_tool(target, "echo", &json!({ "message": "hi" }));
        assert_eq!(call.wait().unwrap().text(), "hi");
    };
    for target in [0, 1, 0, 2, 1] {
        call(&targets[target]);
    }
    assert_eq!(pool.servers(), 2);
    drop(pool);
    let accepted = servers.map(|server| server.close().connections.accepted);
    assert_eq!(accepted, [1, 2, 1]);
}

#[test]
fn invalid_target_fails_its_call() {
    let pool = ClientPool::new().unwrap();
    let error = pool.call_tool("nowhere", "echo", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    assert_eq!(pool.servers(), 0);
}
