//! Floods of tokens that the authorization server is asked about: clients of other addresses are
//! served, and credentials are withdrawn all the same.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use corelane::Options;
use corelane_engine::clock::unix_ms;
use corelane_test_support::{TestServer, sockets};
use serde_json::json;

use crate::authorization::http::{Response, modern_request, post, read, send};
use crate::authorization::http_server::read_request;
use crate::authorization::retry::retry;
use crate::authorization::{Authority, RESOURCE, call, catalog, hash_of, options};

const ATTACKERS: [IpAddr; 3] = [address(1), address(2), address(3)];
const HONEST: IpAddr = address(4);

const fn address(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, last))
}

/// An endpoint of introspection. Tokens that begin with `honest` are active, those with `odd` get
/// status 400, and others no response as long as the endpoint lives.
struct Endpoint {
    address: SocketAddr,
    /// The tokens that get no response.
    held: Receiver<(String, TcpStream)>,
}

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (held_tx, held) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let request = read_request(&mut stream);
                let (_, token) = request.split_once("token=").expect("a token");
                let (token, _) = token.split_once('&').expect("a further member");
                let active = json!({"active": true, "sub": token, "aud": RESOURCE}).to_string();
                let (status, body) = match token {
                    _ if token.starts_with("honest") => ("200 OK", &*active),
                    _ if token.starts_with("odd") => ("400 Bad Request", "{}"),
                    _ if held_tx.send((token.to_owned(), stream)).is_ok() => continue,
                    _ => return,
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(head.as_bytes()).ok();
            }
        });
        Self { address, held }
    }

    fn options(&self, authority: &Authority) -> Options {
        let mut auth = authority.key_options();
        auth.resource = Some(RESOURCE.to_owned());
        auth.issuers = vec![authority.issuer.name().to_owned()];
        auth.introspection = Some(format!("http://{}/introspect", self.address));
        auth.introspections_at_once_max = 8;
        auth.introspections_max = 16;
        let mut options = options(auth);
        options.engine.shards = Some(1);
        options
    }

    /// Waits until nothing more is asked about for the attackers: each address has left places.
    fn wait_for_flood(&self) -> Vec<(String, TcpStream)> {
        self.held.iter().take(6).collect()
    }
}

/// Sends a call from an address, and returns its connection.
fn begin(from: IpAddr, server: &TestServer, token: &str) -> TcpStream {
    let fields = format!("Authorization: Bearer {token}\r\n");
    let request = modern_request(server.http(), "/mcp", &call("whoami"), &fields);
    let mut stream = sockets::connect_from(from, server.http());
    stream.write_all(request.as_bytes()).expect("the request is sent");
    stream
}

fn call_from(from: IpAddr, server: &TestServer, token: &str) -> Response {
    read(&mut begin(from, server, token))
}

/// Sends 80 unknown tokens from each address.
fn flood(server: &TestServer) -> Vec<TcpStream> {
    let numbers = 0..80;
    numbers
        .flat_map(|number| ATTACKERS.map(|from| (number, from)))
        .map(|(number, from)| begin(from, server, &format!("unknown-{number}-{from}")))
        .collect()
}

#[test]
fn flood_of_unknown_tokens_refuses_no_other() {
    let (authority, endpoint) = (Authority::new(), Endpoint::start());
    let server = TestServer::with_catalog(endpoint.options(&authority), catalog());
    assert_eq!(call_from(HONEST, &server, "honest-0").text(), "honest-0 (user)");
    let attackers = flood(&server);
    let held = endpoint.wait_for_flood();
    for number in 0..9 {
        let token = format!("honest-{number}");
        let caller = format!("{token} (user)");
        assert_eq!(call_from(HONEST, &server, &token).text(), caller);
    }
    // An address with a token that is known is served, too.
    assert_eq!(call_from(ATTACKERS[1], &server, "honest-1").text(), "honest-1 (user)");
    drop((attackers, held));
    server.close();
}

#[test]
fn token_beyond_the_queue_gets_503() {
    let (authority, endpoint) = (Authority::new(), Endpoint::start());
    let server = TestServer::with_catalog(endpoint.options(&authority), catalog());
    let attackers = flood(&server);
    let held = endpoint.wait_for_flood();
    // The newest of an address is the first to lose its place.
    for mut stream in attackers.into_iter().rev().take(3) {
        read(&mut stream).expect_unavailable("too many tokens are being introspected; try again");
    }
    drop(held);
    server.close();
}

#[test]
fn refused_introspection_pauses_no_other_token() {
    let (authority, endpoint) = (Authority::new(), Endpoint::start());
    let server = TestServer::with_catalog(endpoint.options(&authority), catalog());
    for number in 0..20 {
        let odd = call_from(HONEST, &server, &format!("odd-{number}"));
        odd.expect_unavailable("the authorization server does not respond to introspection");
        let token = format!("honest-{number}");
        assert_eq!(call_from(HONEST, &server, &token).text(), format!("{token} (user)"));
    }
    server.close();
}

#[test]
fn key_is_withdrawn_during_flood() {
    let (authority, endpoint) = (Authority::new(), Endpoint::start());
    let mut options = endpoint.options(&authority);
    options.auth.check_interval = Duration::from_millis(10);
    let keys = format!("bob:{}\n", hash_of("odd-key"));
    let path = authority.write("keys.txt", &keys);
    let server = TestServer::with_catalog(options, catalog());
    assert_eq!(post(server.http(), &call("whoami"), Some("odd-key")).text(), "bob (user)");
    let attackers = flood(&server);
    let held = endpoint.wait_for_flood();
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    // The endpoint, which does not know it, is asked about the key once that is withdrawn.
    retry(|| (call_from(HONEST, &server, "odd-key").status != 200).then_some(()));
    assert_eq!(call_from(HONEST, &server, "key-ada").text(), "ada (admin)");
    drop((attackers, held));
    server.close();
}

#[test]
fn age_of_credentials_is_a_metric() {
    let (authority, endpoint) = (Authority::new(), Endpoint::start());
    let mut options = endpoint.options(&authority);
    options.auth.check_interval = Duration::from_millis(10);
    let path = options.auth.api_keys[0].clone();
    let server = TestServer::with_catalog(options.clone(), catalog());
    let read_at = || {
        let metrics = send(server.http(), "GET", "/metrics", "").body;
        let name = "corelane_auth_credentials_read_timestamp_seconds{source=\"files\"} ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.expect("the metric").parse::<u64>().expect("seconds")
    };
    let first = read_at();
    // Looked at in each interval.
    retry(|| (read_at() != first).then_some(()));
    // A file that is invalid is not counted as read.
    fs::write(&path, "broken").unwrap();
    assert!(server.handle().reload_auth(&options).is_err());
    let last = read_at();
    retry(|| {
        assert_eq!(read_at(), last);
        (unix_ms() / 1_000 > last + 1).then_some(())
    });
    server.close();
}
