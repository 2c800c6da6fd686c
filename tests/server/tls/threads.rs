//! Handshakes on threads: each step of these servers leaves its shard.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use corelane::Options;
use corelane::client::ClientErrorKind;
use corelane::options::ClientCertificateMode;
use corelane_test_support::Request;
use corelane_test_support::messages::{self, modern};
use corelane_test_support::tls::HandshakeKind::{Full, Resumed};
use corelane_test_support::tls::{Issuer, RequestEnd, VERSIONS};
use corelane_test_support::{TestServer, over_each_ring};

use super::{Authority, echo, handshakes};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The begin of a `ClientHello`, which announces more.
const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Options of a server whose handshakes are all done on threads.
fn options(authority: &Authority) -> Options {
    let mut options = authority.server_options();
    options.tls.handshake_percent = 0;
    options
}

#[test]
fn handshake_on_thread_serves_every_transport() {
    let authority = Authority::new();
    over_each_ring(options(&authority), |options| {
        let server = TestServer::start(options);
        let ports = [("https", server.http()), ("wss", server.http()), ("tls", server.tcp())];
        for (scheme, address) in ports {
            let client = authority.client(scheme, address.port()).connect_blocking().unwrap();
            assert_eq!(echo(&client, "hi").unwrap(), "hi");
        }
    });
}

#[test]
fn request_with_end_of_handshake_is_answered() {
    let authority = Authority::new();
    over_each_ring(options(&authority), |options| {
        let server = TestServer::start(options);
        for _ in 0..20 {
            let end = RequestEnd::CloseNotify;
            let response = authority.issuer.request_with_handshake(server.http(), HEALTH, end);
            let text = String::from_utf8_lossy(&response);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        }
        let end = RequestEnd::Garbage;
        authority.issuer.request_with_handshake(server.http(), b"", end);
    });
}

#[test]
fn large_request_behind_handshake_is_answered() {
    let authority = Authority::new();
    over_each_ring(options(&authority), |options| {
        let server = TestServer::start(options);
        let text = "x".repeat(1 << 20);
        let request = Request::modern(&modern(messages::echo(1, &text)));
        for _ in 0..5 {
            let end = RequestEnd::CloseNotify;
            let server = server.http();
            let response = authority.issuer.request_with_handshake(server, &request.bytes(), end);
            let response = String::from_utf8_lossy(&response);
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{}", response.len());
            assert!(response.contains(&text), "{}", response.len());
        }
    });
}

#[test]
fn client_certificate_is_required() {
    let authority = Authority::new();
    let clients = Issuer::named("clients");
    let mut options = options(&authority);
    options.tls.client_certificates = ClientCertificateMode::Required;
    options.tls.client_authorities = vec![authority.write("clients.pem", &clients.pem())];
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        let connect = |issuer: &Issuer| {
            let identity = issuer.client();
            let (pem, key) = (identity.pem().into_bytes(), identity.key_pem().into_bytes());
            let tls = authority.trusting().client_certificate(pem, key);
            authority.client("https", server.http().port()).tls(tls).connect_blocking()
        };
        let error = connect(&Issuer::named("others")).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Tls, "{error}");
        assert_eq!(echo(&connect(&clients).unwrap(), "hi").unwrap(), "hi");
    });
}

#[test]
fn session_is_resumed() {
    let authority = Authority::new();
    over_each_ring(options(&authority), |options| {
        let server = TestServer::start(options);
        for version in VERSIONS {
            let client = authority.issuer.resuming_client(version, None);
            let kinds = [(); 2].map(|()| client.request(server.http()).unwrap());
            assert_eq!(kinds, [Full, Resumed], "{version:?}");
        }
    });
}

#[test]
fn ended_handshakes_free_their_places() {
    let authority = Authority::new();
    let mut options = options(&authority);
    options.engine.shards = Some(1);
    options.tls.handshakes_max = 2;
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        for (begin, result) in [(&b"{}\n"[..], "not_tls"), (HELLO, "closed"), (b"", "closed")] {
            let before = handshakes(&server, result);
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(begin).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // The server closes it, too.
            stream.read_to_end(&mut Vec::new()).ok();
            assert_eq!(handshakes(&server, result), before + 1, "{begin:?}");
        }
        let connect = || authority.client("https", server.http().port()).connect_blocking();
        let client = (0..1_000_000).find_map(|_| connect().ok()).expect("a place is free");
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
    });
}

#[test]
fn reset_connections_in_handshake_harm_no_other() {
    let authority = Authority::new();
    let mut options = options(&authority);
    options.engine.shards = Some(1);
    over_each_ring(options, |options| {
        let server = TestServer::start(options);
        for _ in 0..200 {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(&HELLO[..6]).unwrap();
            stream.write_all(&HELLO[6..]).unwrap();
        }
        let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
    });
}

#[test]
fn server_drains_beside_handshakes() {
    let authority = Authority::new();
    over_each_ring(options(&authority), |options| {
        let server = TestServer::start(options);
        let begin = |_| {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(HELLO).unwrap();
            stream
        };
        let begun: Vec<TcpStream> = (0..20).map(begin).collect();
        drop(server);
        for mut stream in begun {
            stream.read_to_end(&mut Vec::new()).ok();
        }
    });
}
