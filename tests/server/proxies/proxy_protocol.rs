//! The PROXY protocol on the listeners of TCP and HTTP, with and without TLS.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;

use corelane::Options;
use corelane::options::ProxyProtocol;
use corelane_test_support::messages::{LEGACY, expect_error, modern, result_text};
use corelane_test_support::sockets::connect_from;
use corelane_test_support::tls::{CertificateValidity, Issuer, TargetClient};
use corelane_test_support::{HttpClient, LineClient, Request, TestServer, over_each_ring};
use serde_json::Value;

use crate::proxies::{OTHER, PROXY, catalog, options, peer_call, peer_request, seen_peer};

const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 8080 80\r\n";
const LINE_WITHOUT_ADDRESS: &[u8] = b"PROXY UNKNOWN\r\n";

/// A header of version 2 from 192.0.2.2, with `command` 1 for a client, 0 for the proxy itself.
fn binary(command: u8, more: &[u8]) -> Vec<u8> {
    let addresses = [192, 0, 2, 2, 198, 51, 100, 2, 0x1f, 0x90, 0, 80];
    let length = u16::try_from(addresses.len() + more.len()).expect("a short header").to_be_bytes();
    let start = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | command, 0x11], &length].concat();
    [&start[..], &addresses, more].concat()
}

/// Options of a server whose listeners require headers.
fn requiring_headers() -> Options {
    let mut options = options();
    options.tcp.proxy_protocol = ProxyProtocol::Required;
    options.http.proxy_protocol = ProxyProtocol::Required;
    options.admin.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options
}

fn start(options: Options) -> TestServer {
    TestServer::with_catalog(options, catalog())
}

