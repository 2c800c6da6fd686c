//! An HTTP server on threads, with a response for each target.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What the server does with one request.
pub(super) enum Reply {
    /// Writes these bytes; the connection stays open.
    Bytes(Vec<u8>),
    /// Writes the first bytes, then the second ones until the client closes the connection.
    Endless(&'static str, &'static str),
    /// Waits until the client closes the connection.
    Hang,
    /// Closes the connection.
    Close,
}

impl Reply {
    /// A response with its length.
    pub(super) fn new(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n\r\n");
        Self::Bytes((head + body).into_bytes())
    }

    /// A successful response in JSON.
    pub(super) fn json(body: &str) -> Self {
        Self::new("200 OK", "Content-Type: application/json", body)
    }
}

/// A running server.
pub(super) struct Api {
    pub(super) address: SocketAddr,
    requests: Receiver<String>,
    closed: Receiver<String>,
}

impl Api {
    /// Starts a server; `reply` gets the target of a request.
    pub(super) fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (received, requests) = channel();
        let (ended, closed) = channel();
        let reply = Arc::new(reply);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (reply, received, ended) =
                    (Arc::clone(&reply), received.clone(), ended.clone());
                thread::spawn(move || serve(&stream, &*reply, &received, &ended));
            }
        });
        Self { address, requests, closed }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads and bodies of the requests that have come.
    pub(super) fn received(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }

    /// The next request.
    pub(super) fn wait_for_request(&self) -> String {
        self.requests.recv_timeout(corelane_test_support::TIMEOUT).expect("a request arrives")
    }

    /// Waits until the client closes the connection of a reply that does not end.
    pub(super) fn wait_for_close(&self) -> String {
        self.closed.recv_timeout(corelane_test_support::TIMEOUT).expect("the client closes")
    }
}

fn serve(
    stream: &TcpStream,
    reply: &(impl Fn(&str) -> Reply + ?Sized),
    received: &Sender<String>,
    ended: &Sender<String>,
) {
    let mut reader = BufReader::new(stream);
    // An error means that the client has closed the connection.
    while let Ok(Some(request)) = read_request(&mut reader) {
        let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
        // The test may have ended.
        received.send(request).ok();
        if !write_reply(stream, &mut reader, reply(&target)).unwrap_or_default() {
            ended.send(target).ok();
            return;
        }
    }
}

/// Returns whether the connection stays open.
fn write_reply(
    mut stream: &TcpStream,
    reader: &mut BufReader<&TcpStream>,
    reply: Reply,
) -> io::Result<bool> {
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).map(|()| true),
        Reply::Endless(first, rest) => {
            stream.write_all(first.as_bytes())?;
            loop {
                stream.write_all(rest.as_bytes())?;
            }
        }
        Reply::Hang => reader.read_to_end(&mut Vec::new()).map(|_| false),
        Reply::Close => Ok(false),
    }
}

/// Reads the head and the body of a request.
fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request)? == 0 {
            return Ok(None);
        }
    }
    let lower = request.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a number"))];
    reader.read_exact(&mut body)?;
    request.push_str(&String::from_utf8_lossy(&body));
    Ok(Some(request))
}
