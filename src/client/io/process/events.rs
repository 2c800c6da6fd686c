//! What a program reports: the lines of its standard error, and its end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};

/// What a [`Program`](crate::Program) reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ProgramEvent<'a> {
    /// A line that it has written to its standard error.
    Stderr(&'a str),
    /// It has ended. Follows its lines, unless another program holds its standard error open.
    Exited(ExitStatus),
}

/// Called for each event.
pub type ProgramCallback = Arc<dyn Fn(ProgramEvent<'_>) + Send + Sync>;

/// Time for which the end of a program waits for that of its standard error.
const STDERR_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the events of one program go.
pub(super) struct ProgramEvents {
    on_event: Option<ProgramCallback>,
    /// Disconnected at the end of the standard error.
    stderr_end: Option<Receiver<()>>,
}

impl ProgramEvents {
    /// Passes the lines of `stderr` to `on_event`, on a thread that ends with the stream.
    pub(super) fn new(on_event: Option<ProgramCallback>, stderr: Option<File>) -> Self {
        let lines = on_event.clone().zip(stderr);
        let stderr_end = lines.map(|(on_event, stderr)| read_on_thread(stderr, on_event));
        Self { on_event, stderr_end }
    }

    /// Reports the end of the program.
    pub(super) fn report_exit(&self, status: ExitStatus) {
        if let Some(on_event) = &self.on_event {
            if let Some(stderr_end) = &self.stderr_end {
                // Always an error: nothing is sent.
                stderr_end.recv_timeout(STDERR_END_TIMEOUT).unwrap_or(());
            }
            on_event(ProgramEvent::Exited(status));
        }
    }
}

/// Bytes of one line; the rest of a longer one is the next line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Passes each line of `stderr` to `on_event`. Returns a channel that ends with the stream.
fn read_on_thread(stderr: File, on_event: ProgramCallback) -> Receiver<()> {
    let (end_tx, end_rx) = bounded(0);
    let read = move || {
        read(BufReader::new(stderr), &|line| on_event(ProgramEvent::Stderr(line)));
        drop(end_tx);
    };
    if let Err(error) = std::thread::Builder::new().name("corelane-stderr".into()).spawn(read) {
        tracing::warn!(%error, "no thread to read the standard error of a program");
    }
    end_rx
}

/// Passes each line of `stderr` to `on_line`.
fn read(mut stderr: impl BufRead, on_line: &dyn Fn(&str)) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match stderr.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => on_line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])),
            Err(error) => {
                tracing::debug!(%error, "the standard error of a program cannot be read");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_of_any_length_are_passed_on() {
        let long = "x".repeat(usize::try_from(LINE_BYTES_MAX).unwrap());
        let text = [b"one\r\n\n\xff\n", long.as_bytes(), b"rest"].concat();
        let lines = RefCell::new(Vec::new());
        read(&text[..], &|line| lines.borrow_mut().push(line.to_owned()));
        assert_eq!(lines.into_inner(), ["one", "", "\u{fffd}", &long, "rest"]);
    }
}
