//! An authorization server that is asked about tokens (RFC 7662).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::credentials::RESOURCE;

/// Start of the tokens that are valid.
pub(crate) const VALID: &str = "honest";
/// Start of the tokens that get no response.
pub(crate) const UNANSWERED: &str = "hanging";

/// A running introspection endpoint; it ends with the process.
#[derive(Debug)]
pub(crate) struct IntrospectionEndpoint {
    address: SocketAddr,
}

impl IntrospectionEndpoint {
    /// Starts it.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The server reports a request that failed.
                thread::spawn(move || respond(stream).unwrap_or(()));
            }
        });
        Ok(Self { address })
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/introspect", self.address)
    }
}

/// Responds to one request.
fn respond(mut stream: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let token = loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..length]);
        let text = String::from_utf8_lossy(&request);
        let token = text.split_once("token=").and_then(|(_, rest)| rest.split_once('&'));
        if let Some((token, _)) = token {
            break token.to_owned();
        }
    };
    if token.starts_with(UNANSWERED) {
        // Until the server closes the connection.
        return io::copy(&mut stream, &mut io::sink()).map(drop);
    }
    let body = if token.starts_with(VALID) {
        format!(r#"{{"active":true,"sub":"honest","aud":"{RESOURCE}"}}"#)
    } else {
        r#"{"active":false}"#.to_owned()
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}
