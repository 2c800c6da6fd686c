//! An HTTP server on threads: one reply for each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What the server does with one request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Writes these bytes; the connection stays open.
    Bytes(Vec<u8>),
    /// Writes these bytes and closes the connection.
    Close(Vec<u8>),
    /// Writes the first bytes and then the second ones until the client closes the connection.
    Endless(Vec<u8>, Vec<u8>),
    /// Writes these bytes and waits until the client closes the connection.
    Hang(Vec<u8>),
}

impl Reply {
    /// A response with its length.
    pub(crate) fn new(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = format!("Content-Length: {}", body.len());
        let lines: Vec<&str> = headers.lines().chain([length.as_str()]).collect();
        let head = format!("HTTP/1.1 {status}\r\n{}\r\n\r\n", lines.join("\r\n"));
        Self::Bytes([head.as_bytes(), body].concat())
    }

    /// A successful response in JSON.
    pub(crate) fn json(body: &str) -> Self {
        Self::new("200 OK", "Content-Type: application/json", body)
    }
}

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Received {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    /// The target in the request line.
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A server that answers each request with what a function returns for it.
pub(crate) struct TestServer {
    address: SocketAddr,
    requests: Receiver<Received>,
    closed: Receiver<()>,
}

/// What the threads of the connections share.
struct Shared<F> {
    reply: F,
    count: AtomicUsize,
}

impl TestServer {
    /// Starts a server; the function gets the number of the request, from 0, and its target.
    pub(crate) fn start(reply: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (request_tx, requests) = channel();
        let (closed_tx, closed) = channel();
        let shared = Arc::new(Shared { reply, count: AtomicUsize::new(0) });
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, requests) = (Arc::clone(&shared), request_tx.clone());
                let closed = closed_tx.clone();
                thread::spawn(move || {
                    // The client may close the connection at any time.
                    let _ended = stream.and_then(|stream| serve(&stream, &shared, &requests));
                    // The test may have ended.
                    let _ended = closed.send(());
                });
            }
        });
        Self { address, requests, closed }
    }

    /// A server with the same reply to each request.
    pub(crate) fn always(reply: Reply) -> Self {
        Self::start(move |_, _| reply.clone())
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next request.
    pub(crate) fn request(&self) -> Received {
        self.requests.recv().unwrap()
    }

    /// The requests that have come.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.requests.try_iter().collect()
    }

    /// Waits until a client has closed a connection.
    pub(crate) fn wait_for_close(&self) {
        self.closed.recv().unwrap();
    }
}

fn serve<F: Fn(usize, &str) -> Reply>(
    mut stream: &TcpStream,
    shared: &Shared<F>,
    requests: &Sender<Received>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(received) = read_request(&mut reader)? {
        let number = shared.count.fetch_add(1, Ordering::Relaxed);
        let reply = (shared.reply)(number, received.target());
        // The test may have ended.
        let _ended = requests.send(received);
        match reply {
            Reply::Bytes(bytes) => stream.write_all(&bytes)?,
            Reply::Close(bytes) => return stream.write_all(&bytes),
            Reply::Endless(first, rest) => {
                stream.write_all(&first)?;
                loop {
                    stream.write_all(&rest)?;
                }
            }
            Reply::Hang(bytes) => {
                stream.write_all(&bytes)?;
                reader.read_to_end(&mut Vec::new())?;
            }
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Received>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut received = Received { head, body: String::new() };
    let length = received.header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    received.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(received))
}
