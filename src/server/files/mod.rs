//! A directory as resources, and prompts from files.
//!
//! [`Directory`] offers what stands below a folder as resources, [`Prompts`] each `*.md` file of a
//! folder as a prompt. [`Files`] holds either or both, puts them into a catalog and keeps them as
//! they stand on disk while a server runs:
//!
//! ```no_run
//! use corelane::protocol::message::ServerInfo;
//! use corelane::server::files::{Directory, Files, Prompts};
//! use corelane::{Catalog, Server};
//!
//! let files = Files::new().resources(Directory::new("docs")?).prompts(Prompts::new("prompts")?);
//! let catalog = Catalog::builder(ServerInfo::new("library", "1.0.0")).build()?;
//! Server::new(catalog).files(files)?.serve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it keeps true: nothing outside a root is ever opened, whatever a URI or a link says; scans
//! and reads are bounded; no shard waits for a disk (reads run on the blocking pool, scans on the
//! thread that watches). A file that cannot be offered is told to the operator with its place and
//! the remedy, and takes no other file with it.
//!
//! # What a client may read
//!
//! A listed file is read under its URI. Every file, listed or not, and every part of one, is read
//! under the template `file:///…/{+path}{?offset,length}`; an answer to that says in
//! `_meta["corelane/range"]` which bytes it holds, and ends between two characters where the file
//! is text. What is not there, lies elsewhere or must not be read is "not found", all the same.

mod fault;

mod disk;

mod burst;

mod watch;

mod directory;

mod prompts;

mod keeper;

use std::collections::BTreeSet;
use std::io;

pub use self::directory::Directory;
pub use self::fault::Fault;
pub use self::keeper::Publisher;
pub use self::prompts::Prompts;
pub use self::watch::Watch;

use self::burst::Burst;
use self::directory::Resources;
use self::keeper::CatalogKeeper;
use self::prompts::{PromptShelf, Step};
use crate::observe::event::Event;
use crate::server::options::FileOptions;
use crate::service::{Catalog, CatalogError, Features};

/// Files to be offered: a directory as resources, a directory of prompts, or both.
#[derive(Debug, Default)]
#[must_use = "files are offered by `Server::files`"]
pub struct Files {
    resources: Option<Resources>,
    prompts: Option<PromptShelf>,
    is_still: bool,
    /// Faults that were told.
    told: BTreeSet<String>,
}

impl Files {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// The files that `options` name.
    ///
    /// # Errors
    ///
    /// Where a directory cannot be read.
    pub fn of(options: &FileOptions) -> io::Result<Self> {
        let mut files = Self { is_still: !options.watch, ..Self::default() };
        if let Some(path) = &options.resources {
            let directory = Directory::new(path)?
                .file_bytes_max(options.file_bytes_max)
                .entries_max(options.entries_max)
                .depth_max(options.depth_max)
                .hidden(options.hidden);
            files = files.resources(directory);
        }
        if let Some(path) = &options.prompts {
            files = files.prompts(Prompts::new(path)?);
        }
        Ok(files)
    }

    /// Offers what stands in `directory` as resources.
    pub fn resources(mut self, directory: Directory) -> Self {
        self.resources = Some(Resources::new(directory));
        self
    }

    /// Offers the files of `prompts` as prompts.
    pub fn prompts(mut self, prompts: Prompts) -> Self {
        self.prompts = Some(PromptShelf::new(prompts));
        self
    }

    /// Offers files as they were at start, whatever happens to them. A directory that is not
    /// watched costs no thread; sizes and times in lists grow old.
    pub fn still(mut self) -> Self {
        self.is_still = true;
        self
    }

    /// A catalog with all of `catalog` and these files. What is wrong with some of them is told to
    /// the operator and by [`Files::faults`].
    ///
    /// # Errors
    ///
    /// Where `catalog` offers resources under the same URIs.
    pub fn offer(&mut self, catalog: &Catalog) -> Result<Catalog, CatalogError> {
        let mut builder = catalog.edit();
        if self.is_still && !catalog.has(Features::RESOURCES) {
            // Changes that nobody notices are told to nobody.
            builder = builder.withhold(Features::SUBSCRIPTIONS);
        }
        let mut faults = Vec::new();
        if let Some(resources) = &mut self.resources {
            builder = builder.offer(Features::RESOURCES).template(resources.directory().template());
            let look = resources.look(&Burst::unknown());
            faults.extend(look.faults);
            if let Some((offered, edit)) = look.edit {
                builder = edit(builder);
                resources.confirm(offered);
            }
        }
        if let Some(prompts) = &mut self.prompts {
            builder = builder.offer(Features::PROMPTS);
            let look = prompts.look(&Burst::unknown());
            faults.extend(look.faults);
            let mut wanted = look.wanted.unwrap_or_default();
            wanted.retain(|name, (place, _)| {
                let is_free = catalog.prompt(name).is_none();
                if !is_free {
                    let what = format!("the program has a prompt that is called {name}");
                    let remedy = "give it another name";
                    faults.push(Fault::new(&prompts.path(place), what, remedy));
                }
                is_free
            });
            builder = Step::edit(&prompts.steps(&wanted))(builder);
            prompts.confirm(wanted);
        }
        for fault in faults {
            let text = fault.to_string();
            Event::FileDoubted { doubt: &text }.emit();
            self.told.insert(text);
        }
        builder.build()
    }

    /// What [`Files::offer`] found wrong, one line each.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.told.iter().map(String::as_str)
    }

    /// Keeps what was offered as the disk has it, on a thread of its own, until the watch is
    /// dropped. `None` where there is nothing to keep.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be started. Where the kernel grants no watches the operator is told
    /// once, and files are offered as they were.
    pub fn watch(self, publisher: impl Publisher) -> io::Result<Option<Watch>> {
        let Self { resources, prompts, is_still, told } = self;
        if is_still || (resources.is_none() && prompts.is_none()) {
            return Ok(None);
        }
        Watch::start(CatalogKeeper { resources, prompts, told, publisher }).map(Some)
    }
}
