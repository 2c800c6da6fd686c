//! Reading of files and ranges of files.
//!
//! Invariants: at most the requested bytes are in memory, once: they are read into the buffer that
//! becomes the text or the blob. Text is cut only between characters. A cancelled read stops at the
//! next chunk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::service::Cancelled;

/// A requested range of a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes, limited by the end of the file and `file_bytes_max`; `None` for as many as
    /// these allow.
    pub length: Option<u64>,
}

impl FileRange {
    /// Parses `offset=…&length=…`, each at most once. The error is a message for the client.
    pub fn parse(query: &str) -> Result<Self, String> {
        let (mut offset, mut length) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "offset" => &mut offset,
                "length" => &mut length,
                _ => {
                    return Err("unknown query parameter: allowed are offset and length".to_owned());
                }
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
pub enum ReadError {
    /// The request was cancelled.
    Cancelled,
    /// The system reported an error.
    Io(io::Error),
}

impl From<Cancelled> for ReadError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Content of a file or a range.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileContent {
    /// Valid UTF-8.
    Text(String),
    /// Other bytes.
    Blob(Vec<u8>),
}

impl FileContent {
    /// Reads at most `bytes_max` bytes of `file` from `offset` on, which must not be beyond the
    /// end. `go_on` is called before each chunk; its error stops the read.
    pub fn read_bytes(
        file: &mut File,
        offset: u64,
        bytes_max: usize,
        mut go_on: impl FnMut() -> Result<(), Cancelled>,
    ) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        while bytes.len() < bytes_max {
            go_on()?;
            let wanted = CHUNK_BYTES.min(bytes_max - bytes.len());
            // One allocation if the file has its expected size, growth if it grew.
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

    /// Returns text if `bytes` are UTF-8. Unless they are the end of the file (`is_end`), an
    /// incomplete character at their end is left to the next range.
    pub fn from_bytes(bytes: Vec<u8>, is_end: bool) -> Self {
        String::from_utf8(bytes).map_or_else(
            |error| {
                let utf8_error = error.utf8_error();
                let valid = utf8_error.valid_up_to();
                let is_cut = utf8_error.error_len().is_none() && !is_end && valid > 0;
                let mut bytes = error.into_bytes();
                if is_cut {
                    bytes.truncate(valid);
                    return Self::from_bytes(bytes, true);
                }
                Self::Blob(bytes)
            },
            Self::Text,
        )
    }

    /// Returns the length in the file, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// Bytes read at a time: large enough that a call costs little compared with the copy, small enough
/// that a cancellation is noticed soon.
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
        FileContent::read_bytes(file, offset, bytes_max, || Ok(())).unwrap()
    }

    #[test]
    fn file_is_read_once_into_one_buffer() {
        let content: Vec<u8> = (0..=250).cycle().take(3 * CHUNK_BYTES + 7).collect();
        let mut chunks = 0;
        let bytes = FileContent::read_bytes(&mut file(&content), 0, content.len(), || {
            chunks += 1;
            Ok(())
        });
        let bytes = bytes.unwrap();
        assert_eq!((bytes.len(), chunks), (content.len(), 4));
        assert!(bytes == content && bytes.capacity() == bytes.len());
    }

    #[test]
    fn range_ends_at_end_of_file() {
        let mut file = file(b"0123456789");
        for (offset, bytes_max, expected) in
            [(0, 4, "0123"), (4, 4, "4567"), (8, 4, "89"), (10, 4, "")]
        {
            assert_eq!(read(&mut file, offset, bytes_max), expected.as_bytes(), "{offset}");
        }
    }

    #[test]
    fn cancelled_read_stops() {
        let stopped = FileContent::read_bytes(&mut file(b"text"), 0, 4, || Err(Cancelled));
        assert!(matches!(stopped, Err(ReadError::Cancelled)));
    }

    #[test]
    fn text_is_cut_between_characters_else_blob() {
        let text = |text: &str| FileContent::Text(text.to_owned());
        let blob = |bytes: &[u8]| FileContent::Blob(bytes.to_vec());
        let euro = "a€".as_bytes();
        assert_eq!(FileContent::from_bytes(euro.to_vec(), true), text("a€"));
        assert_eq!(FileContent::from_bytes(euro[..3].to_vec(), false), text("a"));
        assert_eq!(FileContent::from_bytes(euro[..3].to_vec(), true), blob(&euro[..3]));
        assert_eq!(FileContent::from_bytes(euro[1..3].to_vec(), false), blob(&euro[1..3]));
        assert_eq!(FileContent::from_bytes(euro[2..].to_vec(), false), blob(&euro[2..]));
        assert_eq!(FileContent::from_bytes(b"a\xFFb".to_vec(), false), blob(b"a\xFFb"));
        assert_eq!(FileContent::from_bytes(Vec::new(), true), text(""));
    }

    #[test]
    fn range_query_accepts_each_parameter_once() {
        let range = |offset, length| Ok(FileRange { offset, length });
        assert_eq!(FileRange::parse(""), range(0, None));
        assert_eq!(FileRange::parse("offset=7"), range(7, None));
        assert_eq!(FileRange::parse("length=2&offset=7"), range(7, Some(2)));
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
            assert!(FileRange::parse(query).is_err(), "{query}");
        }
    }
}
