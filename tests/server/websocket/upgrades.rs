//! The WebSocket opening handshake: negotiation, and upgrade requests that get HTTP errors.

use std::net::TcpStream;

use corelane_test_support::messages::{LEGACY, echo, expect_error, modern, result_text};
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{
    Request, TestServer, WebSocketClient, http_options, on_one_shard_and_two, over_each_ring,
};

/// Upgrade requests with errors, and the status of the response.
fn invalid_upgrades() -> Vec<(Request, u16)> {
    let good = upgrade_request();
    let of = |name: &str, value: &str| good.clone().field(name, value);
    vec![
        (Request::new("GET", "/mcp/ws"), 426),
        (good.clone().without_field("Upgrade"), 426),
        (good.clone().without_field("Connection"), 426),
        (of("Upgrade", "h2c"), 426),
        (of("Upgrade", "websockets"), 426),
        (of("Connection", "keep-alive"), 426),
        (good.clone().without_field("Sec-WebSocket-Version"), 426),
        (of("Sec-WebSocket-Version", "8"), 426),
        (of("Sec-WebSocket-Version", "013"), 426),
        (good.clone().add_field("Sec-WebSocket-Version", "13"), 426),
        (good.clone().without_field("Sec-WebSocket-Key"), 400),
        (of("Sec-WebSocket-Key", "c2hvcnQ="), 400),
        (of("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZS4uLi4u"), 400),
        (of("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZ***=="), 400),
        (good.clone().add_field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), 400),
        (of("Sec-WebSocket-Protocol", "graphql-ws"), 400),
        (of("Sec-WebSocket-Protocol", "chat, superchat"), 400),
        (of("Origin", "https://evil.example"), 403),
        (of("Host", "evil.example"), 403),
        (good.clone().method("POST"), 405),
        (good.clone().method("PUT"), 405),
        (good.clone().method("HEAD"), 405),
        (good.clone().target("/mcp/ws/else"), 404),
        (good.clone().target("/mcp/w"), 404),
        (good.clone().target("/MCP/WS"), 404),
        (good.body("{}"), 400),
    ]
}

#[test]
fn invalid_upgrade_gets_error_on_open_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for (request, status) in invalid_upgrades() {
            eprintln!("{status}: {request:?}");
            let mut client = server.connect_http();
            let response = client.exchange(&request);
            assert_eq!(response.status(), status, "{response:?}");
            if status == 426 {
                // RFC 9110, section 15.5.22; RFC 6455, section 4.4.
                assert_eq!(response.head.field("Upgrade"), Some("websocket"), "{response:?}");
                assert_eq!(
                    response.head.field("Sec-WebSocket-Version"),
                    Some("13"),
                    "{response:?}"
                );
            }
            if status == 405 {
                let allowed = response.head.field("Allow").expect("405 without Allow");
                assert!(allowed.contains("GET"), "{response:?}");
            }
            if !request.is_head() {
                expect_error(&response.message(), -32600, None);
            }
            // A valid upgrade request succeeds on the same connection.
            client.expect_alive();
            let stream = client.socket().try_clone().expect("clone socket");
            let (_, mut peer) = WebSocketClient::upgrade(stream, &upgrade_request().bytes());
            peer.expect_alive();
            peer.close(1000);
        }
        let counters = server.close();
        let expected = invalid_upgrades().len() as u64;
        assert_eq!(counters.websockets.upgraded, expected, "{counters}");
        let by_handshake =
            invalid_upgrades().iter().filter(|it| matches!(it.1, 400 | 426)).count() as u64;
        assert_eq!(counters.websockets.handshakes_refused, by_handshake, "{counters}");
    });
}

