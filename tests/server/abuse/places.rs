//! Places of connections: at a limit idle peers give theirs to newcomers, first those that were of
//! no use and those of the network with most; busy and authenticated ones keep theirs.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use corelane::Options;
use corelane::options::AuthOptions;
use corelane_test_support::messages::{LEGACY, call, echo, modern, result_text};
use corelane_test_support::sockets::connect_from;
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{
    HttpClient, LineClient, Request, TestServer, WebSocketClient, over_each_ring,
};
use serde_json::{Value, json};
use tungstenite::protocol::frame::coding::Control;

use crate::abuse::honest_clients::{all_transports, expect_healthy};

const PLACES: u32 = 8;
const HONEST: IpAddr = address(1);

/// SHA-256 of `key-ada`.
const HASH: &str = "70b76273e483b572d0434e1b7e43ea0a7f7e737bc7bb33b2eb382fe59976c72d";

const fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, host))
}

/// Options of a server with [`PLACES`] connections of each transport, which nothing times out.
fn options() -> Options {
    let mut options = all_transports();
    options.engine.shards = Some(1);
    options.tcp.connections_max = PLACES;
    options.tcp.first_message_timeout = Duration::from_mins(10);
    options.http.connections_max = PLACES;
    options.websocket.connections_max = 2;
    options.websocket.first_message_timeout = Duration::from_mins(10);
    options
}

/// Opens connections from hosts of 127.0.0.0/8 that take all places of a listener.
fn take_places(hosts: &[u8], listener: SocketAddr) -> Vec<TcpStream> {
    let hosts = hosts.iter().cycle().take(PLACES as usize);
    hosts.map(|host| connect_from(address(*host), listener)).collect()
}

/// Connects over TCP until a connection is served.
fn connect_served(server: &TestServer, from: IpAddr) -> LineClient {
    let connect = |_| {
        let mut client = LineClient::connect_from(from, server.tcp());
        client.try_send(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).ok()?;
        let line = client.receive_line_or_reset().filter(|line| line.contains("result"));
        line.map(|_| client)
    };
    (0..1_000_000).find_map(connect).expect("a place is free")
}

fn modern_call() -> Request {
    Request::modern(&modern(echo(1, "hi")))
}

/// Connects over HTTP until a request is served.
fn connect_http_served(server: &TestServer, from: IpAddr, request: &Request) -> HttpClient {
    let connect = |_| {
        let mut client = HttpClient::connect_from(from, server.http());
        (client.try_exchange(request) == Some(200)).then_some(client)
    };
    (0..1_000_000).find_map(connect).expect("a place is free")
}

/// Least number of silent connections that a shard may have.
const SILENT_MIN: usize = 64;

#[test]
fn silent_connections_take_no_places() {
    over_each_ring(options(), |options| {
        let server = TestServer::start(options);
        let open = |listener| -> Vec<TcpStream> {
            (2..22).map(|host| connect_from(address(host), listener)).collect()
        };
        let silent = [open(server.tcp()), open(server.http())];
        expect_healthy(&server);
        // Each at its first attempt.
        let mut over_tcp: Vec<LineClient> = (0..PLACES)
            .map(|_| {
                let mut client = LineClient::connect(server.tcp());
                client.ping();
                client
            })
            .collect();
        let mut over_http: Vec<HttpClient> = (0..PLACES)
            .map(|_| {
                let mut client = HttpClient::connect(server.http());
                client.expect_alive();
                client
            })
            .collect();
        let mut websocket = HttpClient::connect_from(address(22), server.http());
        assert_eq!(websocket.try_exchange(&upgrade_request()), Some(503));
        let mut refused = LineClient::connect(server.tcp());
        assert_eq!(refused.receive()["error"]["code"], 1001);
        over_tcp.iter_mut().for_each(LineClient::ping);
        over_http.iter_mut().for_each(HttpClient::expect_alive);
        drop((silent, over_tcp, over_http, websocket, refused));
        let counters = server.close();
        assert_eq!(counters.connections.closed_evicted, 0, "{counters}");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
    });
}

