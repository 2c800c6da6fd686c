//! A web server with one page, as another origin.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The server, on a loopback port until the process exits.
pub(crate) struct ForeignSite {
    address: SocketAddr,
}

impl ForeignSite {
    /// Serves a page with `script` for every request.
    pub(crate) fn start(script: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A browser opens connections without a request.
                thread::spawn(move || serve(&stream, script));
            }
        });
        Self { address }
    }

    /// Returns the origin of the page under the host name `name`.
    pub(crate) fn origin(&self, name: &str) -> String {
        format!("http://{name}:{}", self.address.port())
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: &TcpStream, script: &str) {
    let head = BufReader::new(stream).lines().map_while(Result::ok);
    if !head.into_iter().any(|line| line.is_empty()) {
        return;
    }
    let page = format!("<!doctype html><title>elsewhere</title><script>{script}</script>");
    let length = page.len();
    let fields = format!("Content-Type: text/html\r\nContent-Length: {length}\r\n");
    let response = format!("HTTP/1.1 200 OK\r\n{fields}Connection: close\r\n\r\n{page}");
    // The browser may have closed the connection.
    drop(stream.write_all(response.as_bytes()));
}
