//! A directory whose `*.md` files are prompts.
//!
//! Invariants: files are parsed when they change, not when a client requests them. A file that is
//! not a valid prompt does not affect others; of two files with the same prompt name the first by
//! path is offered.

mod template;

mod front_matter;

mod file;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use corelane_protocol::model::Role;

use self::file::{ArgumentFile, PromptFile};
use super::FileFault;
use super::change_batch::ChangeBatch;
use super::disk::{FileContent, FileMetadata, Listing, ReadError, RelativePath, Root, ScanLimits};
use crate::service::{CatalogUpdate, HandlerError, Prompt, PromptArgument, PromptBuilder};
use crate::telemetry::event::Event;

/// A directory offered as prompts: each `*.md` file in it is one message of the user. Folders in it
/// are ignored.
///
/// ```text
/// +++
/// name = "review"
/// title = "Review a change"
/// description = "Looks for mistakes."
/// [[arguments]]
/// name = "code"
/// description = "What to review."
/// required = true
/// +++
/// Review this: {{code}}
/// ```
///
/// The front matter between lines of `+++` is TOML, between lines of `---` YAML; each key is
/// optional, and so is all of it.
/// Without `name` the prompt has the file's name without its extension; without `arguments` every
/// placeholder in the body is a required argument; a prompt has at most 1,024. Values are inserted
/// verbatim, up to 8 MiB in total; `{{{{` is an escape of two braces. A placeholder that is
/// malformed or not listed is text, and a warning is logged. `$ARGUMENTS` in the body is the
/// optional argument `arguments`, which `argument-hint` describes; other keys are ignored.
#[derive(Clone, Debug)]
pub struct Prompts {
    root: Root,
}

impl Prompts {
    /// Returns the prompts in `root`. Links in its path are followed anew with each access.
    ///
    /// # Errors
    ///
    /// It is not a readable directory.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { root: Root::new(root.as_ref())? })
    }

    /// Returns its absolute path.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    fn read_prompt(&self, place: &RelativePath) -> Result<PromptFile, FileFault> {
        let path = self.path().join(place.as_str());
        let fault = |what: String| FileFault::new(&path, what, "replace it by a readable file");
        let opened = self.root.open_file(place);
        let opened = opened.map_err(|error| fault(format!("cannot be read ({error})")))?;
        let (mut file, facts) = opened.ok_or_else(|| fault("cannot be read".to_owned()))?;
        if facts.bytes > FILE_BYTES_MAX as u64 {
            let what = format!("has {} bytes (limit {FILE_BYTES_MAX})", facts.bytes);
            return Err(FileFault::new(&path, what, "shorten it"));
        }
        let bytes = FileContent::read_bytes(&mut file, 0, FILE_BYTES_MAX, || Ok(()));
        let bytes = bytes.map_err(|stopped| match stopped {
            ReadError::Io(error) => fault(format!("cannot be read ({error})")),
            ReadError::Cancelled => fault("was not read".to_owned()),
        })?;
        match FileContent::from_bytes(bytes, true) {
            FileContent::Text(text) => {
                let prompt = PromptFile::parse(&path, &text)?;
                if !prompt.ignored_keys.is_empty() {
                    let (path, keys) = (path.display(), prompt.ignored_keys.join(", "));
                    let detail = format!("{path}: unknown keys are ignored: {keys}");
                    Event::FileDetail { detail: &detail }.emit();
                }
                Ok(prompt)
            }
            FileContent::Blob(_) => Err(FileFault::new(&path, "is not UTF-8", "save it as UTF-8")),
        }
    }
}

/// Prompts by name, each with its file.
pub(super) type PromptsByName = BTreeMap<String, (RelativePath, PromptFile)>;

