//! A directory whose `*.md` files are prompts.
//!
//! What it keeps true: files are read and checked when they change, never when a client asks. A
//! file that cannot be a prompt is a fault of its own and takes no other file with it; of two files
//! with one name the first one by its path is the prompt.

mod template;

mod file;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use self::file::{ArgumentFile, PromptFile};
use super::burst::Burst;
use super::disk::{Bounds, Facts, Listing, Place, Portion, Root, Stopped};
use super::fault::Fault;
use crate::protocol::message::Role;
use crate::service::{Edit, HandlerError, Prompt, PromptArgument, PromptBuilder};

/// A directory to be offered as prompts: each `*.md` file in it is one message of the user's.
/// Folders in it are not entered.
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
/// What stands between the lines of `+++` is TOML, and each of its keys may be left out, as may the
/// whole of it: `name` is the file's name without its end then, and every place in the body is an
/// argument that must be given. Values are inserted as they are, up to 8 MiB in all; `{{{{` stands
/// for two braces.
#[derive(Clone, Debug)]
pub struct Prompts {
    root: Root,
}

impl Prompts {
    /// The directory at `root`. Links in the path to it are resolved once, here.
    ///
    /// # Errors
    ///
    /// Where it is no directory that can be read.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { root: Root::new(root.as_ref())? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    fn read(&self, place: &Place) -> Result<PromptFile, Fault> {
        let path = self.path().join(place.as_str());
        let refuse = |what: String| Fault::new(&path, what, "make it a file that can be read");
        let opened = self.root.open_file(place);
        let opened = opened.map_err(|error| refuse(format!("cannot be read ({error})")))?;
        let (mut file, facts) = opened.ok_or_else(|| refuse("cannot be read".to_owned()))?;
        if facts.bytes > FILE_BYTES_MAX as u64 {
            let what = format!("has {} bytes, which is more than a prompt may have", facts.bytes);
            return Err(Fault::new(&path, what, "keep it below 1 MiB"));
        }
        let bytes = Portion::read(&mut file, 0, FILE_BYTES_MAX, || Ok(()));
        let bytes = bytes.map_err(|stopped| match stopped {
            Stopped::Failed(error) => refuse(format!("cannot be read ({error})")),
            Stopped::Cancelled => refuse("was not read".to_owned()),
        })?;
        match Portion::new(bytes, true) {
            Portion::Text(text) => PromptFile::read(&path, &text),
            Portion::Blob(_) => Err(Fault::new(&path, "is not UTF-8", "save it as UTF-8")),
        }
    }
}

/// Prompts by name, each with the file it comes from.
pub(super) type ByName = BTreeMap<String, (Place, PromptFile)>;

/// A directory of prompts and what is known of it.
#[derive(Debug)]
pub(super) struct PromptShelf {
    prompts: Prompts,
    files: BTreeMap<Place, (Facts, Result<PromptFile, Fault>)>,
    /// As the catalog says it.
    offered: ByName,
    /// Whether the directory could not be read.
    is_lost: bool,
}

/// What a look at the disk found.
#[derive(Debug, Default)]
pub(super) struct PromptLook {
    /// What the catalog should say, where that is something else than it says.
    pub(super) wanted: Option<ByName>,
    /// What somebody should mend.
    pub(super) faults: Vec<Fault>,
}

impl PromptShelf {
    /// A directory of which nothing is offered yet.
    pub(super) const fn new(prompts: Prompts) -> Self {
        Self { prompts, files: BTreeMap::new(), offered: BTreeMap::new(), is_lost: false }
    }

