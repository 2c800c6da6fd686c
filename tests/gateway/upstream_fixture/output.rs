//! Standard output of the fixture, with its faults.

use std::fs::File;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::options::{Fault, Options};

/// Bytes of a line that is too long.
const HUGE_BYTES: usize = 20_000_000;
/// Bytes of a flood.
const FLOOD_BYTES: usize = 8_000_000;

/// Lines that are no messages.
const NOISE: [&str; 6] = [
    "Server listening on stdio",
    "",
    "{broken",
    "[]",
    r#"{"level":"info","msg":"ready","id":1}"#,
    "\u{1b}[1mnpm\u{1b}[0m notice New version of npm available!",
];

/// Writes messages.
pub(crate) struct Output {
    is_first: bool,
    noise: usize,
    faults: Vec<Fault>,
}

impl Output {
    pub(crate) fn new(options: &Options) -> Self {
        Self { is_first: true, noise: 0, faults: options.faults.clone() }
    }

    /// Writes a message as a line.
    pub(crate) fn write(&mut self, message: &Value) -> io::Result<()> {
        let mut line = Vec::new();
        if self.has(Fault::Noise) {
            for _ in 0..2 {
                writeln!(line, "{}", NOISE[self.noise % NOISE.len()])?;
                self.noise += 1;
            }
        }
        if self.has(Fault::MarkAndColors) {
            let mark = if self.is_first { "\u{feff}" } else { "" };
            write!(line, "{mark}\u{1b}[0m\u{1b}[32m")?;
        }
        self.is_first = false;
        serde_json::to_writer(&mut line, message)?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()
    }

    /// Writes the response of a call: here most faults are.
    pub(crate) fn write_call_response(&mut self, mut message: Value) -> io::Result<()> {
        if self.has(Fault::NeverAnswers) {
            return Ok(());
        }
        if self.has(Fault::ClosesStdout) {
            // The pipe is closed, and what is written is lost.
            let null = File::options().write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdout(&null)?;
        }
        if self.has(Fault::FloodsStdout) {
            flood(&mut io::stdout().lock())?;
        }
        if self.has(Fault::FloodsStderr) {
            flood(&mut io::stderr().lock())?;
        }
        if self.has(Fault::HugeLine) {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&vec![b'x'; HUGE_BYTES])?;
            stdout.write_all(b"\n")?;
        }
        if self.has(Fault::WrongId) {
            message["id"] = json!("no such id");
        }
        if self.has(Fault::NullId) {
            message["id"] = Value::Null;
        }
        if self.has(Fault::AnswersTwice) {
            self.write(&message)?;
        }
        self.write(&message)
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

fn flood(stream: &mut dyn Write) -> io::Result<()> {
    let lines = "a line that is no message, and many more follow it ............\n".repeat(1_000);
    for _ in 0..FLOOD_BYTES / lines.len() {
        stream.write_all(lines.as_bytes())?;
    }
    stream.flush()
}