#[test]
fn first_known_subprotocol_is_chosen() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        for (offered, chosen) in [
            (None, None),
            (Some("mcp.v1"), Some("mcp.v1")),
            (Some("mcp"), Some("mcp")),
            (Some("mcp, mcp.v1"), Some("mcp")),
            (Some("graphql-ws,mcp.v1 , mcp"), Some("mcp.v1")),
        ] {
            let request = upgrade_request();
            let request = match offered {
                Some(offered) => request.field("Sec-WebSocket-Protocol", offered),
                None => request,
            };
            let stream = TcpStream::connect(server.address()).expect("connect");
            let (head, mut peer) = WebSocketClient::upgrade(stream, &request.bytes());
            assert_eq!(head.field("Sec-WebSocket-Protocol"), chosen, "{head:?}");
            assert_eq!(head.field("Sec-WebSocket-Extensions"), None, "{head:?}");
            assert_eq!(result_text(&peer.exchange(&modern(echo(1, "hi")))), "hi");
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn valid_upgrade_variants_are_accepted() {
    let server = TestServer::with_test_tools(http_options());
    let good = upgrade_request();
    for request in [
        good.clone().field("Upgrade", "WebSocket"),
        good.clone().field("Upgrade", "h2c, websocket"),
        good.clone().field("Connection", "keep-alive, upgrade"),
        good.clone().field("Origin", "http://localhost:3000"),
        good.clone().target("/mcp/ws/"),
        good.clone().target("/mcp/ws?token=none"),
        good.field("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
    ] {
        let stream = TcpStream::connect(server.address()).expect("connect");
        let (head, mut peer) = WebSocketClient::upgrade(stream, &request.bytes());
        assert_eq!(head.field("Sec-WebSocket-Extensions"), None, "{head:?}");
        peer.expect_alive();
        peer.close(1000);
    }
    server.close();
}

#[test]
fn websocket_path_is_configurable() {
    let upgrade_status = |path: Option<&str>, target: &str| {
        let mut options = http_options();
        options.websocket.path = path.map(str::to_owned);
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        client.send(&upgrade_request().target(target));
        let status = client.read_head().status;
        drop(client);
        server.close();
        status
    };
    assert_eq!(upgrade_status(Some("/other"), "/other"), 101);
    assert_eq!(upgrade_status(Some("/other"), "/mcp/ws"), 404);
    assert_eq!(upgrade_status(None, "/mcp/ws"), 404);
}

#[test]
fn status_shows_the_websocket_path() {
    let mut options = http_options();
    for path in [Some("/there".to_owned()), None] {
        options.websocket.path.clone_from(&path);
        let server = TestServer::with_test_tools(options.clone());
        let status = server.connect_http().exchange(&Request::new("GET", "/status")).message();
        assert_eq!(status.get("websocket").and_then(|it| it.as_str()), path.as_deref());
        server.close();
    }
}

#[test]
fn upgrade_beyond_websocket_limit_gets_503() {
    on_one_shard_and_two(|mut options| {
        options.websocket.connections_max = 2;
        let server = TestServer::with_test_tools(options.clone());
        let peers: Vec<_> =
            (0..2).map(|_| WebSocketClient::initialize(server.address(), LEGACY)).collect();
        let mut client = server.connect_http();
        let response = client.exchange(&upgrade_request());
        assert_eq!(response.status(), 503, "{response:?}");
        assert!(response.head.field("Retry-After").is_some(), "{response:?}");
        assert!(!response.head.closes_connection(), "{response:?}");
        expect_error(&response.message(), 1001, None);
        // The connection still serves HTTP, and upgrades once the limit is raised.
        client.expect_alive();
        options.websocket.connections_max = 3;
        server.handle().reload_limits(&options);
        let mut refused = 1;
        loop {
            client.send(&upgrade_request());
            let head = client.read_head();
            if head.status == 101 {
                break;
            }
            client.read_body(head).expect_error(503, 1001, None);
            refused += 1;
        }
        drop((client, peers));
        let counters = server.close();
        assert_eq!(counters.connections.refused_limit, refused, "{counters}");
        assert_eq!(counters.websockets.upgraded, 3, "{counters}");
    });
}

#[test]
fn closed_websocket_frees_its_place() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.connections_max = 1;
        let server = TestServer::with_test_tools(options);
        for _ in 0..20 {
            let mut client = server.connect_http();
            // Refused until the server has closed the connection before.
            loop {
                client.send(&upgrade_request());
                let head = client.read_head();
                if head.status == 101 {
                    break;
                }
                client.read_body(head).expect_error(503, 1001, None);
            }
        }
        let counters = server.close();
        assert_eq!(counters.websockets.upgraded, 20, "{counters}");
    });
}

#[test]
fn upgraded_connection_frees_its_http_place() {
    over_each_ring(http_options(), |mut options| {
        options.http.connections_max = 1;
        options.websocket.connections_max = 3;
        let server = TestServer::with_test_tools(options);
        let mut peers: Vec<_> =
            (0..3).map(|_| WebSocketClient::initialize(server.address(), LEGACY)).collect();
        let mut client = server.connect_http();
        client.expect_alive();
        let response = server.connect_http().exchange(&Request::new("GET", "/status"));
        response.expect_error(503, 1001, None);
        peers.iter_mut().for_each(WebSocketClient::expect_alive);
        let metrics = client.exchange(&Request::new("GET", "/metrics")).body;
        let metrics = String::from_utf8(metrics).expect("metrics are UTF-8");
        let line = "corelane_connections_open{transport=\"websocket\"} 3\n";
        assert!(metrics.contains(line), "{metrics}");
        drop((client, peers));
        server.close();
    });
}

#[test]
fn upgrade_session_ids_are_unique_without_http_access() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let ids: Vec<String> = (0..20)
            .map(|_| {
                let stream = TcpStream::connect(server.address()).expect("connect");
                let (head, peer) = WebSocketClient::upgrade(stream, &upgrade_request().bytes());
                peer.close(1000);
                head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned()
            })
            .collect();
        for (index, id) in ids.iter().enumerate() {
            assert_eq!(id.len(), 36, "{id}");
            assert!(!ids[..index].contains(id), "{id} is repeated");
        }
        let request = Request::post(echo(1, "hi")).field("Mcp-Session-Id", &ids[0]);
        let response =
            server.connect_http().exchange(&request.field("MCP-Protocol-Version", LEGACY));
        assert_eq!(response.status(), 404, "{response:?}");
    });
}
