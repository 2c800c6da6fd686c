//! The last lines of a standard error.

/// Bytes that are kept.
const KEPT_BYTES: usize = 4_096;
/// Lines that are told.
const LINES_MAX: usize = 3;
/// Characters of a line that are told.
const LINE_CHARACTERS_MAX: usize = 200;

/// The end of a text of any length.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Takes in what was said next.
    pub(super) fn push(&mut self, said: &[u8]) {
        self.bytes.extend_from_slice(said);
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.bytes.drain(..self.bytes.len() - KEPT_BYTES);
        }
    }

    /// The last lines that say something, as one line; none where nothing was said.
    pub(super) fn words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        let mut lines: Vec<String> = lines.take(LINES_MAX).map(shorten).collect();
        lines.reverse();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }
}

/// A line without what would move the cursor, and not too long.
fn shorten(line: &str) -> String {
    let plain = line.chars().map(|said| if said.is_control() { ' ' } else { said });
    plain.take(LINE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_say_something_are_told_in_one() {
        let mut tail = Tail::default();
        assert_eq!(tail.words(), None);
        tail.push(b"one\ntwo\n\nthr");
        tail.push(b"ee\n  \x1b[31mfour\n\n");
        assert_eq!(tail.words().unwrap(), "two | three |  [31mfour");
    }

    #[test]
    fn whatever_is_said_memory_and_words_are_bounded() {
        let mut tail = Tail::default();
        for _ in 0..10_000 {
            tail.push(&[0xFF; 100]);
        }
        assert!(tail.bytes.len() <= 2 * KEPT_BYTES + 100);
        assert_eq!(tail.words().unwrap().chars().count(), LINE_CHARACTERS_MAX);
    }
}
