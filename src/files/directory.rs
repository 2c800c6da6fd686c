//! A directory whose files are resources.
//!
//! Invariants: files are listed by their metadata without being read, and read only on request, on
//! the blocking pool. All files that cannot be read (outside the root, hidden, not regular,
//! missing) get the same error. A file beyond the limit is not truncated: the error states how to
//! read ranges.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corelane_protocol::error::Error;
use corelane_protocol::model::{Annotations, ResourceContents};
use serde_json::{Value, json};

use super::FileFault;
use super::change_batch::ChangeBatch;
use super::disk::{
    FileContent, FileMetadata, FileRange, Listing, ReadError, RelativePath, Root, RootUri,
    ScanLimits,
};
use crate::server::options::check_uri_prefix;
use crate::service::{
    BlockingContext, CatalogUpdate, HandlerError, ReadContext, Resource, ResourceTemplate,
};

/// A directory offered as resources: each file under its `file:` URI, and a template for ranges of
/// files.
#[derive(Clone, Debug)]
pub struct Directory {
    root: Root,
    uri: RootUri,
    limits: ScanLimits,
    file_bytes_max: usize,
}

impl Directory {
    /// Returns the directory at `root`, with the defaults of
    /// [`FileOptions`](crate::server::options::FileOptions). Links in its path are followed anew
    /// with each access; the URIs of its files have the path as it is given.
    ///
    /// # Errors
    ///
    /// It is not a readable directory, or its path cannot be represented as a URI.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = Root::new(root.as_ref())?;
        let address = RootUri::new(root.path()).ok_or_else(|| {
            let what = "the path of the directory is not UTF-8, or has a backslash or a control \
                        character; rename it";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        let bounds = ScanLimits { entries_max: 10_000, depth_max: 16, hidden: false };
        Ok(Self { root, uri: address, limits: bounds, file_bytes_max: 8 << 20 })
    }

    /// Sets the limit of bytes of a file, or of a range, in one response. Default 8 MiB.
    #[must_use]
    pub const fn file_bytes_max(mut self, file_bytes_max: usize) -> Self {
        self.file_bytes_max = file_bytes_max;
        self
    }

    /// Sets the limit of listed files and folders. Default 10,000.
    #[must_use]
    pub const fn entries_max(mut self, entries_max: usize) -> Self {
        self.limits.entries_max = entries_max;
        self
    }

    /// Sets the depth of listed folders; the directory itself is 1. Default 16.
    #[must_use]
    pub const fn depth_max(mut self, depth_max: usize) -> Self {
        self.limits.depth_max = depth_max;
        self
    }

    /// Sets whether names that begin with a dot are offered, and links to them. Default false.
    #[must_use]
    pub const fn hidden(mut self, hidden: bool) -> Self {
        self.limits.hidden = hidden;
        self.root.follows_hidden = hidden;
        self
    }

    /// Sets the beginning of the URIs of its files, such as `docs://`, before their paths in the
    /// directory. Default: `file://` and the absolute path of the directory.
    ///
    /// # Errors
    ///
    /// It has no scheme, does not end with a slash, or has characters that URIs do not have.
    pub fn uri_prefix(mut self, prefix: &str) -> io::Result<Self> {
        let invalid = |what| {
            let text = format!("the URI prefix {prefix:?} {what}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        check_uri_prefix(prefix).map_err(invalid)?;
        self.uri = RootUri::with_prefix(prefix);
        Ok(self)
    }

    /// Returns its absolute path.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the template of its files and their ranges.
    pub(super) fn template(self: &Arc<Self>) -> ResourceTemplate {
        let template = format!("{}{{+path}}{{?offset,length}}", self.uri.prefix());
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        let [directory, sized] = [(); 2].map(|()| Arc::clone(self));
        ResourceTemplate::new(template, if name.is_empty() { "files" } else { &*name })
            .description(
                "A file of the directory, whole or in part: offset is its first byte, length the \
                 number of bytes.",
            )
            .complete_from_resources("path")
            .blocking_sized(
                move |read| sized.content_bytes_max(read.uri(), u64::MAX),
                move |read, worker| directory.read(&read, &worker),
            )
    }

    fn resource(self: &Arc<Self>, place: &RelativePath, facts: &FileMetadata) -> Resource {
        let annotations =
            Annotations { last_modified_ms: Some(facts.modified_ms), ..Default::default() };
        let resource = Resource::new(self.uri.uri_of(place), place.as_str())
            .size(facts.bytes)
            .annotations(annotations);
        let resource = match mime_type(place) {
            Some(mime_type) => resource.mime_type(mime_type),
            None => resource,
        };
        let resource = match &facts.target {
            Some(target) => resource.leads_to(self.uri.uri_of(target)),
            None => resource,
        };
        let ([directory, sized], bytes) = ([(); 2].map(|()| Arc::clone(self)), facts.bytes);
        resource.blocking_sized(
            move |read| sized.content_bytes_max(read.uri(), bytes),
            move |read, worker| directory.read(&read, &worker),
        )
    }

    /// Returns the most bytes that a read of `uri` returns, a file of `bytes` bytes.
    fn content_bytes_max(&self, uri: &str, bytes: u64) -> usize {
        let query = uri.split_once('?').map(|(_, query)| query);
        let range = query.and_then(|query| FileRange::parse(query).ok()).unwrap_or_default();
        let bytes = range.length.unwrap_or(bytes).min(bytes.saturating_sub(range.offset));
        usize::try_from(bytes).unwrap_or(usize::MAX).min(self.file_bytes_max)
    }

    fn read(
        &self,
        read: &ReadContext<'_>,
        worker: &BlockingContext,
    ) -> Result<ResourceContents, HandlerError> {
        let not_found = || Error::resource_not_found(read.uri(), read.revision());
        let (uri, query) = match read.uri().split_once('?') {
            Some((uri, query)) => (uri, Some(query)),
            None => (read.uri(), None),
        };
        let range = query.map(FileRange::parse).transpose().map_err(Error::invalid_params)?;
        let place = self.uri.relative_path(uri).filter(|place| self.offers(place));
        let place = place.ok_or_else(not_found)?;
        let opened = self.root.open_file(&place).map_err(|_| Error::internal(READ_FAILED))?;
        let (mut file, facts) = opened.ok_or_else(not_found)?;
        // Rules for the file apply by whichever links it is reached.
        let may_read = |target| worker.may_read(&self.uri.uri_of(target));
        if !facts.target.as_ref().is_none_or(may_read) {
            return Err(not_found().into());
        }
        let offset = range.map_or(0, |range| range.offset);
        let length = self.read_length(range, &facts, uri)?;
        let bytes = FileContent::read_bytes(&mut file, offset, length, || worker.check_cancelled());
        let bytes = bytes.map_err(|stopped| match stopped {
            ReadError::Cancelled => HandlerError::Cancelled,
            ReadError::Io(_) => Error::internal(READ_FAILED).into(),
        })?;
        let is_end = offset + bytes.len() as u64 >= facts.bytes;
        let portion = FileContent::from_bytes(bytes, is_end);
        let length = portion.len();
        let (content, default) = match portion {
            FileContent::Text(text) => (ResourceContents::text(read.uri(), text), "text/plain"),
            FileContent::Blob(bytes) => {
                (ResourceContents::blob(read.uri(), bytes), "application/octet-stream")
            }
        };
        let mut content = content.with_mime_type(mime_type(&place).unwrap_or(default));
        if range.is_some() {
            let part = describe_range(offset, length, &facts);
            content.meta = Some([(RANGE_KEY.to_owned(), part)].into_iter().collect());
        }
        Ok(content)
    }

    /// Returns the number of bytes to read.
    fn read_length(
        &self,
        range: Option<FileRange>,
        facts: &FileMetadata,
        uri: &str,
    ) -> Result<usize, Error> {
        let bytes = facts.bytes;
        let FileRange { offset, length } = range.unwrap_or_default();
        let rest = bytes.checked_sub(offset).ok_or_else(|| {
            Error::invalid_params(format!("offset {offset} is beyond the end ({bytes} bytes)"))
        })?;
        let limit = self.file_bytes_max;
        let requested = usize::try_from(length.unwrap_or(rest).min(rest)).unwrap_or(usize::MAX);
        if range.is_none() && requested > limit {
            let data = json!({ RANGE_KEY: describe_range(0, limit, facts) });
            let error = Error::invalid_params(format!(
                "the file has {bytes} bytes (limit {limit} per response); \
                 read it in ranges, beginning with {uri}?offset=0&length={limit}"
            ));
            return Err(error.with_data(data.to_string()));
        }
        Ok(requested.min(limit))
    }

    fn offers(&self, place: &RelativePath) -> bool {
        self.limits.hidden || !place.is_hidden()
    }
}

/// A directory and its last known state.
#[derive(Debug)]
pub(super) struct Resources {
    directory: Arc<Directory>,
    /// Files in the catalog.
    offered: BTreeMap<RelativePath, FileMetadata>,
    /// Files found by the last scan.
    found: BTreeMap<RelativePath, FileMetadata>,
    folders: Vec<RelativePath>,
    is_stale: bool,
}

/// Result of an update from disk.
#[derive(Default)]
pub(super) struct ResourceUpdate {
    /// Files that the catalog must offer, and the update that does so.
    pub(super) edit: Option<(BTreeMap<RelativePath, FileMetadata>, CatalogUpdate)>,
    /// URIs of changed files.
    pub(super) updated_uris: Vec<String>,
    pub(super) faults: Vec<FileFault>,
}

impl Resources {
    pub(super) fn new(directory: Directory) -> Self {
        Self {
            directory: Arc::new(directory),
            offered: BTreeMap::new(),
            found: BTreeMap::new(),
            folders: Vec::new(),
            is_stale: false,
        }
    }

    pub(super) const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Returns the links on the way to the directory.
    pub(super) fn links(&self) -> Vec<PathBuf> {
        self.directory.root.links()
    }

    /// Returns the folders to watch.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let root = self.directory.path();
        self.folders.iter().map(|folder| {
            if folder.is_root() { root.to_owned() } else { root.join(folder.as_str()) }
        })
    }

    /// Returns whether the catalog differs from the disk.
    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Records that the catalog offers `offered`.
    pub(super) fn record_offered(&mut self, offered: BTreeMap<RelativePath, FileMetadata>) {
        self.is_stale = offered != self.found;
        self.offered = offered;
    }

    /// Reads the disk. Added or removed names require a catalog update at once; new sizes and times
    /// of other files are included in the next one, or sent when `burst` is a refresh, so that a
    /// file that grows all the time does not change the list all the time.
    pub(super) fn update_from_disk(&mut self, burst: &ChangeBatch) -> ResourceUpdate {
        let directory = Arc::clone(&self.directory);
        let mut look = ResourceUpdate::default();
        let written = burst.written.iter().filter_map(|path| {
            RelativePath::from_absolute(path, directory.path())
                .filter(|place| directory.offers(place))
        });
        let mut changed: Vec<RelativePath> = written.collect();
        if !burst.needs_scan {
            self.record_written(&changed);
            look.updated_uris = changed.iter().map(|place| directory.uri.uri_of(place)).collect();
            return look;
        }
        let is_readable = match Listing::scan(&directory.root, directory.limits) {
            Ok(listing) => {
                directory.add_faults(&listing, &mut look.faults);
                changed.extend(self.record_scan(listing));
                true
            }
            Err(error) => {
                changed.extend(self.record_scan_error(&error));
                let what = format!("cannot be read ({error})");
                let hint = "it is read again every 30 seconds";
                look.faults.push(FileFault::new(directory.path(), what, hint));
                false
            }
        };
        changed.sort_unstable();
        changed.dedup();
        look.updated_uris = changed.iter().map(|place| directory.uri.uri_of(place)).collect();
        let is_other = self.offered != self.found;
        let has_other_names = !self.offered.keys().eq(self.found.keys());
        if has_other_names || (is_other && burst.is_refresh) {
            look.edit = Some((self.found.clone(), self.edit()));
        }
        self.is_stale = is_other || !is_readable;
        look
    }

    /// Records the result of a scan; returns the files that changed or were removed.
    fn record_scan(&mut self, listing: Listing) -> Vec<RelativePath> {
        let before = std::mem::replace(&mut self.found, listing.files);
        self.folders = listing.folders;
        let is_as_before = |(place, facts): &(RelativePath, FileMetadata)| {
            self.found.get(place).is_some_and(|now| now == facts)
        };
        before.into_iter().filter(|entry| !is_as_before(entry)).map(|(place, _)| place).collect()
    }

    /// Records that a scan failed; returns the files removed with the root. After other errors,
    /// such as too many open files, the files stay and are scanned again.
    fn record_scan_error(&mut self, error: &io::Error) -> Vec<RelativePath> {
        if error.kind() != io::ErrorKind::NotFound {
            return Vec::new();
        }
        self.folders.clear();
        std::mem::take(&mut self.found).into_keys().collect()
    }

    /// Records files that were written, so that the next scan does not report them again.
    fn record_written(&mut self, written: &[RelativePath]) {
        self.is_stale |= !written.is_empty();
        for place in written {
            if let Some(seen) = self.found.get_mut(place)
                && let Ok(Some((_, facts))) = self.directory.root.open_file(place)
            {
                *seen = facts;
            }
        }
    }

    /// Returns the update from what is offered to what was found.
    fn edit(&self) -> CatalogUpdate {
        let removed = self.offered.keys().filter(|place| !self.found.contains_key(place));
        let removed: HashSet<String> =
            removed.map(|place| self.directory.uri.uri_of(place)).collect();
        let (mut changed, mut new) = (Vec::new(), Vec::new());
        for (place, facts) in &self.found {
            match self.offered.get(place) {
                Some(offered) if offered == facts => {}
                Some(_) => changed.push(self.directory.resource(place, facts)),
                None => new.push(self.directory.resource(place, facts)),
            }
        }
        Box::new(move |builder| {
            builder.remove_resources(&removed).replace_resources(changed).resources(new)
        })
    }
}

impl Directory {
    /// Adds the faults of a listing.
    fn add_faults(&self, listing: &Listing, faults: &mut Vec<FileFault>) {
        if listing.is_truncated {
            let limit = self.limits.entries_max;
            let what = format!("has more than {limit} entries; the others are not listed");
            let hint = "raise resources.entries_max (unlisted files can still be read)";
            faults.push(FileFault::new(self.path(), what, hint));
        }
        if listing.unservable > 0 {
            let what = format!("has {} entries that are not offered", listing.unservable);
            let hint = "rename them: UTF-8, no backslashes or control characters";
            faults.push(FileFault::new(self.path(), what, hint));
        }
        faults.extend(FileFault::of_unreadable(self.path(), listing, |_| true));
    }
}

/// Returns the MIME type of a file by its extension.
fn mime_type(place: &RelativePath) -> Option<&'static str> {
    let end = Path::new(place.as_str()).extension()?.to_str()?;
    let own = MIME_TYPE_OVERRIDES.iter().find(|(own, _)| end.eq_ignore_ascii_case(own));
    own.map(|(_, mime_type)| *mime_type).or_else(|| mime_guess::from_ext(end).first_raw())
}

/// Extensions with a more common meaning than the registered one (MPEG video).
const MIME_TYPE_OVERRIDES: [(&str, &str); 3] =
    [("ts", "text/typescript"), ("mts", "text/typescript"), ("cts", "text/typescript")];

/// Key in `_meta` for the range that was read, and in the data of an error for the first range.
const RANGE_KEY: &str = "corelane/range";

/// Returns a range of a file: its first byte, its length, and the size and version of the file.
fn describe_range(offset: u64, length: usize, facts: &FileMetadata) -> Value {
    json!({ "offset": offset, "length": length, "size": facts.bytes, "etag": facts.etag() })
}

const READ_FAILED: &str = "the file could not be read; try again later";

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(root: &Path) -> Resources {
        let mut resources = Resources::new(Directory::new(root).unwrap());
        let look = resources.update_from_disk(&ChangeBatch::full_scan());
        resources.record_offered(look.edit.unwrap().0);
        resources
    }

    #[test]
    fn written_file_is_notified_once() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().canonicalize().unwrap().join("a.txt");
        std::fs::write(&file, "a").unwrap();
        let mut resources = resources(root.path());
        std::fs::write(&file, "aa").unwrap();
        let written = ChangeBatch { written: [file].into(), ..ChangeBatch::default() };
        assert_eq!(resources.update_from_disk(&written).updated_uris.len(), 1);
        let look = resources.update_from_disk(&ChangeBatch::full_scan());
        assert_eq!(look.updated_uris, Vec::<String>::new());
        let (offered, _) = look.edit.expect("no update of the list with the new size");
        assert_eq!(offered.values().next().unwrap().bytes, 2);
    }

    #[test]
    fn scan_error_removes_files_only_if_not_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "a").unwrap();
        let mut resources = resources(root.path());
        let too_many_files = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert!(resources.record_scan_error(&too_many_files).is_empty());
        assert_eq!((resources.found.len(), resources.folders.len()), (1, 1));
        assert_eq!(resources.record_scan_error(&io::ErrorKind::NotFound.into()).len(), 1);
        assert_eq!((resources.found.len(), resources.folders.len()), (0, 0));
    }
}