#[test]
fn silent_connections_beyond_limit_end() {
    over_each_ring(options(), |options| {
        // Of two addresses of a network, and of as many networks.
        let attacks: [fn(u8) -> IpAddr; 2] =
            [|number| address(2 + number % 2), |number| [127, 0, 1 + number, 1].into()];
        for hosts in attacks {
            let server = TestServer::start(options.clone());
            let mut silent: Vec<TcpStream> = (0..2 * SILENT_MIN)
                .map(|number| {
                    let listener = if number % 2 == 0 { server.tcp() } else { server.http() };
                    connect_from(hosts(u8::try_from(number % 100).unwrap()), listener)
                })
                .collect();
            expect_healthy(&server);
            let from = [127, 0, 200, 1].into();
            let mut over_tcp = LineClient::connect_from(from, server.tcp());
            over_tcp.ping();
            let mut over_http = HttpClient::connect_from(from, server.http());
            assert_eq!(over_http.try_exchange(&modern_call()), Some(200));
            // The oldest one has ended.
            assert!(!matches!(silent[0].read(&mut [0]), Ok(length) if length > 0));
            drop((silent, over_tcp, over_http));
            let counters = server.close();
            assert!(counters.connections.closed_evicted >= SILENT_MIN as u64, "{counters}");
            assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        }
    });
}

#[test]
fn place_is_taken_with_first_byte() {
    over_each_ring(options(), |options| {
        let server = TestServer::start(options);
        let mut silent: Vec<LineClient> =
            (0..PLACES).map(|_| LineClient::connect(server.tcp())).collect();
        let mut over_http = HttpClient::connect(server.http());
        let mut busy: Vec<LineClient> = Vec::new();
        for _ in 0..PLACES {
            let mut client = LineClient::connect(server.tcp());
            client.ping();
            busy.push(client);
        }
        for client in &mut silent {
            client.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
            assert_eq!(client.receive()["error"]["code"], 1001);
            client.expect_end();
        }
        over_http.expect_alive();
        busy.iter_mut().for_each(LineClient::ping);
        drop((silent, over_http, busy));
        let counters = server.close();
        let connections = &counters.connections;
        assert_eq!((connections.accepted, connections.closed), (9, 9), "{counters}");
        assert_eq!(connections.refused_limit, u64::from(PLACES), "{counters}");
    });
}

/// Options with an API key of `ada`, without which nothing is served unless `anonymous`.
fn with_keys(directory: &Path, anonymous: bool, mut options: Options) -> Options {
    let keys = directory.join("keys.txt");
    fs::write(&keys, format!("ada:{HASH}:user:call\n")).expect("keys are written");
    options.auth = AuthOptions::default();
    options.auth.api_keys = vec![keys];
    options.auth.anonymous = anonymous;
    options
}

fn call_of_ada() -> Value {
    let mut call = modern(echo(1, "hi"));
    call["params"]["_meta"]["auth_token"] = json!("key-ada");
    call
}

#[test]
fn authenticated_clients_find_reserved_places() {
    let directory = tempfile::tempdir().unwrap();
    over_each_ring(options(), |options| {
        let server = TestServer::start(with_keys(directory.path(), false, options));
        // One of each network, which are recent.
        let from = |number: u8| IpAddr::from([127, 0, number, 1]);
        let begin = |listener, bytes: &[u8]| -> Vec<TcpStream> {
            (1..8)
                .map(|number| {
                    let mut stream = connect_from(from(number), listener);
                    stream.write_all(bytes).unwrap();
                    stream
                })
                .collect()
        };
        let begun = [begin(server.tcp(), b"{"), begin(server.http(), b"POST")];
        while server.handle().counters().connections.accepted < 14 {}
        let mut over_tcp = LineClient::connect_from(from(9), server.tcp());
        over_tcp.send(call_of_ada());
        assert_eq!(result_text(&over_tcp.receive()), "hi");
        let mut over_http = HttpClient::connect_from(from(9), server.http());
        let authorized = modern_call().add_field("Authorization", "Bearer key-ada");
        assert_eq!(over_http.try_exchange(&authorized), Some(200));
        // Both have no place, and no token.
        let mut refused = LineClient::connect_from(from(10), server.tcp());
        refused.send(modern(echo(1, "hi")));
        let errors: Vec<Value> = refused.receive_rest_or_reset();
        assert!(errors.iter().all(|it| it["error"].is_object()), "{errors:?}");
        let mut refused = connect_from(from(10), server.http());
        assert_eq!(refuse_without_token(&mut refused), Some(()));
        assert!(!matches!(refused.read(&mut [0]), Ok(length) if length > 0));
        drop((begun, over_tcp, over_http));
        let counters = server.close();
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        assert_eq!(counters.connections.refused_limit, 2, "{counters}");
    });
}

