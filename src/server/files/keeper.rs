//! The catalog as the disk has it.
//!
//! What it keeps true: names that come and go change the catalog, contents that change are told to
//! subscribers, and neither happens where nothing changed. A change that the catalog refuses
//! (a prompt whose name the program has taken) leaves everything else as it should be. Each fault
//! is told once, and again only after it was mended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::burst::Burst;
use super::directory::Resources;
use super::fault::Fault;
use super::prompts::{ByName, PromptShelf, Step};
use super::watch::Keeper;
use crate::observe::event::Event;
use crate::service::{CatalogError, Edit};

/// Where changes go: a running server, by its [`Handle`](crate::server::Handle).
pub trait Publisher: Send + 'static {
    /// Changes what is offered; returns when it is done. Where it fails everything stays as it was.
    fn change(&self, edit: Edit) -> Result<(), CatalogError>;

    /// Tells whoever subscribed to `uri` that it changed.
    fn updated(&self, uri: &str);

    /// Tells the operator what to mend.
    fn warn(&self, fault: &Fault) {
        Event::FileDoubted { doubt: &fault.to_string() }.emit();
    }
}

/// Keeps a catalog as the disk has it.
pub(super) struct CatalogKeeper<P> {
    pub(super) resources: Option<Resources>,
    pub(super) prompts: Option<PromptShelf>,
    pub(super) told: BTreeSet<String>,
    pub(super) publisher: P,
}

impl<P: Publisher> Keeper for CatalogKeeper<P> {
    fn keep(&mut self, burst: &Burst) -> BTreeSet<PathBuf> {
        // A prompt that was written is read again, and with it the names of all are compared.
        let mut burst = burst.clone();
        burst.needs_scan |= self.prompts.as_ref().is_some_and(|prompts| prompts.holds(&burst));
        let mut faults = Vec::new();
        let mut folders = BTreeSet::new();
        if let Some(resources) = &mut self.resources {
            let look = resources.look(&burst);
            faults.extend(look.faults);
            if let Some((offered, edit)) = look.edit {
                match self.publisher.change(edit) {
                    Ok(()) => resources.confirm(offered),
                    Err(error) => faults.push(refused(resources.directory().path(), &error)),
                }
            }
            look.updated.iter().for_each(|uri| self.publisher.updated(uri));
            folders.extend(resources.folders());
        }
        if let Some(prompts) = &mut self.prompts {
            let look = prompts.look(&burst);
            faults.extend(look.faults);
            if let Some(wanted) = look.wanted {
                publish(prompts, wanted, &self.publisher, &mut faults);
            }
            folders.extend(prompts.folder());
        }
        // A look at a part does not see the faults of the rest.
        if burst.needs_scan {
            let texts: BTreeSet<String> = faults.iter().map(Fault::to_string).collect();
            self.told.retain(|told| texts.contains(told));
        }
        for fault in faults {
            self.warn(fault);
        }
        folders
    }

    fn is_pending(&self) -> bool {
        self.resources.as_ref().is_some_and(Resources::is_stale)
            || self.prompts.as_ref().is_some_and(PromptShelf::is_lost)
    }

    fn warn(&mut self, fault: Fault) {
        if self.told.insert(fault.to_string()) {
            self.publisher.warn(&fault);
        }
    }
}

/// Changes all prompts at once, or one by one where some of them cannot be.
fn publish(
    prompts: &mut PromptShelf,
    wanted: ByName,
    publisher: &impl Publisher,
    faults: &mut Vec<Fault>,
) {
    let steps = prompts.steps(&wanted);
    if publisher.change(Step::edit(&steps)).is_ok() {
        prompts.confirm(wanted);
        return;
    }
    let mut offered = prompts.offered().clone();
    for step in steps {
        match (publisher.change(Step::edit(std::slice::from_ref(&step))), step.prompt) {
            (Ok(()), Some(prompt)) => drop(offered.insert(step.name, prompt)),
            (Ok(()), None) => drop(offered.remove(&step.name)),
            (Err(error), prompt) => {
                let path = prompt
                    .map_or_else(|| prompts.root().to_owned(), |(place, _)| prompts.path(&place));
                faults.push(refused(&path, &error));
            }
        }
    }
    prompts.confirm(offered);
}

/// A change that the catalog does not take.
fn refused(path: &Path, error: &CatalogError) -> Fault {
    Fault::new(path, format!("is not offered ({error})"), "give it another name")
}