/// A directory of prompts and its last known state.
#[derive(Debug)]
pub(super) struct PromptDirectory {
    prompts: Prompts,
    files: BTreeMap<RelativePath, (FileMetadata, Result<PromptFile, FileFault>)>,
    /// Prompts in the catalog.
    offered: PromptsByName,
    /// Whether the directory could not be read.
    is_unreadable: bool,
}

/// Result of an update from disk.
#[derive(Debug, Default)]
pub(super) struct PromptUpdate {
    /// Prompts that the catalog must offer, if they differ from those it offers.
    pub(super) changed_prompts: Option<PromptsByName>,
    pub(super) faults: Vec<FileFault>,
}

impl PromptDirectory {
    pub(super) const fn new(prompts: Prompts) -> Self {
        Self { prompts, files: BTreeMap::new(), offered: BTreeMap::new(), is_unreadable: false }
    }

    /// Returns the links on the way to the directory.
    pub(super) fn links(&self) -> Vec<PathBuf> {
        self.prompts.root.links()
    }

    /// Returns the folder to watch, if it exists.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        (!self.is_unreadable).then(|| self.root().to_owned())
    }

    pub(super) fn root(&self) -> &Path {
        self.prompts.path()
    }

    /// Returns whether an update is due even without events.
    pub(super) const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Returns the path of the file `place`.
    pub(super) fn path(&self, place: &RelativePath) -> PathBuf {
        self.prompts.path().join(place.as_str())
    }

    /// Records that the catalog offers `offered`.
    pub(super) fn record_offered(&mut self, offered: PromptsByName) {
        self.offered = offered;
    }

    /// Returns whether one of its files was written.
    pub(super) fn contains_written(&self, burst: &ChangeBatch) -> bool {
        burst.written.iter().any(|path| path.parent() == Some(self.prompts.path()))
    }

    /// Reads the disk, and parses changed files.
    pub(super) fn update_from_disk(&mut self, burst: &ChangeBatch) -> PromptUpdate {
        let mut look = PromptUpdate::default();
        if !burst.needs_scan {
            return look;
        }
        let root = self.prompts.path();
        let written: Vec<RelativePath> = burst
            .written
            .iter()
            .filter_map(|path| RelativePath::from_absolute(path, root))
            .collect();
        let scan = Listing::scan(&self.prompts.root, SCAN_LIMITS);
        self.is_unreadable = scan.is_err();
        let listing = match scan {
            Ok(listing) => listing,
            Err(error) => {
                let what = format!("cannot be read ({error})");
                let hint = "it is read again every 30 seconds";
                look.faults.push(FileFault::new(root, what, hint));
                // Resource limits of the system remove no prompts.
                if error.kind() != io::ErrorKind::NotFound {
                    return look;
                }
                Listing::default()
            }
        };
        if listing.is_truncated {
            let what = "has more than 10000 entries; the others are ignored";
            let hint = "keep prompts in a directory of their own";
            look.faults.push(FileFault::new(root, what, hint));
        }
        look.faults.extend(FileFault::of_unreadable(root, &listing, is_prompt_file));
        let mut before = std::mem::take(&mut self.files);
        for (place, facts) in listing.files.into_iter().filter(|(place, _)| is_prompt_file(place)) {
            let known = before.remove(&place).filter(|(known, result)| {
                *known == facts && !written.contains(&place) && result.is_ok()
            });
            let entry = known.unwrap_or_else(|| (facts, self.prompts.read_prompt(&place)));
            self.files.insert(place, entry);
        }
        let found = self.prompts_by_name(&mut look.faults);
        look.changed_prompts = (found != self.offered).then_some(found);
        look
    }

    fn prompts_by_name(&self, faults: &mut Vec<FileFault>) -> PromptsByName {
        let mut found = PromptsByName::new();
        for (place, (_, result)) in &self.files {
            match result {
                Ok(prompt) => {
                    faults.extend(prompt.warnings.iter().cloned());
                    if let Some((first, _)) = found.get(&prompt.name) {
                        let (name, first) = (&prompt.name, first.as_str());
                        let what = format!("the prompt name {name} is used by {first}");
                        let path = self.path(place);
                        faults.push(FileFault::new(&path, what, "give one of them another name"));
                        continue;
                    }
                    found.insert(prompt.name.clone(), (place.clone(), prompt.clone()));
                }
                Err(fault) => faults.push(fault.clone()),
            }
        }
        found
    }

    /// Returns the changes from the offered prompts to `found`, by name.
    pub(super) fn changes_to(&self, found: &PromptsByName) -> Vec<PromptChange> {
        let mut names: Vec<&String> = self.offered.keys().chain(found.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let differs = |name: &&String| self.offered.get(*name) != found.get(*name);
        let step = |name: &String| PromptChange {
            name: name.clone(),
            is_offered: self.offered.contains_key(name),
            prompt: found.get(name).cloned(),
        };
        names.into_iter().filter(differs).map(step).collect()
    }

    pub(super) const fn offered(&self) -> &PromptsByName {
        &self.offered
    }
}

