//! Recursive listing of a directory: names and metadata, no contents.
//!
//! Invariants: a scan is bounded in entries and depth, and reports what it omits. It follows links
//! to files beneath the root only, and enters no folder through a link, so it cannot run in
//! circles. Its order is that of the names.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::relative_path::RelativePath;
use super::{FileMetadata, Root};

/// Limits of a scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScanLimits {
    /// Entries visited, folders and omitted ones included.
    pub entries_max: usize,
    /// Depth of folders; 1 is the root alone.
    pub depth_max: usize,
    /// Whether names that begin with a dot are listed.
    pub hidden: bool,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// Files with their metadata.
    pub files: BTreeMap<RelativePath, FileMetadata>,
    /// Folders that were entered, the root included.
    pub folders: Vec<RelativePath>,
    /// Whether entries were omitted because of `entries_max`.
    pub is_truncated: bool,
    /// Number of entries omitted because of their names: not UTF-8, or with a backslash or a
    /// control character.
    pub unservable: usize,
    /// Folders and files that cannot be read, and links that lead to nothing that may be read, with
    /// the reason; at most [`UNREADABLE_MAX`].
    pub unreadable: Vec<(RelativePath, Box<str>)>,
    /// Number of further ones.
    pub other_unreadable: usize,
}

/// Maximum number of unreadable entries that are named.
const UNREADABLE_MAX: usize = 16;

impl Listing {
    /// Scans `root`. A folder below it that cannot be read is omitted and named.
    ///
    /// # Errors
    ///
    /// The root itself cannot be read.
    pub fn scan(root: &Root, bounds: ScanLimits) -> io::Result<Self> {
        let mut scan = Scan { root, limits: bounds, listing: Self::default(), entries: 0 };
        let mut waiting = vec![(RelativePath::default(), 1)];
        while let Some((place, depth)) = waiting.pop() {
            let folder = match root.open_folder(&place) {
                Ok(folder) => folder,
                Err(error) if is_resource_limit(&error) => return Err(error),
                Err(error) if place.is_root() => {
                    return Err(io::Error::new(io::ErrorKind::NotFound, error));
                }
                Err(error) => {
                    scan.add_unreadable(place, &error);
                    continue;
                }
            };
            let folders = scan.list_folder(&place, &folder)?;
            if depth < bounds.depth_max {
                waiting.extend(folders.into_iter().map(|folder| (folder, depth + 1)));
            }
        }
        scan.listing.folders.sort_unstable();
        Ok(scan.listing)
    }
}

struct Scan<'a> {
    root: &'a Root,
    limits: ScanLimits,
    listing: Listing,
    entries: usize,
}

impl Scan<'_> {
    /// Adds the files of one folder; returns the folders in it.
    fn list_folder(
        &mut self,
        place: &RelativePath,
        folder: &OwnedFd,
    ) -> io::Result<Vec<RelativePath>> {
        let mut folders = Vec::new();
        self.listing.folders.push(place.clone());
        for entry in Dir::read_from(folder)? {
            // A folder that is removed while it is read ends early.
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            let is_hidden = name.to_bytes().starts_with(b".") && !self.limits.hidden;
            if matches!(name.to_bytes(), b"." | b"..") || is_hidden {
                continue;
            }
            if self.entries == self.limits.entries_max {
                self.listing.is_truncated = true;
                break;
            }
            self.entries += 1;
            let Some(child) = place.child(name.to_bytes()) else {
                self.listing.unservable += 1;
                continue;
            };
            if entry.file_type() == FileType::Directory {
                folders.push(child);
            } else if let Some(facts) =
                self.entry_metadata(folder, name, entry.file_type(), &child)?
            {
                if may_be_read(folder, name, entry.file_type()) {
                    self.listing.files.insert(child, facts);
                } else {
                    self.add_unreadable(child, &io::ErrorKind::PermissionDenied.into());
                }
            } else if entry.file_type() == FileType::Symlink {
                if let Some(error) = self.root.open_error(&child) {
                    self.add_unreadable(child, &error);
                }
            } else if entry.file_type() == FileType::Unknown {
                // The file system does not report types: the attempt to enter decides.
                folders.push(child);
            }
        }
        Ok(folders)
    }

    /// Names an entry that cannot be read, unless it has vanished.
    fn add_unreadable(&mut self, place: RelativePath, error: &io::Error) {
        let is_link = self.is_link(&place);
        let is_beyond = is_errno(error, &[Errno::LOOP, Errno::XDEV]);
        let reason: Box<str> = match error.kind() {
            io::ErrorKind::NotFound if is_link => {
                "the link leads to nothing that is offered".into()
            }
            _ if is_link && is_beyond => {
                "the link leads out of the directory, or in a circle".into()
            }
            // It was removed or replaced since it was listed.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => return,
            _ => error.to_string().into(),
        };
        if self.listing.unreadable.len() < UNREADABLE_MAX {
            self.listing.unreadable.push((place, reason));
        } else {
            self.listing.other_unreadable += 1;
        }
    }

    fn is_link(&self, place: &RelativePath) -> bool {
        let path = self.root.path().join(place.as_str());
        std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink())
    }

    /// Returns the metadata of an entry to list; of a link, that of its target.
    fn entry_metadata(
        &self,
        folder: &OwnedFd,
        name: &CStr,
        kind: FileType,
        place: &RelativePath,
    ) -> io::Result<Option<FileMetadata>> {
        match kind {
            FileType::RegularFile | FileType::Unknown => Ok(Root::metadata_at(folder, name)),
            FileType::Symlink => Ok(self.root.open_file(place)?.map(|(_, facts)| facts)),
            _ => Ok(None),
        }
    }
}

/// Returns whether a file may be read; links were opened to get their metadata.
fn may_be_read(folder: &OwnedFd, name: &CStr, kind: FileType) -> bool {
    kind == FileType::Symlink || Root::is_readable_at(folder, name)
}

/// Returns whether a resource limit of the system is reached, or the disk fails: the folder may be
/// readable later.
fn is_resource_limit(error: &io::Error) -> bool {
    is_errno(error, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO])
}

fn is_errno(error: &io::Error, numbers: &[Errno]) -> bool {
    numbers.iter().any(|number| error.raw_os_error() == Some(number.raw_os_error()))
}
