//! A directory whose files are resources.
//!
//! What it keeps true: a file is listed by what the disk tells without reading it, and read only
//! when it is asked for, on the blocking pool. Whatever cannot be read (it lies elsewhere, is
//! hidden, is no plain file, is not there) gets one and the same answer. A file beyond the limit
//! is not cut: its reader is told how to ask for parts.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::burst::Burst;
use super::disk::{Address, Bounds, Facts, Listing, Place, Portion, Range, Root, Stopped};
use super::fault::Fault;
use crate::protocol::error::Error;
use crate::protocol::message::{ContentAnnotations, ResourceContent};
use crate::service::{Edit, HandlerError, Read, Resource, ResourceTemplate, Worker};

/// A directory to be offered as resources: each file under its `file:` URI, and a template for
/// parts of them.
#[derive(Clone, Debug)]
pub struct Directory {
    root: Root,
    address: Address,
    bounds: Bounds,
    file_bytes_max: usize,
}

impl Directory {
    /// The directory at `root`, with the defaults of
    /// [`FileOptions`](crate::server::options::FileOptions). Links in the path to it are resolved
    /// once, here.
    ///
    /// # Errors
    ///
    /// Where it is no directory that can be read, or one whose path no URI should hold.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = Root::new(root.as_ref())?;
        let address = Address::new(root.path()).ok_or_else(|| {
            let what = "the path of the directory is not UTF-8, or holds a backslash or a \
                        control character; give it another name";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        let bounds = Bounds { entries_max: 10_000, depth_max: 16, hidden: false };
        Ok(Self { root, address, bounds, file_bytes_max: 8 << 20 })
    }

    /// Bytes of a file, or of a part of one, in one answer. Default 8 MiB.
    #[must_use]
    pub const fn file_bytes_max(mut self, file_bytes_max: usize) -> Self {
        self.file_bytes_max = file_bytes_max;
        self
    }

    /// Files and folders that are listed. Default 10,000.
    #[must_use]
    pub const fn entries_max(mut self, entries_max: usize) -> Self {
        self.bounds.entries_max = entries_max;
        self
    }

    /// Folders inside each other that are listed, the directory itself included. Default 16.
    #[must_use]
    pub const fn depth_max(mut self, depth_max: usize) -> Self {
        self.bounds.depth_max = depth_max;
        self
    }

    /// Whether names that begin with a dot are offered. Default false.
    #[must_use]
    pub const fn hidden(mut self, hidden: bool) -> Self {
        self.bounds.hidden = hidden;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The template of the files in it and of their parts.
    pub(super) fn template(self: &Arc<Self>) -> ResourceTemplate {
        let template = format!("{}{{+path}}{{?offset,length}}", self.address.prefix());
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        let directory = Arc::clone(self);
        ResourceTemplate::new(template, if name.is_empty() { "files" } else { &*name })
            .describe(
                "A file of the directory, whole or in part: offset is its first byte, length the \
                 number of bytes.",
            )
            .blocking(move |read, worker| directory.read(&read, &worker))
    }

    fn resource(self: &Arc<Self>, place: &Place, facts: &Facts) -> Resource {
        let annotations =
            ContentAnnotations { last_modified_ms: Some(facts.modified_ms), ..Default::default() };
        let resource = Resource::new(self.address.uri(place), place.as_str())
            .size(facts.bytes)
            .annotations(annotations);
        let resource = match mime_type(place) {
            Some(mime_type) => resource.mime_type(mime_type),
            None => resource,
        };
        let directory = Arc::clone(self);
        resource.blocking(move |read, worker| directory.read(&read, &worker))
    }

    fn read(&self, read: &Read<'_>, worker: &Worker) -> Result<ResourceContent, HandlerError> {
        let not_found = || Error::resource_not_found(read.uri(), read.revision());
        let (uri, query) = match read.uri().split_once('?') {
            Some((uri, query)) => (uri, Some(query)),
            None => (read.uri(), None),
        };
        let range = query.map(Range::read).transpose().map_err(Error::invalid_params)?;
        let place = self.address.place(uri).filter(|place| self.offers(place));
        let place = place.ok_or_else(not_found)?;
        let opened = self.root.open_file(&place).map_err(|_| Error::internal(NOT_READ))?;
        let (mut file, facts) = opened.ok_or_else(not_found)?;
        let offset = range.map_or(0, |range| range.offset);
        let length = self.length(range, &facts, uri)?;
        let bytes = Portion::read(&mut file, offset, length, || worker.check());
        let bytes = bytes.map_err(|stopped| match stopped {
            Stopped::Cancelled => HandlerError::Cancelled,
            Stopped::Failed(_) => Error::internal(NOT_READ).into(),
        })?;
        let is_end = offset + bytes.len() as u64 >= facts.bytes;
        let portion = Portion::new(bytes, is_end);
        let length = portion.len();
        let (content, default) = match portion {
            Portion::Text(text) => (ResourceContent::text(read.uri(), text), "text/plain"),
            Portion::Blob(bytes) => {
                (ResourceContent::blob(read.uri(), bytes), "application/octet-stream")
            }
        };
        let mut content = content.with_mime_type(mime_type(&place).unwrap_or(default));
        if range.is_some() {
            let part = json!({ "offset": offset, "length": length, "size": facts.bytes });
            content.meta = Some([(RANGE.to_owned(), part)].into_iter().collect());
        }
        Ok(content)
    }

    /// How many bytes to read.
    fn length(&self, range: Option<Range>, facts: &Facts, uri: &str) -> Result<usize, Error> {
        let bytes = facts.bytes;
        let Range { offset, length } = range.unwrap_or_default();
        let rest = bytes.checked_sub(offset).ok_or_else(|| {
            Error::invalid_params(format!("offset {offset} lies behind the end of {bytes} bytes"))
        })?;
        let most = self.file_bytes_max;
        let wanted = usize::try_from(length.unwrap_or(rest).min(rest)).unwrap_or(usize::MAX);
        if range.is_none() && wanted > most {
            return Err(Error::invalid_params(format!(
                "the file has {bytes} bytes and an answer holds {most}; \
                 read it in parts, the first one as {uri}?offset=0&length={most}"
            )));
        }
        Ok(wanted.min(most))
    }

    fn offers(&self, place: &Place) -> bool {
        self.bounds.hidden || !place.is_hidden()
    }
}

/// A directory and what is known of it.
#[derive(Debug)]
pub(super) struct Resources {
    directory: Arc<Directory>,
    /// As the catalog says it.
    offered: BTreeMap<Place, Facts>,
    /// As the disk was when it was looked at last.
    seen: BTreeMap<Place, Facts>,
    folders: Vec<Place>,
    is_stale: bool,
}

/// What a look at the disk found.
#[derive(Default)]
pub(super) struct Look {
    /// What the catalog should say, and the way there.
    pub(super) edit: Option<(BTreeMap<Place, Facts>, Edit)>,
    /// URIs of what changed.
    pub(super) updated: Vec<String>,
    /// What somebody should mend.
    pub(super) faults: Vec<Fault>,
}

impl Resources {
    /// A directory of which nothing is offered yet.
    pub(super) fn new(directory: Directory) -> Self {
        Self {
            directory: Arc::new(directory),
            offered: BTreeMap::new(),
            seen: BTreeMap::new(),
            folders: Vec::new(),
            is_stale: false,
        }
    }

    /// The directory.
    pub(super) const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The folders to watch.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let root = self.directory.path();
        self.folders.iter().map(|folder| {
            if folder.is_root() { root.to_owned() } else { root.join(folder.as_str()) }
        })
    }

    /// Whether the catalog says something else than the disk.
    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Takes note that the catalog says `offered`.
    pub(super) fn confirm(&mut self, offered: BTreeMap<Place, Facts>) {
        self.is_stale = offered != self.seen;
        self.offered = offered;
    }

    /// Looks at the disk. Names that came or went call for an edit at once; new sizes and times of
    /// files that stay are told with the next one, or when the look was made for them, so that a
    /// file that grows all the time does not make a list that changes all the time.
    pub(super) fn look(&mut self, burst: &Burst) -> Look {
        let directory = Arc::clone(&self.directory);
        let mut look = Look::default();
        let written = burst.written.iter().filter_map(|path| {
            Place::of(path, directory.path()).filter(|place| directory.offers(place))
        });
        let mut changed: Vec<Place> = written.collect();
        if !burst.needs_scan {
            self.note_written(&changed);
            look.updated = changed.iter().map(|place| directory.address.uri(place)).collect();
            return look;
        }
        let is_readable = match Listing::scan(&directory.root, directory.bounds) {
            Ok(listing) => {
                directory.doubt(&listing, &mut look.faults);
                changed.extend(self.see(listing));
                true
            }
            Err(error) => {
                changed.extend(self.miss(&error));
                let what = format!("cannot be read ({error})");
                let remedy = "it is looked at every 30 seconds";
                look.faults.push(Fault::new(directory.path(), what, remedy));
                false
            }
        };
        changed.sort_unstable();
        changed.dedup();
        look.updated = changed.iter().map(|place| directory.address.uri(place)).collect();
        let is_other = self.offered != self.seen;
        let has_other_names = !self.offered.keys().eq(self.seen.keys());
        if has_other_names || (is_other && burst.refreshes) {
            look.edit = Some((self.seen.clone(), self.edit()));
        }
        self.is_stale = is_other || !is_readable;
        look
    }

    /// Takes note of what a scan found; returns what is no longer as it was.
    fn see(&mut self, listing: Listing) -> Vec<Place> {
        let before = std::mem::replace(&mut self.seen, listing.files);
        self.folders = listing.folders;
        let is_as_before =
            |(place, facts): &(Place, Facts)| self.seen.get(place).is_some_and(|now| now == facts);
        before.into_iter().filter(|entry| !is_as_before(entry)).map(|(place, _)| place).collect()
    }

    /// Takes note that a scan failed; returns what is gone with the root. A system at its limits
    /// takes nothing away: what was there is offered on, and looked for again.
    fn miss(&mut self, error: &io::Error) -> Vec<Place> {
        if error.kind() != io::ErrorKind::NotFound {
            return Vec::new();
        }
        self.folders.clear();
        std::mem::take(&mut self.seen).into_keys().collect()
    }

    /// Takes note of files that were written, so that the next scan does not tell of them again.
    fn note_written(&mut self, written: &[Place]) {
        self.is_stale |= !written.is_empty();
        for place in written {
            if let Some(seen) = self.seen.get_mut(place)
                && let Ok(Some((_, facts))) = self.directory.root.open_file(place)
            {
                *seen = facts;
            }
        }
    }

    /// From what is offered to what was seen.
    fn edit(&self) -> Edit {
        let gone = self.offered.keys().filter(|place| !self.seen.contains_key(place));
        let gone: HashSet<String> = gone.map(|place| self.directory.address.uri(place)).collect();
        let (mut other, mut new) = (Vec::new(), Vec::new());
        for (place, facts) in &self.seen {
            match self.offered.get(place) {
                Some(offered) if offered == facts => {}
                Some(_) => other.push(self.directory.resource(place, facts)),
                None => new.push(self.directory.resource(place, facts)),
            }
        }
        Box::new(move |builder| {
            builder.remove_resources(&gone).replace_resources(other).resources(new)
        })
    }
}

impl Directory {
    /// What is odd about a listing.
    fn doubt(&self, listing: &Listing, faults: &mut Vec<Fault>) {
        if listing.is_cut {
            let most = self.bounds.entries_max;
            let what = format!("holds more than {most} entries, and the others are not listed");
            let remedy = "raise resources.entries_max; what is not listed can be read all the same";
            faults.push(Fault::new(self.path(), what, remedy));
        }
        if listing.unnamed > 0 {
            let what = format!("holds {} entries that are not offered", listing.unnamed);
            let remedy = "give them names in UTF-8, without backslashes and control characters";
            faults.push(Fault::new(self.path(), what, remedy));
        }
    }
}

/// What a file is, by the end of its name.
fn mime_type(place: &Place) -> Option<&'static str> {
    let end = Path::new(place.as_str()).extension()?.to_str()?;
    let own = OWN_TYPES.iter().find(|(own, _)| end.eq_ignore_ascii_case(own));
    own.map(|(_, mime_type)| *mime_type).or_else(|| mime_guess::from_ext(end).first_raw())
}

