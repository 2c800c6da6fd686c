//! An HTTP server that counts legacy sessions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens after the answer to a request of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum AfterAnswer {
    /// The connection stays open.
    #[default]
    Stays,
    /// The answer announces that the connection closes.
    Closes,
    /// The session ends: its next request is answered by status 404.
    EndsSession,
}

/// Counters of sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionServer {
    initialized: AtomicU64,
    deleted: AtomicU64,
    after: AfterAnswer,
}

impl SessionServer {
    /// Starts a server that runs until the end of the test.
    pub(crate) fn serve() -> (SocketAddr, Arc<Self>) {
        Self::serve_and(AfterAnswer::Stays)
    }

    /// Starts such a server, which does this after each answer.
    pub(crate) fn serve_and(after: AfterAnswer) -> (SocketAddr, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sessions = Arc::new(Self { after, ..Self::default() });
        let counted = Arc::clone(&sessions);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || counted.serve_connection(stream));
            }
        });
        (address, sessions)
    }

    /// Returns the number of initialized sessions.
    pub(crate) fn initialized(&self) -> u64 {
        self.initialized.load(Ordering::SeqCst)
    }

    /// Returns the number of sessions deleted by clients.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Serves one connection until it closes.
    fn serve_connection(&self, stream: TcpStream) -> Option<()> {
        let mut writer = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        let mut answered = 0;
        loop {
            let (mut verb, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                if verb.is_empty() {
                    line.split(' ').next()?.clone_into(&mut verb);
                }
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    length = value.trim().parse().ok()?;
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let is_request = !body.windows(10).any(|part| part == b"initialize");
            answered += u64::from(is_request);
            if self.after == AfterAnswer::EndsSession && answered > 1 {
                let head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                writer.write_all(head.as_bytes()).ok()?;
                continue;
            }
            let mut response = self.respond(&verb, &body)?;
            let closes = self.after == AfterAnswer::Closes && is_request;
            if closes {
                response = response.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            }
            writer.write_all(response.as_bytes()).ok()?;
            if closes {
                return None;
            }
        }
    }

    fn respond(&self, verb: &str, body: &[u8]) -> Option<String> {
        if verb == "DELETE" {
            self.deleted.fetch_add(1, Ordering::SeqCst);
            return Some("HTTP/1.1 204 No Content\r\n\r\n".into());
        }
        let message: serde_json::Value = serde_json::from_slice(body).ok()?;
        let Some(id) = message.get("id") else {
            return Some("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into());
        };
        let (mut session, mut result) = (String::new(), "{}");
        if message["method"] == "initialize" {
            let number = self.initialized.fetch_add(1, Ordering::SeqCst);
            session = format!("Mcp-Session-Id: s{number}\r\n");
            result = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
        }
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let length = text.len();
        Some(format!("HTTP/1.1 200 OK\r\n{session}Content-Length: {length}\r\n\r\n{text}"))
    }
}
