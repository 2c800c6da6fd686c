//! Handshakes: resumption on any shard, and their limits.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use corelane_test_support::sockets::connect_from;
use corelane_test_support::tls::RequestEnd;
use corelane_test_support::{TestServer, over_each_ring};

use super::{Authority, echo, handshakes};

#[test]
fn session_resumes_on_another_shard() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(2);
    let server = TestServer::start(options);
    // Connections of one client, which shares its tickets, go to both shards.
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    for _ in 0..20 {
        let calls: Vec<_> = (0..4)
            .map(|_| client.call_tool("slow", &serde_json::json!({ "ms": 20 })).into_future())
            .collect();
        for call in calls {
            corelane::testing::block_on(call).unwrap();
        }
    }
    assert!(handshakes(&server, "full") >= 1);
    assert!(handshakes(&server, "resumed") >= 1);
}

/// Opens a connection from this host of 127.0.0.0/8 that sends a part of a handshake.
fn begin(server: &TestServer, host: u8) -> TcpStream {
    let mut stream = connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), server.http());
    stream.write_all(b"\x16\x03\x01").ok();
    stream
}

/// Waits until the server has ended this many handshakes in favor of others, or refused them by
/// `refused`.
fn await_excess(server: &TestServer, refused: &str, count: u64) {
    while handshakes(server, refused) + handshakes(server, "evicted") < count {}
}

#[test]
fn excess_handshakes_are_reset_and_open_ones_served() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.tls.handshakes_max = 4;
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        let held: Vec<TcpStream> = (0..5).map(|_| begin(&server, 1)).collect();
        await_excess(&server, "refused", 1);
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        drop(held);
        // Until the server has seen that they have ended, it refuses others.
        let connect = || authority.client("https", server.http().port()).connect_blocking();
        let other = (0..1_000_000).find_map(|_| connect().ok()).expect("a place is free");
        assert_eq!(echo(&other, "hi").unwrap(), "hi");
    });
}

#[test]
fn handshake_evicts_slow_one_at_limit() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.tls.handshakes_max = 4;
    options.tls.handshake_timeout = Duration::from_mins(10);
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        let held: Vec<TcpStream> = (0..4).map(|_| begin(&server, 2)).collect();
        // Those of the last second are not slow.
        let connect = || authority.client("https", server.http().port()).connect_blocking();
        let client = (0..1_000_000).find_map(|_| connect().ok()).expect("a slow one ends");
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        assert_eq!(handshakes(&server, "evicted"), 1);
        drop(held);
    });
}

#[test]
fn connections_before_their_request_take_no_places() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.http.connections_max = 2;
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        let silent = |host| connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), server.http());
        let held: Vec<TcpStream> = (2..22).map(silent).collect();
        let begun: Vec<TcpStream> = (2..22).map(|host| begin(&server, host)).collect();
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        drop((held, begun, client));
        let counters = server.close();
        assert_eq!(counters.connections.refused_limit, 0, "{counters}");
        assert_eq!(counters.connections.closed_evicted, 0, "{counters}");
    });
}

#[test]
fn silent_connections_take_no_handshake() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.tls.handshakes_max = 2;
    options.tls.handshake_timeout = Duration::from_mins(10);
    let server = TestServer::start(options);
    let mut silent: Vec<TcpStream> =
        (0..30).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    for _ in 0..8 {
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
    }
    assert_eq!(handshakes(&server, "refused") + handshakes(&server, "evicted"), 0);
    // Until no more than half of those that may be are silent, they have 3 s.
    for silent in silent.iter_mut().take(14) {
        assert!(!matches!(silent.read(&mut [0; 1]), Ok(1..)));
    }
    assert_eq!(handshakes(&server, "timeout"), 14);
}

#[test]
fn excess_handshakes_of_one_address_are_reset() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.tls.handshakes_per_address_max = 2;
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        let held: Vec<TcpStream> = (0..3).map(|_| begin(&server, 2)).collect();
        await_excess(&server, "address_refused", 1);
        // Proxies of this machine are exempt.
        let others: Vec<TcpStream> =
            (0..4).map(|_| begin(&server, 1)).chain([begin(&server, 3)]).collect();
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        let excess = handshakes(&server, "address_refused") + handshakes(&server, "evicted");
        assert_eq!((excess, handshakes(&server, "refused")), (1, 0));
        drop((held, others));
    });
}

#[test]
fn request_with_end_of_handshake_is_answered() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for _ in 0..20 {
            let end = RequestEnd::CloseNotify;
            let response = authority.issuer.request_with_handshake(server.http(), request, end);
            let text = String::from_utf8_lossy(&response);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        }
    });
}

#[test]
fn client_that_ends_in_handshake_is_counted() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        for begin in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(begin).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // The server closes it, too.
            stream.read_to_end(&mut Vec::new()).ok();
        }
        assert_eq!(handshakes(&server, "closed"), 2);
    });
}

#[test]
fn client_may_end_without_close_notify() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let end = RequestEnd::EndOfStream;
        // Returns once the server has closed the connection, which may be before the response.
        authority.issuer.request_with_handshake(server.http(), request, end);
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
    });
}

#[test]
fn garbage_with_end_of_handshake_takes_no_place() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.tls.handshakes_max = 1;
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        for _ in 0..3 {
            authority.issuer.request_with_handshake(server.http(), b"", RequestEnd::Garbage);
        }
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        assert_eq!(handshakes(&server, "refused"), 0);
    });
}

#[test]
fn failed_handshakes_of_address_have_a_limit() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.engine.shards = Some(1);
    options.rate.failures = Some("rate=2/h".to_owned());
    let server = TestServer::start(options);
    let fail = |last: u8| {
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let mut stream = connect_from(from, server.http());
        stream.write_all(b"{}\n").ok();
        stream.read_to_end(&mut Vec::new()).ok();
        [handshakes(&server, "not_tls"), handshakes(&server, "failures_refused")]
    };
    assert_eq!([fail(9), fail(9), fail(9)], [[1, 0], [2, 0], [2, 1]]);
    assert_eq!([fail(10), fail(9)], [[3, 1], [3, 2]]);
    // A probe of the port is no failure.
    for _ in 0..3 {
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 11));
        connect_from(from, server.http()).shutdown(Shutdown::Both).unwrap();
    }
    while handshakes(&server, "closed") < 3 {}
    assert_eq!(fail(11), [4, 2]);
    server.close();
}
