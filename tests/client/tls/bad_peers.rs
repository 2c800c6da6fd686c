//! Servers that break TLS: a connection or a call fails with a known reason.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientError, ClientErrorKind, IoThread};
use corelane::testing::block_on;
use corelane_test_support::tls::{Issuer, Terminator, TlsFault, serve};
use corelane_test_support::{TIMEOUT, TestServer, http_options, tcp_options};
use serde_json::json;

use super::{client_of, echo, trusting};
use crate::discover_result;
use crate::http_peer::{HttpPeer, text_result};

/// Connects to a server that does not complete the handshake; it has 300 ms.
fn connect(scheme: &str, address: SocketAddr) -> ClientError {
    let client = Client::builder(format!("{scheme}://{address}").as_str());
    let client = client.tls(trusting(&Issuer::new())).connect_timeout(Duration::from_millis(300));
    client.connect_blocking().expect_err("the handshake is not completed")
}

#[test]
fn failed_tls_handshake_names_cause() {
    let closes = serve(|mut stream| drop(stream.read(&mut [0; 64])));
    let speaks_plain = serve(|mut stream| {
        drop(stream.read(&mut [0; 64]));
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
    });
    let mut kept = Vec::new();
    let silent = serve(move |stream| kept.push(stream));
    for (address, kind, text) in [
        (closes, ClientErrorKind::Connect, "closed the connection during the TLS handshake"),
        (speaks_plain, ClientErrorKind::Tls, "the server does not speak TLS on this port"),
        (silent, ClientErrorKind::Connect, "no reply to the TLS handshake"),
    ] {
        for scheme in ["tls", "https"] {
            let error = connect(scheme, address);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains(&address.to_string()), "{error}");
        }
    }
}

#[test]
fn stalled_handshake_delays_no_other_client() {
    let (accepted_tx, accepted_rx) = mpsc::channel();
    let stalled = serve(move |stream| accepted_tx.send(stream).expect("the test runs"));
    let thread = IoThread::start().unwrap();
    let slow = Client::builder(format!("https://{stalled}").as_str());
    let slow = slow.tls(trusting(&Issuer::new())).io_thread(&thread);
    let slow = slow.connect_timeout(Duration::from_mins(1)).connect_lazy().unwrap();
    let waiting = slow.call_tool("echo", &json!({})).into_future();
    let stream = accepted_rx.recv().unwrap();
    let server = TestServer::start(http_options());
    let fast = crate::http::client_of(&server).io_thread(&thread);
    assert_eq!(echo(&fast.connect_blocking().unwrap(), "hi").unwrap(), "hi");
    drop(stream);
    let error = block_on(waiting).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
}

#[test]
fn broken_tls_connection_fails_call() {
    let issuer = Issuer::new();
    let (lines, http) = (TestServer::start(tcp_options()), TestServer::start(http_options()));
    for (scheme, behind, fault, text) in [
        ("tls", lines.tcp(), TlsFault::InvalidData, "invalid TLS data"),
        ("https", http.http(), TlsFault::InvalidData, "invalid TLS data"),
        ("tls", lines.tcp(), TlsFault::CloseWithoutNotify, "without close_notify"),
        ("https", http.http(), TlsFault::CloseWithoutNotify, "before the end of the response"),
        ("tls", lines.tcp(), TlsFault::CloseNotifyOnly, "closed the connection"),
        ("https", http.http(), TlsFault::CloseNotifyOnly, "before the end of the response"),
    ] {
        let port = Terminator::start(behind, issuer.good_server(), fault).port();
        let client = client_of(scheme, port).tls(trusting(&issuer));
        // The first response is that of the handshake.
        let client = client.connect_blocking().unwrap();
        let error = echo(&client, "hi").unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Closed, "{scheme} {fault:?} {error}");
        assert!(error.to_string().contains(text), "{scheme} {fault:?} {error}");
    }
}

#[test]
fn request_on_closed_tls_connection_is_resent() {
    let (issuer, server) = (Issuer::new(), TestServer::start(http_options()));
    for fault in [TlsFault::CloseWithoutNotify, TlsFault::CloseNotifyOnly] {
        let port = Terminator::start(server.http(), issuer.good_server(), fault).port();
        let client = client_of("https", port).tls(trusting(&issuer)).connect_blocking().unwrap();
        let tools = block_on(client.list_tools()).unwrap();
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{fault:?}");
    }
}

/// Makes a call whose response ends with its connection.
fn read_body_to_end(fault: TlsFault) -> Result<String, ClientError> {
    let (peer, issuer) = (HttpPeer::bind(), Issuer::new());
    let port = Terminator::start(peer.address(), issuer.good_server(), fault).port();
    let peer = thread::spawn(move || {
        let mut connection = peer.accept();
        let discover = connection.receive();
        connection.send_json(&discover_result(&discover.body));
        let call = connection.receive();
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
        connection.send(&text_result(&call, "whole").to_string());
    });
    let client = client_of("https", port).tls(trusting(&issuer)).connect_blocking();
    let client = client.expect("a handshake");
    let result = echo(&client, "hi");
    peer.join().expect("the peer is served");
    result
}

#[test]
fn body_without_close_notify_is_truncated() {
    assert_eq!(read_body_to_end(TlsFault::NoFault).unwrap(), "whole");
    let error = read_body_to_end(TlsFault::EndWithoutNotify).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("before the end of the response"), "{error}");
}

#[test]
fn stalled_handshakes_hold_up_no_other_connection() {
    // The system completes the connections; nothing answers them.
    let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = Issuer::new();
    let server = TestServer::start(tcp_options());
    let terminator = Terminator::start(server.tcp(), issuer.good_server(), TlsFault::NoFault);
    let thread = IoThread::start().unwrap();
    let client = |port: u16| {
        let builder = client_of("tls", port).tls(trusting(&issuer)).io_thread(&thread);
        builder.connect_timeout(TIMEOUT).connect_lazy().unwrap()
    };
    let port = stalled.local_addr().unwrap().port();
    let waiting: Vec<Client> = (0..64).map(|_| client(port)).collect();
    let calls: Vec<_> = waiting
        .iter()
        .map(|client| client.call_tool("echo", &json!({})).timeout(TIMEOUT).into_future())
        .collect();
    let (ended_tx, ended_rx) = mpsc::channel();
    let waiter = thread::spawn(move || {
        for call in calls {
            ended_tx.send(block_on(call).unwrap_err().kind()).unwrap();
        }
    });
    // It connects while the others wait.
    assert_eq!(echo(&client(terminator.port()), "hi").unwrap(), "hi");
    assert!(ended_rx.try_recv().is_err(), "a stalled handshake has ended");
    drop((stalled, waiting));
    waiter.join().unwrap();
    assert_eq!(ended_rx.iter().count(), 64);
}
