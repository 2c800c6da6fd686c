//! The client: connections with listening streams.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Its response shows that a connection is accepted and has its buffers.
const DISCOVER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"ready","method":"server/discover","params":{"_meta":{"#,
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    "\n"
);

/// Open connections with the same number of streams.
pub(crate) struct Subscribers {
    connections: Vec<BufReader<TcpStream>>,
    streams: usize,
    line: String,
}

impl Subscribers {
    /// Connects and waits until the server responds on every connection.
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let mut subscribers = Self { connections: Vec::new(), streams: 0, line: String::new() };
        for _ in 0..connections {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(READ_TIMEOUT))?;
            subscribers.connections.push(BufReader::with_capacity(64 << 10, stream));
            let response = subscribers.request(subscribers.connections.len() - 1, DISCOVER)?;
            expect(response["id"] == "ready", &response)?;
        }
        Ok(subscribers)
    }

    /// Opens `streams` acknowledged streams on every connection.
    pub(crate) fn listen(&mut self, streams: usize) -> io::Result<()> {
        self.streams = streams;
        for index in 0..self.connections.len() {
            for id in 0..streams {
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let filter = json!({"toolsListChanged": true});
                let params = json!({"_meta": meta, "notifications": filter});
                let text = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
                    "params": params});
                let message = self.request(index, &format!("{text}\n"))?;
                let method = "notifications/subscriptions/acknowledged";
                expect(
                    message["method"] == method && subscription(&message) == Some(id),
                    &message,
                )?;
            }
        }
        Ok(())
    }

    /// Waits until every stream has received a notification; returns the time that took. The
    /// notifications are checked afterwards.
    pub(crate) fn receive_change(&mut self) -> io::Result<Duration> {
        #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
        let start = Instant::now();
        let mut received = Vec::with_capacity(self.connections.len());
        for connection in &mut self.connections {
            let mut lines = Vec::with_capacity(self.streams * 160);
            for _ in 0..self.streams {
                if connection.read_until(b'\n', &mut lines)? == 0 {
                    return Err(io::Error::other("the server closed a connection"));
                }
            }
            received.push(lines);
        }
        let took = start.elapsed();
        for lines in received {
            let mut notified = vec![false; self.streams];
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let message: Value = serde_json::from_slice(line).map_err(io::Error::other)?;
                expect(message["method"] == "notifications/tools/list_changed", &message)?;
                let id = subscription(&message).filter(|id| *id < self.streams);
                let is_first = id.is_some_and(|id| !std::mem::replace(&mut notified[id], true));
                expect(is_first, &message)?;
            }
        }
        Ok(took)
    }

    fn request(&mut self, index: usize, text: &str) -> io::Result<Value> {
        let connection = &mut self.connections[index];
        connection.get_mut().write_all(text.as_bytes())?;
        self.line.clear();
        connection.read_line(&mut self.line)?;
        serde_json::from_str(&self.line).map_err(io::Error::other)
    }
}

/// Returns the subscription id of a notification.
fn subscription(message: &Value) -> Option<usize> {
    let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    id.as_u64().and_then(|id| usize::try_from(id).ok())
}

fn expect(holds: bool, message: &Value) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(format!("unexpected message: {message}"))) }
}
