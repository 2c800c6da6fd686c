//! Key sets that are fetched: rotation, and servers that are away.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use corelane_test_support::TestServer;

use crate::http::{Response, post};
use crate::{Authority, TestIssuer, call, catalog, options};

#[expect(clippy::disallowed_types, reason = "the test changes what the thread sends")]
type Mutex<T> = std::sync::Mutex<T>;

/// A server of key sets, whose response the test sets.
struct KeyServer {
    url: String,
    response: Arc<Mutex<String>>,
    requests: Arc<AtomicUsize>,
    served: Receiver<()>,
}

impl KeyServer {
    fn start(response: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let (response, requests) = (Arc::new(Mutex::new(response)), Arc::default());
        let (served_tx, served): (Sender<()>, _) = channel();
        let (shared, counted) = (Arc::clone(&response), Arc::<AtomicUsize>::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let response = shared.lock().expect("no panic").clone();
                stream.write_all(response.as_bytes()).expect("the response is sent");
                drop(stream);
                counted.fetch_add(1, Ordering::SeqCst);
                if served_tx.send(()).is_err() {
                    return;
                }
            }
        });
        Self { url, response, requests, served }
    }

    fn set(&self, response: String) {
        *self.response.lock().expect("no panic") = response;
    }
}

fn ok(issuer: &TestIssuer) -> String {
    let text = issuer.key_set().to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

fn start(authority: &Authority, keys: &KeyServer) -> TestServer {
    let mut auth = authority.jwt_options();
    auth.key_sets = vec![keys.url.clone()];
    TestServer::with_catalog(options(auth), catalog())
}

/// Repeats a call while the keys are on their way.
fn post_until_known(server: &TestServer, token: &str) -> Response {
    loop {
        let response = post(server.http(), &call("whoami"), Some(token));
        if response.status != 503 {
            return response;
        }
        assert_eq!((response.challenge(), response.field("Retry-After")), ("", Some("1")));
    }
}

#[test]
fn fetched_keys_verify_tokens() {
    let authority = Authority::new();
    let keys = KeyServer::start(ok(&authority.issuer));
    let server = start(&authority, &keys);
    let response = post_until_known(&server, &authority.issuer.token("ada", ""));
    assert_eq!(response.text(), "ada (user)");
    // The key of another issuer's set is unknown; it is asked for once, then refused.
    let foreign = TestIssuer::with_key("key-9").token("ada", "");
    let refused = post_until_known(&server, &foreign);
    assert_eq!(refused.status, 401);
    assert!(refused.challenge().contains("no key with the id"), "{refused:?}");
    let asked = keys.requests.load(Ordering::SeqCst);
    for _ in 0..20 {
        assert_eq!(post(server.http(), &call("whoami"), Some(&foreign)).status, 401);
    }
    assert_eq!(keys.requests.load(Ordering::SeqCst), asked);
    server.close();
}

#[test]
fn rotated_key_is_fetched_at_first_use() {
    let authority = Authority::new();
    let keys = KeyServer::start(ok(&authority.issuer));
    let server = start(&authority, &keys);
    post_until_known(&server, &authority.issuer.token("ada", ""));
    let next = TestIssuer::with_key("key-2");
    keys.set(ok(&next));
    assert_eq!(post_until_known(&server, &next.token("ada", "")).text(), "ada (user)");
    server.close();
}

#[test]
fn key_server_that_is_away_gives_503() {
    let authority = Authority::new();
    let away = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    let redirect =
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"keys\":[]}";
    for response in [away, redirect, empty, "not HTTP\r\n\r\n"] {
        let keys = KeyServer::start(response.to_owned());
        let server = start(&authority, &keys);
        keys.served.recv().expect("a request");
        let refused =
            post(server.http(), &call("whoami"), Some(&authority.issuer.token("ada", "")));
        assert_eq!((refused.status, refused.challenge()), (503, ""), "{response}");
        assert_eq!(refused.field("Retry-After"), Some("1"));
        server.close();
    }
}