/// Ends of names that today mean something else than the registry says (a video, of old).
const OWN_TYPES: [(&str, &str); 3] =
    [("ts", "text/typescript"), ("mts", "text/typescript"), ("cts", "text/typescript")];

/// The member of `_meta` that says which part of a file was read.
const RANGE: &str = "corelane/range";

const NOT_READ: &str = "the file could not be read; try again later";

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(root: &Path) -> Resources {
        let mut resources = Resources::new(Directory::new(root).unwrap());
        let look = resources.look(&Burst::unknown());
        resources.confirm(look.edit.unwrap().0);
        resources
    }

    #[test]
    fn a_file_that_was_written_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().canonicalize().unwrap().join("a.txt");
        std::fs::write(&file, "a").unwrap();
        let mut resources = resources(root.path());
        std::fs::write(&file, "aa").unwrap();
        let written = Burst { written: [file].into(), ..Burst::default() };
        assert_eq!(resources.look(&written).updated.len(), 1);
        let look = resources.look(&Burst::unknown());
        assert_eq!(look.updated, Vec::<String>::new());
        let (offered, _) = look.edit.expect("its new size is told by the list");
        assert_eq!(offered.values().next().unwrap().bytes, 2);
    }

    #[test]
    fn a_system_at_its_limits_takes_no_file_away() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "a").unwrap();
        let mut resources = resources(root.path());
        let too_many_files = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert!(resources.miss(&too_many_files).is_empty());
        assert_eq!((resources.seen.len(), resources.folders.len()), (1, 1));
        assert_eq!(resources.miss(&io::ErrorKind::NotFound.into()).len(), 1);
        assert_eq!((resources.seen.len(), resources.folders.len()), (0, 0));
    }
}
