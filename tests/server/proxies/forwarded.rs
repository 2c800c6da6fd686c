//! `X-Forwarded-For` and `Forwarded`: each request of a trusted proxy has the address of its
//! client.

use std::net::{IpAddr, Ipv4Addr, TcpStream};

use corelane::options::ForwardedField;
use corelane::{Options, Transport};
use corelane_test_support::messages::{
    LEGACY, call, initialize, modern, notification, result_text,
};
use corelane_test_support::sockets::connect_from;
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{HttpClient, Request, TestServer, WebSocketClient, over_each_ring};
use serde_json::json;

use crate::proxies::{OTHER, PROXY, catalog, options, peer_call, peer_request, seen_peer};

fn start(options: Options) -> TestServer {
    TestServer::with_catalog(options, catalog())
}

/// A request of the client at `address`, as a proxy passes it on.
fn request_of(address: &str) -> Request {
    peer_request().field("X-Forwarded-For", address)
}

/// Returns the status of a request.
fn status_of(client: &mut HttpClient, request: &Request) -> u16 {
    client.exchange(request).status()
}

#[test]
fn clients_of_proxy_have_own_rate_limits() {
    let mut options = options();
    options.rate.rules = vec!["tools/call rate=1/h per=address".to_owned()];
    over_each_ring(options, |options| {
        let server = start(options);
        let mut proxy = HttpClient::connect_from(PROXY, server.http());
        let [first, second] = ["192.0.2.1", "2001:db8::1"].map(request_of);
        let statuses = [&first, &first, &second, &second].map(|it| status_of(&mut proxy, it));
        assert_eq!(statuses, [200, 429, 200, 429]);
        // The same clients, over another connection and with an IPv6 address of the same network.
        let mut again = HttpClient::connect_from(PROXY, server.http());
        for address in ["::ffff:192.0.2.1", "203.0.113.1, 192.0.2.1, 10.1.1.1", "2001:db8::9"] {
            assert_eq!(status_of(&mut again, &request_of(address)), 429, "{address}");
        }
        assert_eq!(status_of(&mut again, &request_of("192.0.2.3")), 200);
        drop((proxy, again));
        let forwarded = server.close().forwarded;
        assert_eq!((forwarded.client, forwarded.ignored), (8, 0));
    });
}

#[test]
fn forwarded_field_of_untrusted_peer_is_ignored() {
    let mut options = options();
    options.rate.rules = vec!["tools/call rate=2/h per=address".to_owned()];
    over_each_ring(options, |options| {
        let server = start(options);
        let mut client = HttpClient::connect_from(OTHER, server.http());
        let own = client.socket().local_addr().unwrap().to_string();
        assert_eq!(seen_peer(&mut client, &request_of("192.0.2.1")), own);
        let forged = peer_request().field("Forwarded", "for=192.0.2.2");
        assert_eq!(seen_peer(&mut client, &forged), own);
        assert_eq!(status_of(&mut client, &request_of("192.0.2.3")), 429);
        drop(client);
        let forwarded = server.close().forwarded;
        assert_eq!((forwarded.ignored, forwarded.client), (3, 0));
    });
}

#[test]
fn no_peer_is_trusted_by_default() {
    let mut options = options();
    options.proxies.trusted.clear();
    options.rate.rules = vec!["tools/call rate=1/h per=address".to_owned()];
    let server = start(options);
    let mut local = server.connect_http();
    let own = local.socket().local_addr().unwrap().to_string();
    // Exempt from limits by address.
    for _ in 0..3 {
        assert_eq!(seen_peer(&mut local, &request_of("192.0.2.1")), own);
    }
    drop(local);
    assert_eq!(server.close().forwarded.ignored, 3);
}

#[test]
fn loopback_counts_once_proxies_are_trusted() {
    let mut options = options();
    options.rate.rules = vec!["tools/call rate=1/h per=address".to_owned()];
    let server = start(options);
    let mut local = server.connect_http();
    assert_eq!([(); 2].map(|()| status_of(&mut local, &peer_request())), [200, 429]);
    drop(local);
    server.close();
}

