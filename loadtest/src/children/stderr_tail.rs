//! The last lines of a child's standard error.

/// Bytes that are stored.
const KEPT_BYTES: usize = 4_096;
/// Lines that are shown.
const LINES_MAX: usize = 3;
/// Characters of a line that are shown.
const LINE_CHARACTERS_MAX: usize = 200;

/// The end of a byte stream of any length.
#[derive(Debug, Default)]
pub(crate) struct StderrTail {
    bytes: Vec<u8>,
}

impl StderrTail {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.bytes.drain(..self.bytes.len() - KEPT_BYTES);
        }
    }

    /// Returns the last nonempty lines joined into one, or `None` if there are none.
    pub(crate) fn last_lines(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        let mut lines: Vec<String> = lines.take(LINES_MAX).map(sanitize_line).collect();
        lines.reverse();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }
}

/// Replaces control characters and truncates the line.
fn sanitize_line(line: &str) -> String {
    let plain = line.chars().map(|char| if char.is_control() { ' ' } else { char });
    plain.take(LINE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_tail_joins_last_nonempty_lines() {
        let mut tail = StderrTail::default();
        assert_eq!(tail.last_lines(), None);
        tail.add(b"one\ntwo\n\nthr");
        tail.add(b"ee\n  \x1b[31mfour\n\n");
        assert_eq!(tail.last_lines().unwrap(), "two | three |  [31mfour");
    }

    #[test]
    fn stderr_tail_memory_and_text_are_bounded() {
        let mut tail = StderrTail::default();
        for _ in 0..10_000 {
            tail.add(&[0xFF; 100]);
        }
        assert!(tail.bytes.len() <= 2 * KEPT_BYTES + 100);
        assert_eq!(tail.last_lines().unwrap().chars().count(), LINE_CHARACTERS_MAX);
    }
}
