//! Directories of files, offered as resources and prompts.
//!
//! [`Directory`] offers the files below a folder as resources, [`Prompts`] each `*.md` file of a
//! folder as a prompt. [`Files`] holds either or both, adds them to a catalog and updates it while
//! a server runs:
//!
//! ```no_run
//! use corelane::files::{Directory, Files, Prompts};
//! use corelane::model::Implementation;
//! use corelane::{Catalog, Server};
//!
//! let files = Files::new().resources(Directory::new("docs")?).prompts(Prompts::new("prompts")?);
//! let catalog = Catalog::builder(Implementation::new("library", "1.0.0")).build()?;
//! Server::builder(catalog).files(files)?.serve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: nothing outside a root is opened, whatever a URI or a link names; scans and reads
//! are bounded; no shard waits for a disk (reads run on the blocking pool, scans on the watcher's
//! thread). A file that cannot be offered is logged with its path and a hint, and does not affect
//! other files.
//!
//! # What a client may read
//!
//! A listed file is read under its URI. Every file, listed or not, and every range of one, is read
//! under the template `file:///…/{+path}{?offset,length}`; the response states in
//! `_meta["corelane/range"]` which bytes it contains, and ends between two characters if the file
//! is text. A file that is missing, outside the root or not readable is "not found" in all cases.

#![forbid(unsafe_code)]

mod disk;

pub(crate) mod change_batch;

pub(crate) mod watcher;

mod directory;

mod prompts;

pub(crate) mod catalog_updates;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use self::catalog_updates::{CatalogUpdater, Publisher};
use self::change_batch::ChangeBatch;
pub use self::directory::Directory;
use self::directory::Resources;
use self::disk::{Listing, RelativePath};
pub use self::prompts::Prompts;
use self::prompts::{PromptChange, PromptDirectory};
use self::watcher::FileWatch;
use crate::server::options::FileOptions;
use crate::server::{Handle, Server};
use crate::service::{Catalog, CatalogError, Features};
use crate::telemetry::event::Event;

/// Files to offer: a directory as resources, a directory of prompts, or both.
#[derive(Debug, Default)]
#[must_use = "files are offered with `Server::files`"]
pub struct Files {
    resources: Option<Resources>,
    prompts: Option<PromptDirectory>,
    is_watch_disabled: bool,
    /// Faults that were logged.
    logged_faults: BTreeSet<String>,
}

impl Files {
    /// Creates an empty set of files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the files of the directories in `options`.
    ///
    /// # Errors
    ///
    /// A directory cannot be read.
    pub fn from_options(options: &FileOptions) -> io::Result<Self> {
        let mut files = Self { is_watch_disabled: !options.watch, ..Self::default() };
        if let Some(path) = &options.resources {
            let mut directory = Directory::new(path)?
                .file_bytes_max(options.file_bytes_max)
                .entries_max(options.entries_max)
                .depth_max(options.depth_max)
                .hidden(options.hidden);
            if let Some(prefix) = &options.uri_prefix {
                directory = directory.uri_prefix(prefix)?;
            }
            files = files.resources(directory);
        }
        if let Some(path) = &options.prompts {
            files = files.prompts(Prompts::new(path)?);
        }
        Ok(files)
    }

    /// Offers the files in `directory` as resources.
    pub fn resources(mut self, directory: Directory) -> Self {
        self.resources = Some(Resources::new(directory));
        self
    }

    /// Offers the files of `prompts` as prompts.
    pub fn prompts(mut self, prompts: Prompts) -> Self {
        self.prompts = Some(PromptDirectory::new(prompts));
        self
    }

    /// Disables watching: files are offered as they were at start, without a thread. Sizes and
    /// times in lists become outdated.
    pub fn without_watch(mut self) -> Self {
        self.is_watch_disabled = true;
        self
    }

