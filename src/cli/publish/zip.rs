//! A writer of ZIP archives, whose bytes depend on their content alone.
//!
//! Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.

use std::io::{self, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// An archive that is being written.
#[derive(Debug)]
pub(crate) struct ZipWriter<W> {
    out: W,
    offset: u64,
    /// The central directory.
    directory: Vec<u8>,
    count: u16,
}

/// Version of the format: files that are deflated.
const VERSION: u16 = 20;
/// The names are UTF-8.
const UTF_8: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// 1 January 1980, which is the first day.
const DATE: u16 = 1 << 5 | 1;
/// Attributes are those of Unix.
const MADE_BY_UNIX: u16 = 3 << 8 | VERSION;
const REGULAR_FILE: u32 = 0o100_000;

impl<W: Write> ZipWriter<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out, offset: 0, directory: Vec::new(), count: 0 }
    }

    /// Adds a file with these permissions.
    ///
    /// # Errors
    ///
    /// The archive becomes too large for the format (4 GiB, 65,535 files), or cannot be written.
    pub(crate) fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut crc = Crc::new();
        crc.update(content);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content)?;
        let packed = encoder.finish()?;
        let name_length = u16::try_from(name.len()).map_err(|_| too_large())?;
        let mut fields = Vec::new();
        for number in [VERSION, UTF_8, DEFLATED, 0, DATE] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        for number in [u64::from(crc.sum()), packed.len() as u64, content.len() as u64] {
            fields.extend_from_slice(&size(number)?.to_le_bytes());
        }
        fields.extend_from_slice(&name_length.to_le_bytes());
        // No extra field.
        fields.extend_from_slice(&0_u16.to_le_bytes());
        let start = size(self.offset)?;
        self.write(b"PK\x03\x04")?;
        self.write(&fields)?;
        self.write(name.as_bytes())?;
        self.write(&packed)?;
        let directory = &mut self.directory;
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&MADE_BY_UNIX.to_le_bytes());
        directory.extend_from_slice(&fields);
        // No comment, on the first disk, without internal attributes.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&((REGULAR_FILE | mode) << 16).to_le_bytes());
        directory.extend_from_slice(&start.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
        self.count = self.count.checked_add(1).ok_or_else(too_large)?;
        Ok(())
    }

    /// Writes the end of the archive.
    ///
    /// # Errors
    ///
    /// Those of [`ZipWriter::add`].
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let directory = std::mem::take(&mut self.directory);
        let (start, length) = (size(self.offset)?, size(directory.len() as u64)?);
        self.write(&directory)?;
        self.write(b"PK\x05\x06\0\0\0\0")?;
        let count = self.count.to_le_bytes();
        self.write(&[count, count].concat())?;
        self.write(&[length.to_le_bytes(), start.to_le_bytes()].concat())?;
        self.write(&[0; 2])?;
        self.out.flush()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn size(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the archive is too large for the format ZIP")
}