#[test]
fn anonymous_clients_leave_reserve() {
    let directory = tempfile::tempdir().unwrap();
    over_each_ring(options(), |options| {
        let server = TestServer::start(with_keys(directory.path(), true, options));
        let slow = modern(call(1, "slow", json!({"steps": 1, "step_ms": 60_000})));
        let busy: Vec<HttpClient> = (1..8)
            .map(|_| {
                let mut client = HttpClient::connect(server.http());
                client.send(&Request::modern(&slow));
                client
            })
            .collect();
        while server.handle().counters().requests.tools_call < 7 {}
        let mut refused = HttpClient::connect(server.http());
        assert_eq!(refused.try_exchange(&modern_call()), Some(503));
        let authorized = modern_call().add_field("Authorization", "Bearer key-ada");
        let mut ada = HttpClient::connect(server.http());
        assert_eq!(ada.try_exchange(&authorized), Some(200));
        let mut beyond = HttpClient::connect(server.http());
        assert_eq!(beyond.try_exchange(&authorized), Some(503));
        // Their place is one of the reserve until they close.
        drop(ada);
        connect_http_served(&server, HONEST, &authorized);
        drop((busy, refused, beyond));
        server.close();
    });
}

#[test]
fn newcomer_gets_recent_place_of_heavy_network() {
    let directory = tempfile::tempdir().unwrap();
    over_each_ring(options(), |options| {
        let options = with_keys(directory.path(), false, options);
        let authorized = modern_call().add_field("Authorization", "Bearer key-ada");
        // Two addresses of a network, those of two networks, and loopback.
        let attacks = [[[0, 2], [0, 3]], [[2, 1], [3, 1]], [[0, 1], [0, 1]]];
        for hosts in attacks {
            let server = TestServer::start(options.clone());
            let take_places = |listener| -> Vec<TcpStream> {
                let hosts = hosts.iter().cycle().take(PLACES as usize);
                let from = hosts.map(|[network, host]| [127, 0, *network, *host].into());
                from.map(|from| connect_from(from, listener)).collect()
            };
            let mut begun = take_places(server.tcp());
            for stream in &mut begun {
                stream.write_all(b"{").unwrap();
            }
            let mut refused = take_places(server.http());
            assert_eq!(refused.iter_mut().filter_map(refuse_without_token).count(), refused.len());
            // The first attempts, however young the others are.
            let from = [127, 0, 4, 1].into();
            let mut over_http = HttpClient::connect_from(from, server.http());
            assert_eq!(over_http.try_exchange(&authorized), Some(200));
            let mut over_tcp = LineClient::connect_from(from, server.tcp());
            over_tcp.send(call_of_ada());
            assert_eq!(result_text(&over_tcp.receive()), "hi");
            drop((begun, refused, over_http, over_tcp));
            let counters = server.close();
            assert!(counters.connections.closed_evicted >= 2, "{counters}");
        }
    });
}

#[test]
fn evicted_tcp_connection_gets_error_1001() {
    let server = TestServer::start(options());
    let mut idle: Vec<LineClient> =
        (0..PLACES).map(|_| LineClient::connect_from(HONEST, server.tcp())).collect();
    // Nothing that is valid.
    for client in &mut idle {
        client.send("");
    }
    let mut client = connect_served(&server, HONEST);
    let error = idle[0].receive();
    assert_eq!(error["error"]["code"], 1001, "{error}");
    assert!(error.to_string().contains("idle"), "{error}");
    idle[0].expect_end();
    client.ping();
    // Used connections of the same group keep their places.
    let mut used: Vec<LineClient> = (1..PLACES).map(|_| connect_served(&server, HONEST)).collect();
    let mut refused = LineClient::connect_from(HONEST, server.tcp());
    assert_eq!(refused.receive()["error"]["code"], 1001);
    used.iter_mut().for_each(LineClient::ping);
    drop((idle, client, used, refused));
    server.close();
}

