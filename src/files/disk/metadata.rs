//! Metadata of a file.
//!
//! Two different contents of one name have different metadata, as far as the timestamps of the file
//! system distinguish them.

use rustix::fs::{FileType, Stat};

/// Metadata of a regular file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileMetadata {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last modification, in milliseconds since 1970; 0 if it was before.
    pub modified_ms: u64,
    /// Device, inode and ctime, which change with every change of the file, and if another file is
    /// renamed over it.
    version: [u64; 4],
}

impl FileMetadata {
    /// Returns the metadata of `stat`, or `None` if it is not a regular file.
    pub fn from_stat(stat: &Stat) -> Option<Self> {
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let (seconds, nanoseconds) = (to_u64(stat.st_mtime), to_u64(stat.st_mtime_nsec));
        is_plain.then(|| Self {
            bytes: to_u64(stat.st_size),
            modified_ms: seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000),
            version: [
                to_u64(stat.st_dev),
                to_u64(stat.st_ino),
                to_u64(stat.st_ctime),
                to_u64(stat.st_ctime_nsec),
            ],
        })
    }

    /// Returns a text that changes with every change of the file.
    pub fn etag(&self) -> String {
        let [_, _, seconds, nanoseconds] = self.version;
        format!("{seconds:x}.{nanoseconds:x}-{:x}", self.bytes)
    }
}

/// Converts a system integer, whose type depends on the platform; negative numbers become 0.
fn to_u64(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}