    /// Returns `catalog` extended by these files. Faults of single files are logged and returned by
    /// [`Files::faults`].
    ///
    /// # Errors
    ///
    /// `catalog` offers resources under the same URIs.
    pub fn add_to_catalog(&mut self, catalog: &Catalog) -> Result<Catalog, CatalogError> {
        let mut builder = catalog.to_builder();
        if self.is_watch_disabled && !catalog.has_features(Features::RESOURCES) {
            // Without a watcher there are no change notifications.
            builder = builder.disable_features(Features::SUBSCRIPTIONS);
        }
        let mut faults = Vec::new();
        if let Some(resources) = &mut self.resources {
            builder = builder
                .enable_features(Features::RESOURCES)
                .template(resources.directory().template());
            let look = resources.update_from_disk(&ChangeBatch::full_scan());
            faults.extend(look.faults);
            if let Some((offered, edit)) = look.edit {
                builder = edit(builder);
                resources.record_offered(offered);
            }
        }
        if let Some(prompts) = &mut self.prompts {
            builder = builder.enable_features(Features::PROMPTS);
            let look = prompts.update_from_disk(&ChangeBatch::full_scan());
            faults.extend(look.faults);
            let mut found = look.changed_prompts.unwrap_or_default();
            found.retain(|name, (place, _)| {
                let is_free = catalog.prompt(name).is_none();
                if !is_free {
                    let what = format!("the program has a prompt named {name}");
                    let hint = "give the prompt of the file another name";
                    faults.push(FileFault::new(&prompts.path(place), what, hint));
                }
                is_free
            });
            builder = PromptChange::edit(&prompts.changes_to(&found))(builder);
            prompts.record_offered(found);
        }
        for fault in faults {
            let text = fault.to_string();
            Event::FileWarning { warning: &text }.emit();
            self.logged_faults.insert(text);
        }
        builder.build()
    }

    /// Returns the faults found by [`Files::add_to_catalog`], one line each.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.logged_faults.iter().map(String::as_str)
    }

    /// Starts a thread that updates the catalog when files change, until the watch is dropped.
    /// Returns `None` if there is nothing to watch.
    ///
    /// # Errors
    ///
    /// The thread cannot be started. If the kernel grants no watches, a warning is logged once, and
    /// files are offered as they were.
    #[doc(hidden)]
    pub fn watch(self, publisher: impl Publisher) -> io::Result<Option<FileWatch>> {
        let Self { resources, prompts, is_watch_disabled, logged_faults } = self;
        if is_watch_disabled || (resources.is_none() && prompts.is_none()) {
            return Ok(None);
        }
        FileWatch::start(CatalogUpdater { resources, prompts, logged_faults, publisher }).map(Some)
    }

    /// Watches for `handle`. If the thread cannot be started, a warning is logged and `None`
    /// returned: the server runs without updates.
    fn watch_or_warn(self, handle: Handle) -> Option<FileWatch> {
        self.watch(handle).unwrap_or_else(|error| {
            let warning = format!("cannot watch files for changes ({error}); reduce threads");
            Event::FileWarning { warning: &warning }.emit();
            None
        })
    }
}

impl Server {
    /// Adds the resources and prompts of `files` to the catalog, and follows changes on disk while
    /// the server runs.
    ///
    /// # Errors
    ///
    /// If the catalog has resources with the same URIs.
    pub fn files(self, mut files: Files) -> Result<Self, CatalogError> {
        let server = self.try_map_catalog(|catalog| files.add_to_catalog(catalog))?;
        Ok(server.on_start(|handle| files.watch_or_warn(handle)))
    }
}

/// Why a file or folder is not offered, or only in part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileFault {
    /// The file or folder.
    pub path: PathBuf,
    /// Line, from 1; `None` for the file as a whole.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl FileFault {
    /// Creates a fault of `path` as a whole.
    fn new(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into(), hint: hint.into() }
    }

    /// Returns the faults of what a listing of `root` has found unreadable, if it `concerns` the
    /// directory.
    fn of_unreadable(
        root: &Path,
        listing: &Listing,
        concerns: impl Fn(&RelativePath) -> bool,
    ) -> Vec<Self> {
        let hint = "it is not offered: make it readable, or remove it";
        let named = listing.unreadable.iter().filter(|(place, _)| concerns(place));
        let mut faults: Vec<Self> = named
            .map(|(place, reason)| {
                Self::new(&root.join(place.as_str()), format!("cannot be read ({reason})"), hint)
            })
            .collect();
        if listing.other_unreadable > 0 {
            let what = format!("has {} more such entries", listing.other_unreadable);
            faults.push(Self::new(root, what, "they are not offered"));
        }
        faults
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message, hint } = self;
        write!(formatter, "{}", path.display())?;
        if let Some(line) = line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {message}; {hint}")
    }
}

impl std::error::Error for FileFault {}
