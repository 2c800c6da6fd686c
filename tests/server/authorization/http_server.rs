//! A server whose responses the test sets: key sets, and answers about tokens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

#[expect(clippy::disallowed_types, reason = "the test changes what the thread sends")]
type Mutex<T> = std::sync::Mutex<T>;

/// What each request gets.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This text.
    Text(String),
    /// Nothing, and the connection stays open.
    Nothing,
    /// A response whose body does not end.
    Endless,
}

/// A server of HTTP without TLS.
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    reply: Arc<Mutex<Reply>>,
    count: Arc<AtomicUsize>,
    requests: Receiver<String>,
    gate: Sender<()>,
}

impl HttpServer {
    /// Starts a server that replies at once.
    pub(crate) fn start(reply: Reply) -> Self {
        let server = Self::gated(reply);
        for _ in 0..10_000 {
            server.open_gate();
        }
        server
    }

    /// Starts a server that replies to a request for each [`HttpServer::open_gate`].
    pub(crate) fn gated(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (reply, count) = (Arc::new(Mutex::new(reply)), Arc::<AtomicUsize>::default());
        let (request_tx, requests) = channel();
        let (gate, opened) = channel();
        let (shared, counted) = (Arc::clone(&reply), Arc::clone(&count));
        thread::spawn(move || {
            let mut open_streams = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let request = read_request(&mut stream);
                if request.is_empty() {
                    // A terminator of TLS connects before its handshake.
                    continue;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                if request_tx.send(request).is_err() || opened.recv().is_err() {
                    return;
                }
                let reply = shared.lock().expect("no panic").clone();
                write_reply(&mut stream, &reply);
                open_streams.extend(matches!(reply, Reply::Nothing).then_some(stream));
            }
        });
        Self { address, reply, count, requests, gate }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets what later requests get.
    pub(crate) fn set(&self, reply: Reply) {
        *self.reply.lock().expect("no panic") = reply;
    }

    /// Lets one more request have its reply.
    pub(crate) fn open_gate(&self) {
        self.gate.send(()).expect("the server runs");
    }

    /// Waits for the next request, and returns it.
    pub(crate) fn next_request(&self) -> String {
        self.requests.recv().expect("a request")
    }

    /// The number of requests so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// A response with this JSON.
pub(crate) fn ok(json: &Value) -> Reply {
    let text = json.to_string();
    Reply::Text(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()))
}

/// A response without body.
pub(crate) fn status(line: &str, fields: &str) -> Reply {
    Reply::Text(format!("HTTP/1.1 {line}\r\n{fields}Content-Length: 0\r\n\r\n"))
}

/// Reads a request with the body that its length announces.
pub(crate) fn read_request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the body");
    bytes.extend_from_slice(&body);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ends when the client does not read on.
fn write_reply(stream: &mut TcpStream, reply: &Reply) {
    match reply {
        Reply::Text(text) => stream.write_all(text.as_bytes()).unwrap_or_default(),
        Reply::Nothing => {}
        Reply::Endless => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            let mut is_read = stream.write_all(head.as_bytes()).is_ok();
            while is_read {
                is_read = stream.write_all(chunk.as_bytes()).is_ok();
            }
        }
    }
}
