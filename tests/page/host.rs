//! Somebody else's web server: it has one page and no business with MCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The server, on a port of the loopback. It ends with the process of its test.
pub(crate) struct Host {
    address: SocketAddr,
}

impl Host {
    /// Serves a page with `script` in it, whatever it is asked for.
    pub(crate) fn start(script: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A browser opens connections on which it says nothing.
                thread::spawn(move || serve(&stream, script));
            }
        });
        Self { address }
    }

    /// The origin of its page where people know it by `name`.
    pub(crate) fn origin(&self, name: &str) -> String {
        format!("http://{name}:{}", self.address.port())
    }
}

/// Answers one request; the browser asks on another connection for more.
fn serve(mut stream: &TcpStream, script: &str) {
    let head = BufReader::new(stream).lines().map_while(Result::ok);
    if !head.into_iter().any(|line| line.is_empty()) {
        return;
    }
    let page = format!("<!doctype html><title>elsewhere</title><script>{script}</script>");
    let length = page.len();
    let fields = format!("Content-Type: text/html\r\nContent-Length: {length}\r\n");
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Connection: close\r\n\r\n{page}");
    // A browser that has gone meanwhile needs no answer.
    drop(stream.write_all(answer.as_bytes()));
}
