//! The other end of a byte stream: lines of JSON out and in.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use serde_json::Value;

use crate::process::PATIENCE;

/// A peer of the server. Dropping it, or [`Peer::finish`], ends what it says.
pub(crate) struct Peer {
    writer: Option<Box<dyn Write>>,
    lines: Receiver<Vec<u8>>,
}

impl Peer {
    /// A peer that says things into `writer` and hears them from `reader`.
    pub(crate) fn new(writer: impl Write + 'static, reader: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            loop {
                let mut line = Vec::new();
                // A reset ends the stream as an orderly end does.
                let length = reader.read_until(b'\n', &mut line).unwrap_or(0);
                if length == 0 || sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { writer: Some(Box::new(writer)), lines }
    }

    /// Says one message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.say_line(message.to_string().as_bytes());
    }

    /// Says bytes and ends the line.
    pub(crate) fn say_line(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("the peer still speaks");
        let line = [bytes, b"\n"].concat();
        writer.write_all(&line).and_then(|()| writer.flush()).expect("the server reads");
    }

    /// Waits for one message.
    pub(crate) fn hear(&mut self) -> Value {
        self.hear_text().0
    }

    /// Waits for one message; also as the text that it came as.
    pub(crate) fn hear_text(&mut self) -> (Value, String) {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(reason) => panic!("no message: {reason}"),
        };
        let text = line.strip_suffix(b"\n").expect("a message ends with a line feed");
        assert!(!text.contains(&b'\r'), "no carriage return stands in a line");
        let text = String::from_utf8(text.to_vec()).expect("a message is UTF-8");
        let message = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (message, text)
    }

    /// Says nothing more; what is on its way may still be heard.
    pub(crate) fn finish(&mut self) {
        self.writer = None;
    }

    /// Waits for the end of the stream; nothing more may come before it.
    pub(crate) fn hear_end(&mut self) {
        match self.lines.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => panic!("the stream does not end"),
            Ok(line) => panic!("one more message: {}", String::from_utf8_lossy(&line)),
        }
    }
}