#[test]
fn handler_sees_client_of_its_request() {
    over_each_ring(options(), |options| {
        let server = start(options);
        let mut proxy = HttpClient::connect_from(PROXY, server.http());
        let own = proxy.socket().local_addr().unwrap().to_string();
        for (field, expected) in [
            ("192.0.2.1", "192.0.2.1:0"),
            ("192.0.2.2:4711", "192.0.2.2:4711"),
            ("[2001:db8::1]:80, 127.0.0.9", "[2001:db8::1]:80"),
            ("unknown", &own),
            ("192.0.2.1, _hidden", &own),
            ("10.0.0.3, 10.0.0.2", "10.0.0.3:0"),
        ] {
            assert_eq!(seen_peer(&mut proxy, &request_of(field)), expected, "{field}");
            let on_thread = Request::modern(&modern(call(8, "blocking_peer", json!({}))));
            let on_thread = on_thread.field("X-Forwarded-For", field);
            assert_eq!(seen_peer(&mut proxy, &on_thread), expected, "{field}");
        }
        let lines = request_of("192.0.2.1").add_field("x-forwarded-for", "10.0.0.1");
        assert_eq!(seen_peer(&mut proxy, &lines), "192.0.2.1:0");
        assert_eq!(seen_peer(&mut proxy, &peer_request()), own);
        drop(proxy);
        let forwarded = server.close().forwarded;
        assert_eq!((forwarded.client, forwarded.missing, forwarded.invalid), (9, 1, 4));
    });
}

#[test]
fn request_without_address_is_of_the_proxy() {
    let mut options = options();
    options.rate.rules = vec!["tools/call rate=1/h per=address".to_owned()];
    let server = start(options);
    let mut proxy = HttpClient::connect_from(PROXY, server.http());
    let requests = [peer_request(), request_of("unknown"), request_of("192.0.2.1")];
    assert_eq!(requests.map(|it| status_of(&mut proxy, &it)), [200, 429, 200]);
    drop(proxy);
    server.close();
}

#[test]
fn only_the_configured_field_is_read() {
    let mut options = options();
    options.http.forwarded_field = ForwardedField::Forwarded;
    let server = start(options);
    let mut proxy = HttpClient::connect_from(PROXY, server.http());
    let own = proxy.socket().local_addr().unwrap().to_string();
    let both = request_of("192.0.2.1").field("Forwarded", "for=\"[2001:db8::1]:9\";proto=https");
    assert_eq!(seen_peer(&mut proxy, &both), "[2001:db8::1]:9");
    assert_eq!(seen_peer(&mut proxy, &request_of("192.0.2.1")), own);
    drop(proxy);
    server.close();
}

#[test]
fn session_requests_have_their_own_client() {
    for shards in [1, 2] {
        let mut options = options();
        options.engine.shards = Some(shards);
        options.rate.rules = vec!["tools/call rate=2/h per=address".to_owned()];
        let server = start(options);
        let connect = || HttpClient::connect_from(PROXY, server.http()).with_revision(LEGACY);
        let mut proxy = connect();
        let of = |request: Request, address: &str| request.field("X-Forwarded-For", address);
        let opened = proxy.exchange(&of(Request::post(initialize(0, LEGACY)), "192.0.2.1"));
        let session = opened.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let post = |message: &serde_json::Value, address: &str| {
            let request = Request::post(message).field("Mcp-Session-Id", &session);
            of(request.field("MCP-Protocol-Version", LEGACY), address)
        };
        let ready = post(&notification("notifications/initialized"), "192.0.2.1");
        assert_eq!(status_of(&mut proxy, &ready), 202);
        for number in 1..=4 {
            let address = format!("192.0.2.{number}");
            // On any shard.
            for _ in 0..2 {
                let seen = seen_peer(&mut connect(), &post(&peer_call(), &address));
                assert_eq!(seen, format!("{address}:0"));
            }
            assert_eq!(status_of(&mut connect(), &post(&peer_call(), &address)), 429);
        }
        drop(proxy);
        server.close();
    }
}