/// One prompt that is added, changed or removed.
#[derive(Clone, Debug)]
pub(super) struct PromptChange {
    pub(super) name: String,
    /// Whether a prompt of this name is offered.
    is_offered: bool,
    /// The new prompt and its file; `None` removes it.
    pub(super) prompt: Option<(RelativePath, PromptFile)>,
}

impl PromptChange {
    /// Returns the catalog update of all `steps`.
    pub(super) fn edit(steps: &[Self]) -> CatalogUpdate {
        let (mut removed, mut changed, mut new) = (HashSet::new(), Vec::new(), Vec::new());
        for Self { name, is_offered: is_there, prompt } in steps {
            match prompt {
                Some((_, file)) if *is_there => changed.push(file.clone()),
                Some((_, file)) => new.push(file.clone()),
                None => drop(removed.insert(name.clone())),
            }
        }
        Box::new(move |builder| {
            let builder = builder.remove_prompts(&removed);
            let builder = builder.replace_prompts(changed.into_iter().map(to_prompt));
            builder.prompts(new.into_iter().map(to_prompt))
        })
    }
}

/// Returns the catalog prompt of a file: one message of the user.
fn to_prompt(file: PromptFile) -> Prompt {
    let PromptFile { name, title, description, arguments, body, .. } = file;
    let mut prompt = Prompt::new(name);
    if let Some(title) = title {
        prompt = prompt.title(title);
    }
    if let Some(description) = description {
        prompt = prompt.description(description);
    }
    let prompt = arguments.into_iter().map(to_argument).fold(prompt, PromptBuilder::argument);
    prompt.inline(move |arguments, messages, _| {
        let text = body.fill(arguments.iter());
        if text.length() > FILLED_BYTES_MAX {
            let limit = FILLED_BYTES_MAX >> 20;
            let what = format!("the arguments are too long: the prompt exceeds {limit} MiB");
            return Err(HandlerError::invalid_params(what));
        }
        messages.format(Role::User, format_args!("{text}"));
        Ok(())
    })
}

fn to_argument(file: ArgumentFile) -> PromptArgument {
    let mut argument = PromptArgument::new(file.name);
    if let Some(title) = file.title {
        argument = argument.title(title);
    }
    if let Some(description) = file.description {
        argument = argument.description(description);
    }
    if file.required { argument.required() } else { argument }
}

fn is_prompt_file(place: &RelativePath) -> bool {
    let end = Path::new(place.as_str()).extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case("md"))
}

/// Only the directory itself is listed.
const SCAN_LIMITS: ScanLimits = ScanLimits { entries_max: 10_000, depth_max: 1, hidden: false };

/// Limit of a prompt with its arguments: a long argument with many placeholders must not use up the
/// memory.
const FILLED_BYTES_MAX: usize = 8 << 20;

/// Limit of one file: a longer one is not a prompt.
const FILE_BYTES_MAX: usize = 1 << 20;