#[test]
fn used_places_go_to_lighter_group_only() {
    let server = TestServer::start(options());
    let mut greedy: Vec<LineClient> = (0..PLACES)
        .map(|number| {
            let host = if number % 2 == 0 { 2 } else { 3 };
            let mut client = LineClient::connect_from(address(host), server.tcp());
            client.handshake(LEGACY);
            client
        })
        .collect();
    let mut honest = [(); 2].map(|()| connect_served(&server, address(200)));
    // Each of the greedy addresses has three places, as this one would have.
    let mut refused = LineClient::connect_from(address(200), server.tcp());
    assert_eq!(refused.receive()["error"]["code"], 1001);
    honest.iter_mut().for_each(LineClient::ping);
    let still_open = greedy.iter_mut().filter_map(|it| {
        it.try_send(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).ok()?;
        it.receive_line_or_reset().filter(|line| line.contains("result"))
    });
    assert_eq!(still_open.count(), 6);
    drop((greedy, honest, refused));
    let counters = server.close();
    assert_eq!(counters.connections.closed_evicted, 2, "{counters}");
}

/// Sends a request without a token, which is refused with status 401. Returns `None` if the
/// connection has ended.
fn refuse_without_token(stream: &mut TcpStream) -> Option<()> {
    stream.write_all(&modern_call().bytes()).ok()?;
    let mut response = [0; 4096];
    let length = stream.read(&mut response).ok().filter(|length| *length > 0)?;
    assert!(response[..length].starts_with(b"HTTP/1.1 401 "));
    Some(())
}

#[test]
fn refused_requests_keep_no_http_places() {
    let directory = tempfile::tempdir().unwrap();
    over_each_ring(options(), |options| {
        let server = TestServer::start(with_keys(directory.path(), false, options));
        let mut refused: Vec<TcpStream> = take_places(&[2, 3], server.http());
        assert_eq!(refused.iter_mut().filter_map(refuse_without_token).count(), refused.len());
        let authorized = modern_call().add_field("Authorization", "Bearer key-ada");
        let mut honest: Vec<HttpClient> = (0..PLACES)
            .map(|_| {
                // Those that are refused make them no busier.
                refused.iter_mut().filter_map(refuse_without_token).count();
                connect_http_served(&server, HONEST, &authorized)
            })
            .collect();
        expect_healthy(&server);
        // Idle, but authenticated.
        let mut newcomer = HttpClient::connect_from(address(4), server.http());
        assert_eq!(newcomer.try_exchange(&authorized), Some(503));
        for client in &mut honest {
            assert_eq!(client.try_exchange(&authorized), Some(200));
        }
        drop((refused, honest, newcomer));
        server.close();
    });
}

#[test]
fn unused_websockets_give_places_to_newcomers() {
    let server = TestServer::start(options());
    let mut unused = [2, 3].map(|host| {
        let stream = connect_from(address(host), server.http());
        WebSocketClient::upgrade(stream, &upgrade_request().bytes()).1
    });
    let connect = |_| {
        let mut client = HttpClient::connect_from(HONEST, server.http());
        let status = client.try_exchange(&upgrade_request());
        (status == Some(101)).then_some(client)
    };
    let client = (0..1_000_000).find_map(connect).expect("a place is free");
    let [first, _] = &mut unused;
    assert_eq!(first.read_control(Control::Close)[..2], 1008u16.to_be_bytes());
    drop((client, unused));
    server.close();
}

#[test]
fn health_is_answered_beyond_all_limits() {
    over_each_ring(options(), |options| {
        let server = TestServer::start(options);
        // All places are busy.
        let slow = modern(call(1, "slow", json!({"steps": 1, "step_ms": 60_000})));
        let busy: Vec<HttpClient> = (0..PLACES)
            .map(|number| {
                let host = if number % 2 == 0 { 2 } else { 3 };
                let mut client = HttpClient::connect_from(address(host), server.http());
                client.send(&Request::modern(&slow));
                client
            })
            .collect();
        while server.handle().counters().requests.tools_call < u64::from(PLACES) {}
        expect_healthy(&server);
        // Further connections are silent, or wait for nothing after a request of an operator.
        let silent: Vec<TcpStream> =
            (0..100).map(|_| connect_from(address(4), server.http())).collect();
        expect_healthy(&server);
        let mut idle: Vec<HttpClient> = Vec::new();
        for number in 0..100 {
            let mut client = HttpClient::connect_from(address(5), server.http());
            let status = client.try_exchange(&Request::new("GET", "/healthz"));
            assert_eq!(status, Some(200), "{number}");
            idle.push(client);
        }
        expect_healthy(&server);
        let mut refused = HttpClient::connect_from(HONEST, server.http());
        assert_eq!(refused.try_exchange(&modern_call()), Some(503));
        drop((busy, silent, idle, refused));
        server.close();
    });
}
