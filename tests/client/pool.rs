//! Clients of many servers.

use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::client::{
    ClientErrorKind, ClientPool, ConnectionEvent, EraPreference, ReconnectMode, ReconnectOptions,
};
use corelane::testing::block_on;
use corelane_test_support::tls::serve;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use crate::proxies::relay;

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

#[test]
fn idle_connection_is_closed_and_opened_again() {
    let server = TestServer::start(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    let (closed_tx, closed) = mpsc::channel();
    let pool = ClientPool::new().unwrap().configure(move |builder| {
        let closed = closed_tx.clone();
        let mut reconnect = ReconnectOptions::default();
        reconnect.mode = ReconnectMode::OnDemand;
        reconnect.idle_timeout = Some(Duration::from_millis(50));
        builder.reconnect(reconnect).on_connection_event(move |event| {
            if let ConnectionEvent::Disconnected { retry_in, .. } = event {
                closed.send(retry_in).ok();
            }
        })
    });
    for _ in 0..3 {
        let call = pool.call_tool(target.as_str(), "echo", &json!({ "message": "hi" }));
        assert_eq!(call.wait().unwrap().text(), "hi");
        assert_eq!(closed.recv().unwrap(), None);
    }
    assert!(block_on(pool.server(target.as_str())).is_ok());
    drop(pool);
    assert_eq!(server.close().connections.accepted, 4);
}

#[test]
fn call_in_flight_keeps_idle_connection_open() {
    let server = TestServer::with_test_tools(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    let pool = ClientPool::new().unwrap().configure(|builder| {
        let mut reconnect = ReconnectOptions::default();
        reconnect.mode = ReconnectMode::OnDemand;
        reconnect.idle_timeout = Some(Duration::from_millis(20));
        builder.reconnect(reconnect)
    });
    let held = pool.call_tool(target.as_str(), "hold", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    // Longer than the connection may be idle.
    let slow = pool.call_tool(target.as_str(), "slow", &json!({ "ms": 60 }));
    slow.wait().unwrap();
    server.open_gate();
    block_on(held).unwrap();
    drop(pool);
    assert_eq!(server.close().connections.accepted, 1);
}

#[test]
fn waiting_calls_survive_failed_handshakes() {
    // Closes its first two connections, and serves the third.
    let server = TestServer::start(tcp_options());
    let behind = server.tcp();
    let mut left = 2;
    let address = serve(move |stream| {
        if left == 0 {
            let server = TcpStream::connect(behind).expect("it listens");
            thread::spawn(move || relay(stream, server));
        } else {
            left -= 1;
        }
    });
    let target = format!("tcp://{address}");
    let with_retries = |retry_first| {
        ClientPool::new().unwrap().configure(move |builder| {
            let mut reconnect = ReconnectOptions::default();
            reconnect.mode = ReconnectMode::OnDemand;
            reconnect.retry_first = retry_first;
            builder.reconnect(reconnect).era(EraPreference::Modern)
        })
    };
    let call = |pool: &ClientPool, index: usize| {
        let message = json!({ "message": index.to_string() });
        pool.call_tool(target.as_str(), "echo", &message).into_future()
    };
    let failing = with_retries(false);
    let calls: Vec<_> = (0..10).map(|index| call(&failing, index)).collect();
    for call in calls {
        let kind = block_on(call).unwrap_err().kind();
        assert!(matches!(kind, ClientErrorKind::Closed | ClientErrorKind::Handshake), "{kind:?}");
    }
    let retrying = with_retries(true);
    let calls: Vec<_> = (0..100).map(|index| call(&retrying, index)).collect();
    assert!(block_on(retrying.server(target.as_str())).is_ok());
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(block_on(call).unwrap().text(), index.to_string());
    }
}