/// Returns the number of connections with this result of their header.
fn headers(server: &TestServer, result: &str) -> u64 {
    let mut operator = HttpClient::connect(server.admin_address());
    operator.send(&Request::new("GET", "/metrics"));
    let head = operator.read_head();
    let text = String::from_utf8(operator.read_body(head).body).expect("a text");
    let name = format!("corelane_proxy_headers_total{{result=\"{result}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.expect("the metric").parse().expect("a number")
}

/// Returns the address that a handler sees of a connection of lines.
fn line_peer(client: &mut LineClient) -> String {
    result_text(&client.exchange(modern(peer_call()))).to_owned()
}

#[test]
fn proxy_header_names_client_of_connection() {
    let long = binary(1, &[0; 3000]);
    over_each_ring(requiring_headers(), |options| {
        let server = start(options);
        for (header, expected) in [
            (LINE, "192.0.2.1:8080"),
            (&binary(1, &[]), "192.0.2.2:8080"),
            (&long, "192.0.2.2:8080"),
            (b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "[2001:db8::1]:1"),
        ] {
            let mut lines = LineClient::connect_from(PROXY, server.tcp());
            lines.send_bytes(header);
            assert_eq!(line_peer(&mut lines), expected);
            let mut http = HttpClient::connect_from(PROXY, server.http());
            http.send_bytes(header);
            for _ in 0..2 {
                assert_eq!(seen_peer(&mut http, &peer_request()), expected);
            }
        }
        assert_eq!(headers(&server, "client"), 8);
        server.close();
    });
}

#[test]
fn proxy_header_and_messages_may_arrive_together() {
    over_each_ring(requiring_headers(), |options| {
        let server = start(options);
        let call = format!("{}\n", modern(peer_call()));
        let header = binary(1, &[]);
        let mut lines = LineClient::connect_from(PROXY, server.tcp());
        lines.send_bytes(&[&header[..], call.as_bytes(), call.as_bytes()].concat());
        for _ in 0..2 {
            assert_eq!(result_text(&lines.receive()), "192.0.2.2:8080");
        }
        let mut lines = LineClient::connect_from(PROXY, server.tcp());
        lines.send_bytes(&[&header[..], call.as_bytes()].concat());
        lines.shutdown_write();
        assert_eq!(result_text(&lines.receive()), "192.0.2.2:8080");
        lines.expect_end();
        server.close();
    });
}

#[test]
fn proxy_header_may_be_split_at_every_byte() {
    let mut options = requiring_headers();
    options.tcp.connections_max = 1_000;
    over_each_ring(options, |options| {
        let server = start(options);
        for (header, expected) in
            [(LINE, "192.0.2.1:8080"), (&binary(1, &[7; 9]), "192.0.2.2:8080")]
        {
            // All at once, so that the pieces of one arrive between those of others.
            let mut clients: Vec<_> = (0..=header.len())
                .map(|at| (at, LineClient::connect_from(PROXY, server.tcp())))
                .collect();
            for (at, client) in &mut clients {
                client.send_bytes(&header[..*at]);
            }
            for (at, client) in &mut clients {
                client.send_bytes(&header[*at..]);
            }
            for (at, client) in &mut clients {
                assert_eq!(line_peer(client), expected, "split at {at}");
            }
        }
        let mut client = LineClient::connect_from(PROXY, server.tcp());
        for byte in LINE {
            client.send_bytes(&[*byte]);
        }
        assert_eq!(line_peer(&mut client), "192.0.2.1:8080");
        drop(client);
        server.close();
    });
}

#[test]
fn connection_without_valid_header_is_reset() {
    over_each_ring(requiring_headers(), |options| {
        let server = start(options);
        let call = format!("{}\n", modern(peer_call()));
        let both = [LINE, &binary(1, &[])].concat();
        for (from, sent, result) in [
            (OTHER, LINE, "untrusted"),
            (PROXY, call.as_bytes(), "missing"),
            (PROXY, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "missing"),
            (PROXY, b"PROXY TCP4 192.0.2.1 198.51.100.2 8080\r\n", "invalid"),
            (PROXY, &binary(2, &[]), "invalid"),
            (PROXY, &binary(1, &[0; 5000]), "invalid"),
        ] {
            for address in [server.tcp(), server.http()] {
                let before = headers(&server, result);
                let mut client = LineClient::connect_from(from, address);
                client.try_send_bytes(sent).ok();
                assert!(client.receive_rest_or_reset().is_empty(), "{result}");
                assert_eq!(headers(&server, result), before + 1);
            }
        }
        // A second header is not one of the protocol behind it.
        let mut twice = LineClient::connect_from(PROXY, server.tcp());
        twice.send_bytes(&[&both[..], b"\n"].concat());
        let error = twice.receive();
        assert_eq!(error["error"]["code"], -32700, "{error}");
        drop(twice);
        let counters = server.close();
        assert_eq!(counters.connections.accepted, counters.connections.closed);
    });
}

#[test]
fn header_without_client_keeps_peer() {
    over_each_ring(requiring_headers(), |options| {
        let server = start(options);
        for header in [LINE_WITHOUT_ADDRESS, &binary(0, &[])] {
            let mut client = LineClient::connect_from(PROXY, server.tcp());
            let own = client.socket().local_addr().unwrap().to_string();
            client.send_bytes(header);
            assert_eq!(line_peer(&mut client), own);
            // Such a peer is the proxy, whose requests may name their clients.
            let mut http = HttpClient::connect_from(PROXY, server.http());
            http.send_bytes(header);
            let request = peer_request().field("X-Forwarded-For", "192.0.2.7");
            assert_eq!(seen_peer(&mut http, &request), "192.0.2.7:0");
        }
        assert_eq!(headers(&server, "local"), 4);
        server.close();
    });
}

#[test]
fn field_of_client_behind_header_is_ignored() {
    let server = start(requiring_headers());
    let mut http = HttpClient::connect_from(PROXY, server.http());
    http.send_bytes(LINE);
    let forged = peer_request().field("X-Forwarded-For", "192.0.2.7");
    assert_eq!(seen_peer(&mut http, &forged), "192.0.2.1:8080");
    // A proxy in front of the proxy.
    let mut http = HttpClient::connect_from(PROXY, server.http());
    http.send_bytes(b"PROXY TCP4 10.0.0.5 198.51.100.2 8080 80\r\n");
    assert_eq!(seen_peer(&mut http, &forged), "192.0.2.7:0");
    drop(http);
    let forwarded = server.close().forwarded;
    assert_eq!((forwarded.ignored, forwarded.client), (1, 1));
}

#[test]
fn limits_count_address_of_header() {
    let mut options = requiring_headers();
    (options.tcp.connections_max, options.limits.address_share_percent) = (8, 50);
    options.rate.rules = vec!["tools/call rate=1/h per=address".to_owned()];
    over_each_ring(options, |options| {
        let server = start(options);
        let connect = |header: &[u8]| {
            let mut client = LineClient::connect_from(PROXY, server.tcp());
            client.send_bytes(header);
            client
        };
        let mut first: Vec<_> = (0..4).map(|_| connect(LINE)).collect();
        for client in &mut first {
            client.handshake(LEGACY);
        }
        let mut refused = connect(LINE);
        expect_error(&refused.receive(), 1001, None);
        let mut second = connect(&binary(1, &[]));
        second.handshake(LEGACY);
        let call = peer_call();
        assert_eq!(result_text(&first[0].exchange(&call)), "192.0.2.1:8080");
        expect_error(&first[1].exchange(&call), 1002, Some(Value::from(7)));
        assert_eq!(result_text(&second.exchange(&call)), "192.0.2.2:8080");
        drop((first, refused, second));
        server.close();
    });
}

#[test]
fn proxy_header_precedes_tls() {
    let (issuer, directory) = (Issuer::new(), tempfile::tempdir().unwrap());
    let certificate = issuer.server_certificate(CertificateValidity::Valid);
    let files = [("server.pem", certificate.pem()), ("key.pem", certificate.key_pem())];
    let [chain, key] = files.map(|(name, text)| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let mut options = requiring_headers();
    (options.tls.certificates, options.tls.keys) = (vec![chain], vec![key]);
    options.tls.handshakes_per_address_max = 1;
    over_each_ring(options, |options| {
        let server = start(options);
        let client = TargetClient::new(Some(issuer.pem().as_bytes()));
        let call = format!("{}\n", modern(peer_call()));
        for header in [LINE, &binary(1, &[0; 100])] {
            let mut stream = connect_from(PROXY, server.tcp());
            stream.write_all(header).unwrap();
            let mut stream = client.handshake("localhost", stream).unwrap();
            stream.write_all(call.as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            let response: Value = serde_json::from_str(&line).unwrap();
            assert!(result_text(&response).ends_with(":8080"), "{response}");
        }
        // Without a header TLS does not begin.
        let stream = connect_from(PROXY, server.tcp());
        assert!(client.handshake("localhost", stream).is_err());
        server.close();
    });
}
