//! The opening handshake: what is agreed on, and what is refused as every request of HTTP is.

use std::net::TcpStream;

use crate::messages::{LEGACY, echo, expect_error, modern, text};
use crate::peer::{Peer, handshake};
use crate::request::Request;
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

/// What no handshake is, and the status that it gets.
fn refused() -> Vec<(Request, u16)> {
    let good = handshake();
    let of = |name: &str, value: &str| good.clone().field(name, value);
    vec![
        (Request::new("GET", "/mcp/ws"), 426),
        (good.clone().without("Upgrade"), 426),
        (good.clone().without("Connection"), 426),
        (of("Upgrade", "h2c"), 426),
        (of("Upgrade", "websockets"), 426),
        (of("Connection", "keep-alive"), 426),
        (good.clone().without("Sec-WebSocket-Version"), 426),
        (of("Sec-WebSocket-Version", "8"), 426),
        (of("Sec-WebSocket-Version", "013"), 426),
        (good.clone().another("Sec-WebSocket-Version", "13"), 426),
        (good.clone().without("Sec-WebSocket-Key"), 400),
        (of("Sec-WebSocket-Key", "c2hvcnQ="), 400),
        (of("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZS4uLi4u"), 400),
        (of("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZ***=="), 400),
        (good.clone().another("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), 400),
        (of("Sec-WebSocket-Protocol", "graphql-ws"), 400),
        (of("Sec-WebSocket-Protocol", "chat, superchat"), 400),
        (of("Origin", "https://evil.example"), 403),
        (of("Host", "evil.example"), 403),
        (good.clone().verb("POST"), 405),
        (good.clone().verb("PUT"), 405),
        (good.clone().verb("HEAD"), 405),
        (good.clone().target("/mcp/ws/else"), 404),
        (good.clone().target("/mcp/w"), 404),
        (good.clone().target("/MCP/WS"), 404),
        (good.body("{}"), 400),
    ]
}

#[test]
fn what_is_no_handshake_is_refused_and_the_connection_kept() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for (request, status) in refused() {
            eprintln!("{status}: {request:?}");
            let mut client = stage.connect();
            let answer = client.ask(&request);
            assert_eq!(answer.status(), status, "{answer:?}");
            if status == 426 {
                // RFC 9110, section 15.5.22; RFC 6455, section 4.4.
                assert_eq!(answer.head.field("Upgrade"), Some("websocket"), "{answer:?}");
                assert_eq!(answer.head.field("Sec-WebSocket-Version"), Some("13"), "{answer:?}");
            }
            if status == 405 {
                let allowed = answer.head.field("Allow").expect("the verbs of the path");
                assert!(allowed.contains("GET"), "{answer:?}");
            }
            if !request.is_head() {
                expect_error(&answer.message(), -32600, None);
            }
            // Whoever asks again in the right way is let in over the same connection.
            client.expect_alive();
            let stream = client.socket().try_clone().expect("a socket");
            let (_, mut peer) = Peer::upgrade(stream, &handshake().bytes());
            peer.expect_alive();
            peer.close(1000);
        }
        let counters = stage.close();
        let expected = refused().len() as u64;
        assert_eq!(counters.websockets.upgraded, expected, "{counters}");
        let by_handshake = refused().iter().filter(|it| matches!(it.1, 400 | 426)).count() as u64;
        assert_eq!(counters.websockets.refused, by_handshake, "{counters}");
    });
}

#[test]
fn the_first_subprotocol_that_is_known_is_chosen_and_none_where_none_is_offered() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        for (offered, chosen) in [
            (None, None),
            (Some("mcp.v1"), Some("mcp.v1")),
            (Some("mcp"), Some("mcp")),
            (Some("mcp, mcp.v1"), Some("mcp")),
            (Some("graphql-ws,mcp.v1 , mcp"), Some("mcp.v1")),
        ] {
            let request = handshake();
            let request = match offered {
                Some(offered) => request.field("Sec-WebSocket-Protocol", offered),
                None => request,
            };
            let stream = TcpStream::connect(stage.address()).expect("a connection");
            let (head, mut peer) = Peer::upgrade(stream, &request.bytes());
            assert_eq!(head.field("Sec-WebSocket-Protocol"), chosen, "{head:?}");
            assert_eq!(head.field("Sec-WebSocket-Extensions"), None, "{head:?}");
            assert_eq!(text(&peer.ask(&modern(echo(1, "hi")))), "hi");
            peer.close(1000);
        }
        stage.close();
    });
}

#[test]
fn a_handshake_is_one_however_it_is_spelled() {
    let stage = Stage::open(options());
    let good = handshake();
    for request in [
        good.clone().field("Upgrade", "WebSocket"),
        good.clone().field("Upgrade", "h2c, websocket"),
        good.clone().field("Connection", "keep-alive, upgrade"),
        good.clone().field("Origin", "http://localhost:3000"),
        good.clone().target("/mcp/ws/"),
        good.clone().target("/mcp/ws?token=none"),
        good.field("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
    ] {
        let stream = TcpStream::connect(stage.address()).expect("a connection");
        let (head, mut peer) = Peer::upgrade(stream, &request.bytes());
        assert_eq!(head.field("Sec-WebSocket-Extensions"), None, "{head:?}");
        peer.expect_alive();
        peer.close(1000);
    }
    stage.close();
}

#[test]
fn the_path_is_the_one_that_is_configured_and_may_be_off() {
    let upgraded = |path: Option<&str>, asked: &str| {
        let mut options = options();
        options.websocket.path = path.map(str::to_owned);
        let stage = Stage::open(options);
        let mut client = stage.connect();
        client.send(&handshake().target(asked));
        let status = client.head().status;
        drop(client);
        stage.close();
        status
    };
    assert_eq!(upgraded(Some("/other"), "/other"), 101);
    assert_eq!(upgraded(Some("/other"), "/mcp/ws"), 404);
    assert_eq!(upgraded(None, "/mcp/ws"), 404);
}

#[test]
fn the_status_names_the_path() {
    let mut options = options();
    for path in [Some("/there".to_owned()), None] {
        options.websocket.path.clone_from(&path);
        let stage = Stage::open(options.clone());
        let status = stage.connect().ask(&Request::new("GET", "/status")).message();
        assert_eq!(status.get("websocket").and_then(|it| it.as_str()), path.as_deref());
        stage.close();
    }
}

#[test]
fn upgraded_connections_count_among_those_of_http() {
    over_each_ring(|mut options| {
        options.http.connections_max = 2;
        let stage = Stage::open(options);
        let mut peers: Vec<_> = (0..2).map(|_| Peer::begin(stage.address(), LEGACY)).collect();
        let mut third = stage.connect();
        let answer = third.answer();
        assert_eq!(answer.status(), 503, "{answer:?}");
        expect_error(&answer.message(), 1001, None);
        peers.remove(0).close(1000);
        drop(third);
        // Its place is free again.
        let mut client = stage.connect();
        while {
            client.send(&Request::new("GET", "/healthz"));
            client.head().status == 503
        } {
            client = stage.connect();
        }
        drop((client, peers));
        stage.close();
    });
}