    /// The folder to watch, while it is there.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        (!self.is_lost).then(|| self.root().to_owned())
    }

    /// Where its files are.
    pub(super) fn root(&self) -> &Path {
        self.prompts.path()
    }

    /// Whether a look is due though nothing is heard.
    pub(super) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The file behind the prompt `place`.
    pub(super) fn path(&self, place: &Place) -> PathBuf {
        self.prompts.path().join(place.as_str())
    }

    /// Takes note that the catalog says `offered`.
    pub(super) fn confirm(&mut self, offered: ByName) {
        self.offered = offered;
    }

    /// Whether `burst` wrote one of its files.
    pub(super) fn holds(&self, burst: &Burst) -> bool {
        burst.written.iter().any(|path| path.parent() == Some(self.prompts.path()))
    }

    /// Looks at the disk, and reads what changed.
    pub(super) fn look(&mut self, burst: &Burst) -> PromptLook {
        let mut look = PromptLook::default();
        if !burst.needs_scan {
            return look;
        }
        let root = self.prompts.path();
        let written: Vec<Place> =
            burst.written.iter().filter_map(|path| Place::of(path, root)).collect();
        let scan = Listing::scan(&self.prompts.root, BOUNDS);
        self.is_lost = scan.is_err();
        let listing = match scan {
            Ok(listing) => listing,
            Err(error) => {
                let what = format!("cannot be read ({error})");
                let remedy = "it is looked at every 30 seconds";
                look.faults.push(Fault::new(root, what, remedy));
                // A system at its limits takes nothing away.
                if error.kind() != io::ErrorKind::NotFound {
                    return look;
                }
                Listing::default()
            }
        };
        if listing.is_cut {
            let what = "holds more than 10000 entries, and the others are left out";
            let remedy = "keep prompts in a directory of their own";
            look.faults.push(Fault::new(root, what, remedy));
        }
        let mut before = std::mem::take(&mut self.files);
        for (place, facts) in listing.files.into_iter().filter(|(place, _)| is_prompt(place)) {
            let known = before.remove(&place).filter(|(known, result)| {
                *known == facts && !written.contains(&place) && result.is_ok()
            });
            let entry = known.unwrap_or_else(|| (facts, self.prompts.read(&place)));
            self.files.insert(place, entry);
        }
        let wanted = self.by_name(&mut look.faults);
        look.wanted = (wanted != self.offered).then_some(wanted);
        look
    }

    fn by_name(&self, faults: &mut Vec<Fault>) -> ByName {
        let mut wanted = ByName::new();
        for (place, (_, result)) in &self.files {
            match result {
                Ok(prompt) => {
                    if let Some((first, _)) = wanted.get(&prompt.name) {
                        let (name, first) = (&prompt.name, first.as_str());
                        let what = format!("{first} is called {name} already");
                        let path = self.path(place);
                        faults.push(Fault::new(&path, what, "give one of them another name"));
                        continue;
                    }
                    wanted.insert(prompt.name.clone(), (place.clone(), prompt.clone()));
                }
                Err(fault) => faults.push(fault.clone()),
            }
        }
        wanted
    }

    /// From what is offered to `wanted`, name by name.
    pub(super) fn steps(&self, wanted: &ByName) -> Vec<Step> {
        let mut names: Vec<&String> = self.offered.keys().chain(wanted.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let differs = |name: &&String| self.offered.get(*name) != wanted.get(*name);
        let step = |name: &String| Step {
            name: name.clone(),
            is_there: self.offered.contains_key(name),
            prompt: wanted.get(name).cloned(),
        };
        names.into_iter().filter(differs).map(step).collect()
    }

    /// The prompts that are offered.
    pub(super) const fn offered(&self) -> &ByName {
        &self.offered
    }
}

/// One prompt that comes, changes or goes.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    /// Whether one of this name is offered.
    is_there: bool,
    /// What is to be offered, and the file it comes from.
    pub(super) prompt: Option<(Place, PromptFile)>,
}

impl Step {
    /// All of `steps` as one change of a catalog.
    pub(super) fn edit(steps: &[Self]) -> Edit {
        let (mut gone, mut other, mut new) = (HashSet::new(), Vec::new(), Vec::new());
        for Self { name, is_there, prompt } in steps {
            match prompt {
                Some((_, file)) if *is_there => other.push(file.clone()),
                Some((_, file)) => new.push(file.clone()),
                None => drop(gone.insert(name.clone())),
            }
        }
        Box::new(move |builder| {
            let builder = builder.remove_prompts(&gone);
            let builder = builder.replace_prompts(other.into_iter().map(prompt));
            builder.prompts(new.into_iter().map(prompt))
        })
    }
}

/// A file as a prompt of a catalog: one message of the user's.
fn prompt(file: PromptFile) -> Prompt {
    let PromptFile { name, title, description, arguments, body } = file;
    let mut prompt = Prompt::new(name);
    if let Some(title) = title {
        prompt = prompt.title(title);
    }
    if let Some(description) = description {
        prompt = prompt.describe(description);
    }
    let prompt = arguments.into_iter().map(argument).fold(prompt, PromptBuilder::argument);
    prompt.inline(move |arguments, messages| {
        let text = body.fill(|name| arguments.find(name));
        if text.length() > FILLED_BYTES_MAX {
            let most = FILLED_BYTES_MAX >> 20;
            let what = format!("the arguments are too long: a prompt has {most} MiB at most");
            return Err(HandlerError::arguments(what));
        }
        messages.format(Role::User, format_args!("{text}"));
        Ok(())
    })
}

fn argument(file: ArgumentFile) -> PromptArgument {
    let mut argument = PromptArgument::new(file.name);
    if let Some(title) = file.title {
        argument = argument.title(title);
    }
    if let Some(description) = file.description {
        argument = argument.describe(description);
    }
    if file.required { argument.required() } else { argument }
}

fn is_prompt(place: &Place) -> bool {
    let end = Path::new(place.as_str()).extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case("md"))
}

/// Prompts stand in the directory itself.
const BOUNDS: Bounds = Bounds { entries_max: 10_000, depth_max: 1, hidden: false };

/// Bytes of one prompt that is filled in: a long argument that has a hundred places must not take
/// all the memory there is.
const FILLED_BYTES_MAX: usize = 8 << 20;

/// Bytes of one file: a prompt that is longer is a mistake.
const FILE_BYTES_MAX: usize = 1 << 20;
