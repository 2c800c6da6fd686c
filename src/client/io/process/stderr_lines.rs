//! The lines that a program writes to its standard error.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::sync::Arc;

/// Called for each line.
pub(in crate::client) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Bytes of one line; the rest of a longer one is the next line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Passes each line of `stderr` to `on_line`, on a thread that ends with the stream.
pub(super) fn read_on_thread(stderr: ChildStderr, on_line: StderrCallback) {
    let read = move || read(BufReader::new(stderr), &*on_line);
    if let Err(error) = std::thread::Builder::new().name("corelane-stderr".into()).spawn(read) {
        tracing::warn!(%error, "no thread to read the standard error of a program");
    }
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
