//! What the system tells of a file without reading it.
//!
//! What it keeps true: two different contents of one name have different facts, as far as the clock
//! of the file system can tell them apart.

use rustix::fs::{FileType, Stat};

/// The facts of a plain file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server::files) struct Facts {
    /// Its length in bytes.
    pub(in crate::server::files) bytes: u64,
    /// When its content changed last, in milliseconds since 1970; 0 where it was before.
    pub(in crate::server::files) modified_ms: u64,
    /// Device, inode and the time of its last change of any kind: together they tell this file at
    /// this time from every other, a file renamed over it included.
    version: [u64; 4],
}

impl Facts {
    /// The facts of what `stat` is about; `None` where that is no plain file.
    pub(in crate::server::files) fn of(stat: &Stat) -> Option<Self> {
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let (seconds, nanoseconds) = (whole(stat.st_mtime), whole(stat.st_mtime_nsec));
        is_plain.then(|| Self {
            bytes: whole(stat.st_size),
            modified_ms: seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000),
            version: [
                whole(stat.st_dev),
                whole(stat.st_ino),
                whole(stat.st_ctime),
                whole(stat.st_ctime_nsec),
            ],
        })
    }
}

/// A number of the system, whose types differ from one to the next; what is below 0 becomes 0.
fn whole(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}
