//! A line-based JSON client over any byte stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use serde_json::Value;

use crate::process::TIMEOUT;

/// A peer of the server. Dropping it or [`Peer::close_writer`] ends its output.
pub(crate) struct Peer {
    writer: Option<Box<dyn Write>>,
    lines: Receiver<Vec<u8>>,
}

impl Peer {
    /// Creates a peer that writes to `writer` and reads from `reader`.
    pub(crate) fn new(writer: impl Write + 'static, reader: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            loop {
                let mut line = Vec::new();
                // A reset counts as end of stream.
                let length = reader.read_until(b'\n', &mut line).unwrap_or(0);
                if length == 0 || sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { writer: Some(Box::new(writer)), lines }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    /// Sends `bytes` and a newline.
    pub(crate) fn send_line(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("sending side is open");
        let line = [bytes, b"\n"].concat();
        writer.write_all(&line).and_then(|()| writer.flush()).expect("server reads");
    }

    /// Receives one message.
    pub(crate) fn receive(&mut self) -> Value {
        self.receive_text().0
    }

    /// Receives one message; returns it parsed and as text.
    pub(crate) fn receive_text(&mut self) -> (Value, String) {
        let line = match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => line,
            Err(reason) => panic!("no message: {reason}"),
        };
        let text = line.strip_suffix(b"\n").expect("message ends with a line feed");
        assert!(!text.contains(&b'\r'), "message contains a carriage return");
        let text = String::from_utf8(text.to_vec()).expect("message is UTF-8");
        let message = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (message, text)
    }

    /// Closes the sending side; messages can still be received.
    pub(crate) fn close_writer(&mut self) {
        self.writer = None;
    }

    /// Waits for the end of the stream, before which no message may arrive.
    pub(crate) fn expect_end(&mut self) {
        match self.lines.recv_timeout(TIMEOUT) {
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => panic!("the stream does not end"),
            Ok(line) => panic!("unexpected message: {}", String::from_utf8_lossy(&line)),
        }
    }
}
