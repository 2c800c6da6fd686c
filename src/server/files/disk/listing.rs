//! What stands in a directory: names, sizes and times, never contents.
//!
//! What it keeps true: a scan is bounded, in entries and in depth; what it leaves out it counts. It
//! enters no folder through a link (there is no circle to run in) and lists a link only where it
//! leads to a file beneath the root. Its order is that of the names, whatever the disk says.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType};

use super::beneath::Root;
use super::facts::Facts;
use super::place::Place;

/// How far a scan goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server::files) struct Bounds {
    /// Entries looked at, folders and what is left out included.
    pub(in crate::server::files) entries_max: usize,
    /// Folders inside each other; 1 is the root alone.
    pub(in crate::server::files) depth_max: usize,
    /// Whether names that begin with a dot are listed.
    pub(in crate::server::files) hidden: bool,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::server::files) struct Listing {
    /// Every file with its facts.
    pub(in crate::server::files) files: BTreeMap<Place, Facts>,
    /// Every folder that was entered, the root included.
    pub(in crate::server::files) folders: Vec<Place>,
    /// Whether entries were left out because there are more than may be.
    pub(in crate::server::files) is_cut: bool,
    /// Entries left out because their names are no text or hold a backslash.
    pub(in crate::server::files) unnamed: usize,
}

impl Listing {
    /// Scans `root`. Fails where the root itself cannot be read; a folder below it that cannot be
    /// is left out.
    pub(in crate::server::files) fn scan(root: &Root, bounds: Bounds) -> io::Result<Self> {
        let mut scan = Scan { root, bounds, listing: Self::default(), entries: 0 };
        let mut waiting = vec![(Place::default(), 1)];
        while let Some((place, depth)) = waiting.pop() {
            let Some(folder) = root.open_folder(&place)? else {
                if place.is_root() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                continue;
            };
            let folders = scan.enter(&place, &folder)?;
            if depth < bounds.depth_max {
                waiting.extend(folders.into_iter().map(|folder| (folder, depth + 1)));
            }
        }
        scan.listing.folders.sort_unstable();
        Ok(scan.listing)
    }
}

/// A scan on its way.
struct Scan<'a> {
    root: &'a Root,
    bounds: Bounds,
    listing: Listing,
    entries: usize,
}

impl Scan<'_> {
    /// Lists the files of one folder; returns the folders in it.
    fn enter(&mut self, place: &Place, folder: &OwnedFd) -> io::Result<Vec<Place>> {
        let mut folders = Vec::new();
        self.listing.folders.push(place.clone());
        for entry in Dir::read_from(folder)? {
            // A folder that is removed while it is read ends early.
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            let is_hidden = name.to_bytes().starts_with(b".") && !self.bounds.hidden;
            if matches!(name.to_bytes(), b"." | b"..") || is_hidden {
                continue;
            }
            if self.entries == self.bounds.entries_max {
                self.listing.is_cut = true;
                break;
            }
            self.entries += 1;
            let Some(child) = place.child(name.to_bytes()) else {
                self.listing.unnamed += 1;
                continue;
            };
            if entry.file_type() == FileType::Directory {
                folders.push(child);
            } else if let Some(facts) = self.facts(folder, name, entry.file_type(), &child)? {
                self.listing.files.insert(child, facts);
            } else if entry.file_type() == FileType::Unknown {
                // A file system that does not tell types: entering tells.
                folders.push(child);
            }
        }
        Ok(folders)
    }

    /// The facts of what is listed; a link has those of the file it leads to.
    fn facts(
        &self,
        folder: &OwnedFd,
        name: &CStr,
        kind: FileType,
        place: &Place,
    ) -> io::Result<Option<Facts>> {
        match kind {
            FileType::RegularFile | FileType::Unknown => Ok(Root::facts(folder, name)),
            FileType::Symlink => Ok(self.root.open_file(place)?.map(|(_, facts)| facts)),
            _ => Ok(None),
        }
    }
}
