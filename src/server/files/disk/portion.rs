//! Reading a file, or a part of it, into what is sent.
//!
//! What it keeps true: never more than asked for is in memory, and it is there once: the bytes are
//! read into the very buffer that becomes the text or the blob. A text is cut only between
//! characters. A reader whose caller has gone stops at the next chunk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::service::Cancelled;

/// A part of a file that is asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::server::files) struct Range {
    /// Its first byte.
    pub(in crate::server::files) offset: u64,
    /// Bytes, as far as the file reaches and the limit allows; `None` is as many as that.
    pub(in crate::server::files) length: Option<u64>,
}

impl Range {
    /// Reads `offset=…&length=…`, each at most once. `Err` says what is wrong, as a sentence.
    pub(in crate::server::files) fn read(query: &str) -> Result<Self, String> {
        let (mut offset, mut length) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "offset" => &mut offset,
                "length" => &mut length,
                _ => return Err("a file takes offset and length, nothing else".to_owned()),
            };
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let number = value.parse().ok().filter(|_| is_number);
            let number = number.ok_or_else(|| format!("{name} must be a whole number of bytes"))?;
            if place.replace(number).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(Self { offset: offset.unwrap_or(0), length })
    }
}

/// Why a file was not read to the end.
#[derive(Debug)]
pub(in crate::server::files) enum Stopped {
    /// Nobody waits for it any more.
    Cancelled,
    /// The system does not give it.
    Failed(io::Error),
}

impl From<Cancelled> for Stopped {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// What was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::server::files) enum Portion {
    /// Valid UTF-8.
    Text(String),
    /// Anything else.
    Blob(Vec<u8>),
}

impl Portion {
    /// Reads at most `bytes_max` bytes of `file` from `offset` on, which lies in the file or at its
    /// end. `go_on` is asked before each chunk.
    pub(in crate::server::files) fn read(
        file: &mut File,
        offset: u64,
        bytes_max: usize,
        mut go_on: impl FnMut() -> Result<(), Cancelled>,
    ) -> Result<Vec<u8>, Stopped> {
        let mut bytes = Vec::new();
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        while bytes.len() < bytes_max {
            go_on()?;
            let wanted = CHUNK_BYTES.min(bytes_max - bytes.len());
            // One allocation where the length is as it was told, growth where the file grew.
            if bytes.capacity() == 0 {
                bytes.try_reserve_exact(bytes_max).map_err(io::Error::from)?;
            }
            let read = file.by_ref().take(wanted as u64).read_to_end(&mut bytes)?;
            if read < wanted {
                break;
            }
        }
        Ok(bytes)
    }

    /// Text where `bytes` are text. Where more of the file follows, a character that was cut at the
    /// end is left to the next portion.
    pub(in crate::server::files) fn new(bytes: Vec<u8>, is_end: bool) -> Self {
        String::from_utf8(bytes).map_or_else(
            |error| {
                let fault = error.utf8_error();
                let valid = fault.valid_up_to();
                let is_cut = fault.error_len().is_none() && !is_end && valid > 0;
                let mut bytes = error.into_bytes();
                if is_cut {
                    bytes.truncate(valid);
                    return Self::new(bytes, true);
                }
                Self::Blob(bytes)
            },
            Self::Text,
        )
    }

    /// Its length in the file, in bytes.
    pub(in crate::server::files) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// Bytes read at a time: large enough that a call costs little beside the copy, small enough that
/// a caller who has gone is noticed soon.
const CHUNK_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        file
    }

    fn read(file: &mut File, offset: u64, bytes_max: usize) -> Vec<u8> {
        Portion::read(file, offset, bytes_max, || Ok(())).unwrap()
    }

    #[test]
    fn a_file_is_read_once_into_one_buffer() {
        let content: Vec<u8> = (0..=250).cycle().take(3 * CHUNK_BYTES + 7).collect();
        let mut chunks = 0;
        let bytes = Portion::read(&mut file(&content), 0, content.len(), || {
            chunks += 1;
            Ok(())
        });
        let bytes = bytes.unwrap();
        assert_eq!((bytes.len(), chunks), (content.len(), 4));
        assert!(bytes == content && bytes.capacity() == bytes.len());
    }

    #[test]
    fn a_range_ends_at_the_end_of_the_file() {
        let mut file = file(b"0123456789");
        for (offset, bytes_max, wanted) in
            [(0, 4, "0123"), (4, 4, "4567"), (8, 4, "89"), (10, 4, "")]
        {
            assert_eq!(read(&mut file, offset, bytes_max), wanted.as_bytes(), "{offset}");
        }
    }

    #[test]
    fn a_reader_whose_caller_has_gone_stops() {
        let stopped = Portion::read(&mut file(b"text"), 0, 4, || Err(Cancelled));
        assert!(matches!(stopped, Err(Stopped::Cancelled)));
    }

    #[test]
    fn a_text_is_cut_between_characters_and_what_is_no_text_is_a_blob() {
        let text = |text: &str| Portion::Text(text.to_owned());
        let blob = |bytes: &[u8]| Portion::Blob(bytes.to_vec());
        let euro = "a€".as_bytes();
        assert_eq!(Portion::new(euro.to_vec(), true), text("a€"));
        assert_eq!(Portion::new(euro[..3].to_vec(), false), text("a"));
        assert_eq!(Portion::new(euro[..3].to_vec(), true), blob(&euro[..3]));
        assert_eq!(Portion::new(euro[1..3].to_vec(), false), blob(&euro[1..3]));
        assert_eq!(Portion::new(euro[2..].to_vec(), false), blob(&euro[2..]));
        assert_eq!(Portion::new(b"a\xFFb".to_vec(), false), blob(b"a\xFFb"));
        assert_eq!(Portion::new(Vec::new(), true), text(""));
    }

    #[test]
    fn a_query_names_each_bound_once_and_in_digits() {
        let range = |offset, length| Ok(Range { offset, length });
        assert_eq!(Range::read(""), range(0, None));
        assert_eq!(Range::read("offset=7"), range(7, None));
        assert_eq!(Range::read("length=2&offset=7"), range(7, Some(2)));
        for query in [
            "offset",
            "offset=",
            "offset=-1",
            "offset=+1",
            "offset=1e3",
            "offset=99999999999999999999",
            "offset=1&offset=1",
            "length=0x10",
            "from=1",
            "offset=%31",
        ] {
            assert!(Range::read(query).is_err(), "{query}");
        }
    }
}
