//! Updates the catalog when files change.
//!
//! Invariants: names that are added or removed change the catalog, changed contents notify
//! subscribers. A change that the catalog rejects (a prompt whose name is taken) does not affect
//! other changes. Each fault is logged once, and again only after it was corrected.

use std::collections::BTreeSet;
use std::path::Path;

use super::FileFault;
use super::change_batch::ChangeBatch;
use super::directory::Resources;
use super::prompts::{PromptChange, PromptDirectory, PromptsByName};
use super::watcher::{Consumer, WatchedPaths};
use crate::server::Handle;
use crate::service::{CatalogError, CatalogUpdate};
use crate::telemetry::event::Event;

/// Receiver of changes: a running server, by its [`Handle`].
pub trait Publisher: Send + 'static {
    /// Applies `edit` to the catalog and waits until it is done.
    ///
    /// # Errors
    ///
    /// The catalog rejects the update; nothing is changed then.
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError>;

    /// Notifies the subscribers of `uri` of a change.
    fn notify_resource_updated(&self, uri: &str);

    /// Logs a fault of a file.
    fn log_fault(&self, fault: &FileFault) {
        Event::FileWarning { warning: &fault.to_string() }.emit();
    }
}

impl Publisher for Handle {
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError> {
        Self::update_catalog(self, edit)
    }

    fn notify_resource_updated(&self, uri: &str) {
        Self::notify_resource_updated(self, uri);
    }
}

/// Updates the catalog when files change.
pub(super) struct CatalogUpdater<P> {
    pub(super) resources: Option<Resources>,
    pub(super) prompts: Option<PromptDirectory>,
    pub(super) logged_faults: BTreeSet<String>,
    pub(super) publisher: P,
}

impl<P: Publisher> Consumer for CatalogUpdater<P> {
    fn update(&mut self, burst: &ChangeBatch) -> WatchedPaths {
        // After a write to a prompt all prompts are scanned, because their names may conflict.
        let mut burst = burst.clone();
        burst.needs_scan |=
            self.prompts.as_ref().is_some_and(|prompts| prompts.contains_written(&burst));
        let mut faults = Vec::new();
        let mut watched = WatchedPaths::default();
        if let Some(resources) = &mut self.resources {
            let look = resources.update_from_disk(&burst);
            faults.extend(look.faults);
            if let Some((offered, edit)) = look.edit {
                match self.publisher.update_catalog(edit) {
                    Ok(()) => resources.record_offered(offered),
                    Err(error) => {
                        faults.push(rejected_update(resources.directory().path(), &error));
                    }
                }
            }
            look.updated_uris.iter().for_each(|uri| self.publisher.notify_resource_updated(uri));
            watched.folders.extend(resources.folders());
            watched.links.extend(resources.links());
        }
        if let Some(prompts) = &mut self.prompts {
            let look = prompts.update_from_disk(&burst);
            faults.extend(look.faults);
            if let Some(found) = look.changed_prompts {
                publish_prompts(prompts, found, &self.publisher, &mut faults);
            }
            watched.folders.extend(prompts.folder());
            watched.links.extend(prompts.links());
        }
        // An update without a scan does not find the faults of other files.
        if burst.needs_scan {
            let texts: BTreeSet<String> = faults.iter().map(FileFault::to_string).collect();
            self.logged_faults.retain(|logged| texts.contains(logged));
        }
        for fault in faults {
            self.report_fault(fault);
        }
        watched
    }

    fn is_pending(&self) -> bool {
        self.resources.as_ref().is_some_and(Resources::is_stale)
            || self.prompts.as_ref().is_some_and(PromptDirectory::is_unreadable)
    }

    fn report_fault(&mut self, fault: FileFault) {
        if self.logged_faults.insert(fault.to_string()) {
            self.publisher.log_fault(&fault);
        }
    }
}

/// Applies all changes of prompts at once, or one by one if that is rejected.
fn publish_prompts(
    prompts: &mut PromptDirectory,
    found: PromptsByName,
    publisher: &impl Publisher,
    faults: &mut Vec<FileFault>,
) {
    let steps = prompts.changes_to(&found);
    if publisher.update_catalog(PromptChange::edit(&steps)).is_ok() {
        prompts.record_offered(found);
        return;
    }
    let mut offered = prompts.offered().clone();
    for step in steps {
        match (
            publisher.update_catalog(PromptChange::edit(std::slice::from_ref(&step))),
            step.prompt,
        ) {
            (Ok(()), Some(prompt)) => drop(offered.insert(step.name, prompt)),
            (Ok(()), None) => drop(offered.remove(&step.name)),
            (Err(error), prompt) => {
                let path = prompt
                    .map_or_else(|| prompts.root().to_owned(), |(place, _)| prompts.path(&place));
                faults.push(rejected_update(&path, &error));
            }
        }
    }
    prompts.record_offered(offered);
}

/// Returns the fault of a change that the catalog rejects.
fn rejected_update(path: &Path, error: &CatalogError) -> FileFault {
    FileFault::new(path, format!("cannot be offered ({error})"), "give it another name")
}
