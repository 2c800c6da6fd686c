//! A text that is right but for the id in it: what further right answers of one server must be.

use std::io;

use memchr::memmem;

use crate::requests::{ID_DIGITS, digits};

/// The last text that was read in full, and where its id stands.
#[derive(Debug)]
pub(crate) struct Wording {
    text: Vec<u8>,
    id_at: usize,
}

impl Wording {
    /// The wording of `text`, which has this id.
    pub(crate) fn new(text: &[u8], id: u64) -> io::Result<Self> {
        let id_at = memmem::find(text, &digits(id)).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            io::Error::other(format!("an answer without its id: {text}"))
        })?;
        Ok(Self { text: text.to_vec(), id_at })
    }

    /// Bytes of the text, which every id leaves as they are.
    pub(crate) const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether `said` begins with this text, to the byte, but with the id `id`.
    #[inline]
    pub(crate) fn accepts(&self, said: &[u8], id: u64) -> bool {
        let after = self.id_at + ID_DIGITS;
        said.len() >= self.text.len()
            && said[self.id_at..after] == digits(id)
            && said[..self.id_at] == self.text[..self.id_at]
            && said[after..self.text.len()] == self.text[after..]
    }
}
