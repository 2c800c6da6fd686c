//! Batches of file system events.
//!
//! Invariants: a batch is bounded; lost or unclear events require a scan, which finds every change.
//! Access events are ignored: the scan itself opens folders and must not trigger another.

use std::collections::BTreeSet;
use std::path::PathBuf;

use notify::event::{EventKind, ModifyKind};
use notify::{Error, Event};

/// Events of a short period.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChangeBatch {
    /// Files whose content was written.
    pub(super) written: BTreeSet<PathBuf>,
    /// Paths that were replaced or removed: a watch on them is invalid.
    pub(super) replaced: BTreeSet<PathBuf>,
    /// Whether all watches may be invalid: events were lost, or too many paths were replaced.
    pub(super) invalidates_watches: bool,
    /// Whether names were added or removed, or events were lost.
    pub(super) needs_scan: bool,
    /// Whether deferred changes are due.
    pub(super) is_refresh: bool,
}

impl ChangeBatch {
    /// Returns a batch that requires a full scan.
    pub(super) fn full_scan() -> Self {
        Self { needs_scan: true, is_refresh: true, ..Self::default() }
    }

    /// Returns whether `event` is relevant. Called on the thread that reads the kernel's events, so
    /// that irrelevant ones are not queued.
    pub(super) fn is_relevant(event: &Result<Event, Error>) -> bool {
        match event {
            Ok(event) => !matches!(event.kind, EventKind::Access(_)) || event.need_rescan(),
            Err(_) => true,
        }
    }

    /// Records that events were lost: a watched folder may have been replaced.
    pub(super) const fn record_loss(&mut self) {
        self.needs_scan = true;
        self.invalidates_watches = true;
    }

    pub(super) fn add(&mut self, event: Result<Event, Error>) {
        let Ok(event) = event else {
            self.needs_scan = true;
            return;
        };
        if event.need_rescan() {
            self.record_loss();
            return;
        }
        let paths = match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => &mut self.written,
            EventKind::Remove(_)
            | EventKind::Create(_)
            | EventKind::Modify(ModifyKind::Name(_)) => {
                self.needs_scan = true;
                &mut self.replaced
            }
            _ => {
                self.needs_scan = true;
                return;
            }
        };
        paths.extend(event.paths);
        if self.written.len() > PATHS_MAX {
            self.written.clear();
            self.needs_scan = true;
        }
        if self.replaced.len() > PATHS_MAX {
            self.replaced.clear();
            self.record_loss();
        }
    }
}

/// Limit of paths of one kind; beyond it a scan is cheaper.
const PATHS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use notify::event::{
        AccessKind, CreateKind, DataChange, Flag, MetadataKind, RemoveKind, RenameMode,
    };

    use super::*;

    fn batch_of(events: impl IntoIterator<Item = Event>) -> ChangeBatch {
        let mut burst = ChangeBatch::default();
        for event in events.into_iter().map(Ok).filter(ChangeBatch::is_relevant) {
            burst.add(event);
        }
        burst
    }

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(PathBuf::from(path))
    }

    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

    #[test]
    fn many_writes_of_one_file_count_once() {
        let burst = batch_of((0..100).map(|_| event(WRITTEN, "/a")));
        assert_eq!(burst.written.len(), 1);
        assert!(!burst.needs_scan && burst.replaced.is_empty());
    }

    #[test]
    fn access_events_are_ignored() {
        let reads = [AccessKind::Any, AccessKind::Read].map(EventKind::Access);
        assert_eq!(batch_of(reads.map(|kind| event(kind, "/a"))), ChangeBatch::default());
    }

    #[test]
    fn added_and_removed_names_require_scan() {
        for kind in [
            EventKind::Create(CreateKind::Folder),
            EventKind::Remove(RemoveKind::File),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)),
        ] {
            let burst = batch_of([event(kind, "/a")]);
            assert!(burst.needs_scan && burst.replaced.contains(&PathBuf::from("/a")), "{kind:?}");
        }
        let metadata = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let burst = batch_of([event(metadata, "/a"), event(EventKind::Any, "/b")]);
        assert!(burst.needs_scan && burst.replaced.is_empty());
    }

    #[test]
    fn lost_or_too_many_events_require_scan() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let burst = batch_of([lost]);
        assert!(burst.needs_scan && burst.invalidates_watches);
        let mut burst = ChangeBatch::default();
        burst.add(Err(Error::generic("lost")));
        assert!(burst.needs_scan);
        let burst = batch_of((0..=PATHS_MAX).map(|index| event(WRITTEN, &format!("/{index}"))));
        assert!(burst.needs_scan && burst.written.is_empty() && !burst.invalidates_watches);
        let created = EventKind::Create(CreateKind::File);
        let burst = batch_of((0..=PATHS_MAX).map(|index| event(created, &format!("/{index}"))));
        assert!(burst.needs_scan && burst.replaced.is_empty() && burst.invalidates_watches);
    }
}
