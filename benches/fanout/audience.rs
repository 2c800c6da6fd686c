//! The client: connections full of streams, and what is heard on them.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long nothing may come while something is expected.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for whether a connection is served: it has its place and its buffers after that.
const DISCOVER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"here","method":"server/discover","params":{"_meta":{"#,
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    "\n"
);

/// Open connections, each with as many streams.
pub(crate) struct Audience {
    connections: Vec<BufReader<TcpStream>>,
    streams: usize,
    line: String,
}

impl Audience {
    /// Connects, and waits until every connection is served.
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let mut audience = Self { connections: Vec::new(), streams: 0, line: String::new() };
        for _ in 0..connections {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            audience.connections.push(BufReader::with_capacity(64 << 10, stream));
            let answer = audience.ask(audience.connections.len() - 1, DISCOVER)?;
            expect(answer["id"] == "here", &answer)?;
        }
        Ok(audience)
    }

    /// Opens `streams` streams on every connection; each must be acknowledged.
    pub(crate) fn listen(&mut self, streams: usize) -> io::Result<()> {
        self.streams = streams;
        for place in 0..self.connections.len() {
            for id in 0..streams {
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let wish = json!({"toolsListChanged": true});
                let params = json!({"_meta": meta, "notifications": wish});
                let text = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
                    "params": params});
                let said = self.ask(place, &format!("{text}\n"))?;
                let method = "notifications/subscriptions/acknowledged";
                expect(said["method"] == method && subscription(&said) == Some(id), &said)?;
            }
        }
        Ok(())
    }

    /// Waits until every stream has been told of a change; returns how long that took. What was
    /// heard is looked at afterwards.
    pub(crate) fn hear(&mut self) -> io::Result<Duration> {
        #[expect(clippy::disallowed_methods, reason = "a bench measures")]
        let start = Instant::now();
        let mut heard = Vec::with_capacity(self.connections.len());
        for connection in &mut self.connections {
            let mut lines = Vec::with_capacity(self.streams * 160);
            for _ in 0..self.streams {
                if connection.read_until(b'\n', &mut lines)? == 0 {
                    return Err(io::Error::other("the server ended a connection"));
                }
            }
            heard.push(lines);
        }
        let took = start.elapsed();
        for lines in heard {
            let mut told = vec![false; self.streams];
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let said: Value = serde_json::from_slice(line).map_err(io::Error::other)?;
                expect(said["method"] == "notifications/tools/list_changed", &said)?;
                let id = subscription(&said).filter(|id| *id < self.streams);
                let is_first = id.is_some_and(|id| !std::mem::replace(&mut told[id], true));
                expect(is_first, &said)?;
            }
        }
        Ok(took)
    }

    fn ask(&mut self, place: usize, text: &str) -> io::Result<Value> {
        let connection = &mut self.connections[place];
        connection.get_mut().write_all(text.as_bytes())?;
        self.line.clear();
        connection.read_line(&mut self.line)?;
        serde_json::from_str(&self.line).map_err(io::Error::other)
    }
}

/// The stream that a notification names.
fn subscription(said: &Value) -> Option<usize> {
    let id = &said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    id.as_u64().and_then(|id| usize::try_from(id).ok())
}

fn expect(holds: bool, said: &Value) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(format!("not expected: {said}"))) }
}
