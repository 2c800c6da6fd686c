//! Large texts of a message that the response to it leaves out while it is written. They are
//! written later, where the message is then.

use std::ops::Range;

use crate::json::write;

/// The texts that responses to one message have left out, in their order.
#[derive(Debug)]
pub struct LeftOutTexts {
    /// Addresses of the strings of the message.
    message: Range<usize>,
    bytes_min: usize,
    texts: Vec<LeftOutText>,
}

#[derive(Debug)]
struct LeftOutText {
    /// Its place in what is written.
    at: usize,
    /// Its place in the strings of the message.
    text: Range<usize>,
}

/// Length below which a text is never left out.
pub(super) const LEFT_OUT_BYTES_MIN: usize = 1024;

impl LeftOutTexts {
    /// Returns no texts. Those of `message` are left out from `bytes_min` bytes on.
    pub fn new(message: &str, bytes_min: usize) -> Self {
        let start = message.as_ptr().addr();
        Self { message: start..start + message.len(), bytes_min, texts: Vec::new() }
    }

    /// Returns whether nothing is left out.
    pub const fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the number of texts.
    pub const fn len(&self) -> usize {
        self.texts.len()
    }

    /// Forgets all but the first `count` texts.
    pub fn truncate(&mut self, count: usize) {
        self.texts.truncate(count);
    }

    /// Leaves out `text` at `at`, if it is a large one of the message. Returns whether it is.
    pub(super) fn leave_out(&mut self, text: &str, at: usize) -> bool {
        let start = text.as_ptr().addr();
        let is_part = self.message.contains(&start) && text.len() <= self.message.end - start;
        let is_left_out = is_part && text.len() >= self.bytes_min;
        if is_left_out {
            let start = start - self.message.start;
            self.texts.push(LeftOutText { at, text: start..start + text.len() });
        }
        is_left_out
    }

    /// Moves the texts from `at` on behind `bytes` more bytes.
    pub(super) fn move_back(&mut self, at: usize, bytes: usize) {
        for text in self.texts.iter_mut().filter(|text| text.at >= at) {
            text.at += bytes;
        }
    }

    /// Returns how many bytes [`LeftOutTexts::fill`] needs for `written` bytes and the end of their
    /// line, unless the texts have escapes.
    pub fn filled_bytes(&self, written: usize) -> usize {
        written + SPARE_BYTES + self.texts.iter().map(|text| text.text.len() + 2).sum::<usize>()
    }

    /// Appends `written`, which was written from `start` on, with the texts. `message`: the strings
    /// of the message.
    pub fn fill(&self, start: usize, written: &[u8], message: &str, filled: &mut Vec<u8>) {
        filled.reserve_exact(self.filled_bytes(written.len()));
        let mut rest = written;
        let mut from = start;
        for LeftOutText { at, text } in &self.texts {
            let (before, after) = rest.split_at((at - from).min(rest.len()));
            filled.extend_from_slice(before);
            write::string(filled, message.get(text.clone()).unwrap_or_default());
            (rest, from) = (after, *at);
        }
        filled.extend_from_slice(rest);
    }
}

/// Free bytes behind what is filled, for the end of its line.
const SPARE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_texts_are_filled_in_order() {
        let message = "first \"é\n and the second one".to_owned();
        let mut texts = LeftOutTexts::new(&message, 7);
        assert!(texts.leave_out(&message[..9], 11) && texts.leave_out(&message[9..], 14));
        // Too short, and no part of the message.
        assert!(!texts.leave_out(&message[..6], 14) && !texts.leave_out(&message.clone(), 14));
        texts.move_back(14, 2);
        assert_eq!(texts.len(), 2);
        let mut filled = Vec::new();
        texts.fill(10, b"[1,2,3,]", &message, &mut filled);
        let [first, second] =
            [&message[..9], &message[9..]].map(|text| serde_json::to_string(text).unwrap());
        assert_eq!(String::from_utf8(filled).unwrap(), format!("[{first}1,2,3{second},]"));
        texts.truncate(0);
        assert!(texts.is_empty());
    }
}