/// Upgrades a connection of the proxy, for the client at `address`.
fn upgrade(server: &TestServer, address: &str) -> WebSocketClient {
    let request = upgrade_request().field("X-Forwarded-For", address).bytes();
    WebSocketClient::upgrade(connect_from(PROXY, server.http()), &request).1
}

#[test]
fn websocket_keeps_client_of_its_upgrade() {
    let mut options = options();
    (options.websocket.connections_max, options.limits.address_share_percent) = (8, 50);
    over_each_ring(options, |options| {
        let server = start(options);
        let mut greedy: Vec<_> = (0..4).map(|_| upgrade(&server, "192.0.2.1")).collect();
        let call = modern(peer_call());
        for client in &mut greedy {
            assert_eq!(result_text(&client.exchange(&call)), "192.0.2.1:0");
        }
        let mut proxy = HttpClient::connect_from(PROXY, server.http());
        let refused = upgrade_request().field("X-Forwarded-For", "192.0.2.1");
        assert_eq!(status_of(&mut proxy, &refused), 503);
        let mut other = upgrade(&server, "192.0.2.2");
        assert_eq!(result_text(&other.exchange(&call)), "192.0.2.2:0");
        drop((greedy, other));
        server.wait_for_connections(1);
        // Their places are free again.
        let again: Vec<_> = (0..4).map(|_| upgrade(&server, "192.0.2.1")).collect();
        drop((again, proxy));
        server.close();
    });
}

#[test]
fn connections_of_proxy_have_no_address_share() {
    let mut options = options();
    options.http.connections_max = 8;
    options.rate.connections = Some("rate=1/d".to_owned());
    options.rate.connections_per_address_max = 2;
    let server = start(options);
    let mut connections: Vec<_> =
        (0..8).map(|_| HttpClient::connect_from(PROXY, server.http())).collect();
    for (proxy, host) in connections.iter_mut().zip(1..) {
        let address = Ipv4Addr::new(192, 0, 2, host).to_string();
        assert_eq!(seen_peer(proxy, &request_of(&address)), format!("{address}:0"));
    }
    drop(connections);
    server.wait_for_connections(0);
    let mut other = HttpClient::connect_from(OTHER, server.http());
    assert_eq!(status_of(&mut other, &peer_request()), 200);
    let mut refused = HttpClient::connect_from(OTHER, server.http());
    assert_eq!(refused.read_response().status(), 429);
    drop((other, refused));
    server.close();
}

#[test]
fn connection_list_names_client_of_request() {
    let server = start(options());
    let mut proxy = HttpClient::connect_from(PROXY, server.http());
    assert_eq!(seen_peer(&mut proxy, &request_of("192.0.2.1")), "192.0.2.1:0");
    let is_listed = |peer: &str| {
        let list = server.handle().connections();
        list.iter().any(|it| it.transport == Transport::Http && it.peer == peer.parse().ok())
    };
    assert!(is_listed("192.0.2.1:0"));
    assert_eq!(seen_peer(&mut proxy, &request_of("192.0.2.2")), "192.0.2.2:0");
    assert!(is_listed("192.0.2.2:0") && !is_listed("192.0.2.1:0"));
    let mut operator = server.connect_http();
    let rows = operator.exchange(&Request::new("GET", "/connections")).message();
    assert!(rows["connections"].to_string().contains("\"192.0.2.2:0\""), "{rows}");
    drop((proxy, operator));
    server.close();
}

#[test]
fn address_of_incomplete_body_is_known() {
    let server = start(options());
    let proxy: TcpStream = connect_from(PROXY, server.http());
    let [head, body] = request_of("192.0.2.1").head_and_body();
    let mut client = HttpClient::connect_from(IpAddr::V4(Ipv4Addr::LOCALHOST), server.http());
    std::io::Write::write_all(&mut &proxy, &[&head[..], &body[..9]].concat()).unwrap();
    let expected = "192.0.2.1:0".parse().ok();
    let is_listed = || server.handle().connections().iter().any(|it| it.peer == expected);
    assert!((0..10_000).any(|_| is_listed()));
    client.expect_alive();
    drop((client, proxy));
    server.close();
}
