//! The list of open connections, over HTTP and by the handle.

use std::net::SocketAddr;

use corelane::{ConnectionInfo, Transport};
use corelane_test_support::messages::{LEGACY, call};
use corelane_test_support::websocket::{FIN, PONG};
use corelane_test_support::{
    HttpClient, Request, TestServer, WebSocketClient, http_options, on_one_shard_and_two,
};
use serde_json::{Value, json};

/// Reads of the list before a test fails; they take several seconds.
const READS_MAX: usize = 10_000;

const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// Reads the connection of `peer` until `matches` accepts it: bytes out are counted when the kernel
/// has accepted them, shortly after the client may have read them.
fn wait_for_connection(
    server: &TestServer,
    peer: SocketAddr,
    matches: impl Fn(&ConnectionInfo) -> bool,
) -> ConnectionInfo {
    let handle = server.handle();
    let mut lists = (0..READS_MAX).map(|_| handle.connections());
    let found =
        lists.find_map(|list| list.into_iter().find(|it| it.peer == Some(peer) && matches(it)));
    found.expect("the connection is listed")
}

fn list(client: &mut HttpClient, target: &str) -> Value {
    client.exchange(&Request::new("GET", target)).message()
}

#[test]
fn list_shows_traffic_of_each_connection() {
    on_one_shard_and_two(|mut options| {
        options.tcp.address = options.http.address;
        let server = TestServer::with_test_tools(options);
        let mut line_client = server.connect_tcp();
        for _ in 0..3 {
            line_client.send(REQUEST);
            assert_eq!(line_client.receive()["id"], 1);
        }
        let peer = line_client.socket().local_addr().expect("connected");
        let bytes_out = 3 * (RESPONSE.len() as u64 + 1);
        let found = wait_for_connection(&server, peer, |it| it.traffic.bytes_out == bytes_out);
        assert_eq!(found.transport, Transport::Tcp);
        assert_eq!(found.traffic.bytes_in, 3 * (REQUEST.len() as u64 + 1));
        assert_eq!((found.traffic.messages_in, found.traffic.messages_out), (3, 3));
        assert_eq!((found.requests_pending, found.bytes_buffered), (0, 0));
        assert!(found.started.elapsed().is_ok_and(|age| age.as_secs() < 3_600), "{found:?}");

        let mut operator = server.connect_http();
        let document = list(&mut operator, "/connections");
        assert_eq!(document["next"], Value::Null);
        let rows = document["connections"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["peer"] == peer.to_string()).expect("listed");
        assert_eq!(row["transport"], "tcp");
        assert_eq!((&row["bytes_out"], &row["messages_out"]), (&bytes_out.into(), &3.into()));
        assert!(row["started"].as_str().is_some_and(|time| time.ends_with('Z')), "{row}");
        let own = rows.iter().find(|row| row["transport"] == "http").expect("listed");
        assert_eq!((&own["messages_in"], &own["messages_out"]), (&1.into(), &0.into()));
        drop((line_client, operator));
        server.close();
    });
}

#[test]
fn list_shows_pings_and_pending_requests() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = WebSocketClient::initialize(server.address(), LEGACY);
    let peer = client.clone_socket().local_addr().expect("connected");
    client.send(FIN | PONG, b"unasked");
    client.expect_alive();
    client.send_message(&call("hold", "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    let found = wait_for_connection(&server, peer, |it| it.requests_pending == 1);
    assert_eq!(found.transport, Transport::WebSocket);
    assert_eq!((found.pings.pings_in, found.pings.pongs_in), (1, 1));
    server.open_gate();
    drop(client);
    server.close();
}

#[test]
fn list_continues_at_given_position() {
    on_one_shard_and_two(|options| {
        let shards = options.engine.shards.expect("set");
        let server = TestServer::with_test_tools(options);
        let mut clients: Vec<HttpClient> = (0..24).map(|_| server.connect_http()).collect();
        clients.iter_mut().for_each(HttpClient::expect_alive);
        let all = |client: &mut HttpClient, target: &str| {
            list(client, target)["connections"].as_array().expect("a list").len()
        };
        assert_eq!(all(&mut clients[0], "/connections"), 24);
        assert_eq!(all(&mut clients[0], "/connections?after=0.0"), 24);
        let last = format!("/connections?after={}.1000", shards - 1);
        assert_eq!(all(&mut clients[0], &last), 0);
        for after in ["", "1", "x.1", "7.0", "0.-1"] {
            let request = Request::new("GET", &format!("/connections?after={after}"));
            assert_eq!(clients[0].exchange(&request).status(), 400, "{after}");
        }
        assert_eq!(server.handle().connections().len(), 24);
        drop(clients);
        let handle = server.handle();
        server.close();
        assert_eq!(handle.connections(), []);
    });
}
