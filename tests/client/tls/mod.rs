//! Calls over TLS to the server of this library behind a terminator.

mod bad_peers;
mod certificates;
mod cli;
mod other_servers;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientError, ClientErrorKind, ParityClient, TlsOptions};
use corelane::testing::block_on;
use corelane_test_support::tls::{
    CertificateValidity, HandshakeKind, Issuer, Terminator, TlsFault, VERSIONS, version,
};
use corelane_test_support::{TestServer, http_and_tcp_options, http_options, tcp_options};
use serde_json::json;

use super::{ERAS, discover_result};

/// Trusts `issuer` and no other.
fn trusting(issuer: &Issuer) -> TlsOptions {
    TlsOptions::new().ca(issuer.pem().into_bytes())
}

/// A client of a server for `localhost`.
fn client_of(scheme: &str, port: u16) -> ClientBuilder {
    Client::builder(format!("{scheme}://localhost:{port}").as_str())
}

fn echo(client: &Client, message: &str) -> Result<String, ClientError> {
    let result = client.call_tool("echo", &json!({ "message": message })).wait();
    result.map(|result| result.text())
}

/// Runs `test` for a server over lines, HTTP and WebSocket, with the scheme of its target.
fn over_each_scheme(test: impl Fn(&str, &TestServer, &dyn Fn() -> Terminator, &TlsOptions)) {
    let issuer = Issuer::new();
    let tls = trusting(&issuer);
    let start = |behind| Terminator::start(behind, issuer.good_server(), TlsFault::NoFault);
    let server = TestServer::with_test_tools(tcp_options());
    test("tls", &server, &|| start(server.tcp()), &tls);
    let server = TestServer::with_test_tools(http_options());
    test("https", &server, &|| start(server.http()), &tls);
    test("wss", &server, &|| start(server.http()), &tls);
}

#[test]
fn call_tool_over_tls_in_every_era() {
    let issuer = Issuer::new();
    let options = http_and_tcp_options();
    let server = TestServer::start(options);
    for version in VERSIONS {
        let start = |behind| {
            let config = issuer.server(CertificateValidity::Valid, None, &[version]);
            Terminator::start(behind, config, TlsFault::NoFault)
        };
        for (scheme, terminator) in [
            ("tls", start(server.tcp())),
            ("https", start(server.http())),
            ("wss", start(server.http())),
        ] {
            for era in ERAS {
                let client = client_of(scheme, terminator.port()).era(era).tls(trusting(&issuer));
                let client = client.connect_blocking().unwrap();
                for _ in 0..3 {
                    assert_eq!(echo(&client, "hi").unwrap(), "hi", "{scheme} {era:?}");
                }
                block_on(client.close());
            }
        }
    }
}

#[test]
fn http_and_websocket_are_negotiated_by_alpn() {
    let (issuer, server) = (Issuer::new(), TestServer::start(http_options()));
    let http = Some(b"http/1.1".to_vec());
    let lines = TestServer::start(tcp_options());
    for (scheme, behind, alpn) in [
        ("https", server.http(), http.clone()),
        ("wss", server.http(), http),
        ("tls", lines.tcp(), None),
    ] {
        let terminator = Terminator::start(behind, issuer.good_server(), TlsFault::NoFault);
        let client = client_of(scheme, terminator.port()).tls(trusting(&issuer));
        assert_eq!(echo(&client.connect_blocking().unwrap(), "hi").unwrap(), "hi", "{scheme}");
        assert_eq!(terminator.next_handshake().alpn, alpn, "{scheme}");
    }
}

#[test]
fn message_of_many_records_is_whole() {
    over_each_scheme(|scheme, _, start, tls| {
        let terminator = start();
        let client = client_of(scheme, terminator.port()).tls(tls.clone());
        let client = client.connect_blocking().unwrap();
        let text = "0123456789".repeat(10_000);
        assert_eq!(echo(&client, &text).unwrap(), text, "{scheme}");
    });
}

#[test]
fn parity_streams_run_over_tls() {
    over_each_scheme(|scheme, _, start, tls| {
        let terminator = start();
        let target = format!("{scheme}://localhost:{}", terminator.port());
        let client = ParityClient::builder(target.as_str()).tls(tls.clone());
        let client = client.connect_blocking().unwrap();
        let chunks = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&chunks);
        let slow = client.call_tool("slow", &json!({ "steps": 5, "step_ms": 0 }));
        let slow = slow.on_chunk(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(slow.wait().unwrap().text(), "took 5 steps of 0 ms", "{scheme}");
        assert_eq!(chunks.load(Ordering::Relaxed), 5, "{scheme}");
        block_on(client.close());
        let error = ParityClient::builder(target.as_str()).connect_blocking().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Tls, "{scheme}: {error}");
    });
}

#[test]
fn concurrent_calls_over_tls_are_answered() {
    over_each_scheme(|scheme, _, start, tls| {
        let terminator = start();
        let client = client_of(scheme, terminator.port()).tls(tls.clone()).connect_lazy().unwrap();
        let calls: Vec<_> = (0..200)
            .map(|index: u32| {
                let message = json!({ "message": index.to_string() });
                (index, client.call_tool("echo", &message).into_future())
            })
            .collect();
        for (index, call) in calls {
            assert_eq!(block_on(call).unwrap().text(), index.to_string(), "{scheme}");
        }
    });
}

#[test]
fn data_with_end_of_handshake_is_read() {
    // In TLS 1.2 the server ends the handshake; what it has to send then follows at once.
    let (issuer, listener) = (Issuer::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let config = issuer.server(CertificateValidity::Valid, None, &[&version::TLS12]);
    let address = listener.local_addr().unwrap();
    let port = Terminator::start(address, config, TlsFault::NoFault).port();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let discover = json!({ "id": 1 });
        let response = format!("{}\n", discover_result(&discover));
        let (begin, rest) = response.split_at(response.len() / 2);
        stream.write_all(begin.as_bytes()).unwrap();
        let mut request = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
        assert!(request.contains("server/discover"), "{request}");
        stream.write_all(rest.as_bytes()).unwrap();
    });
    client_of("tls", port).tls(trusting(&issuer)).connect_blocking().unwrap();
    peer.join().unwrap();
}

#[test]
fn second_tls_connection_resumes_session() {
    let (issuer, server) = (Issuer::new(), TestServer::with_test_tools(http_options()));
    for version in VERSIONS {
        let config = issuer.server(CertificateValidity::Valid, None, &[version]);
        let terminator = Terminator::start(server.http(), config, TlsFault::NoFault);
        let client = client_of("https", terminator.port()).tls(trusting(&issuer));
        let client = client.connect_blocking().unwrap();
        let first = terminator.next_handshake().kind;
        assert!(matches!(first, HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest));
        let held = client.call_tool("until-cancelled", &json!({})).into_future();
        assert_eq!(server.next_signal(), "begun");
        assert_eq!(echo(&client, "hi").unwrap(), "hi");
        assert_eq!(terminator.next_handshake().kind, HandshakeKind::Resumed);
        drop(held);
        assert_eq!(server.next_signal(), "cancelled");
    }
}
