//! What was seen on disk in a short while, as far as it matters.
//!
//! What it keeps true: it is bounded, and when in doubt it asks for a scan, which tells the truth
//! whatever was missed. Files that are opened and read are nobody's business: the scan itself opens
//! folders, and must not hear of itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use notify::event::{EventKind, ModifyKind};
use notify::{Error, Event};

/// A short while of events.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Burst {
    /// Files whose content was written.
    pub(super) written: BTreeSet<PathBuf>,
    /// Paths that are something else than before, or nothing: a watch on them is void.
    pub(super) replaced: BTreeSet<PathBuf>,
    /// Whether any watch may be void: events were lost, or more paths were replaced than are told
    /// apart.
    pub(super) voids_watches: bool,
    /// Whether names came or went, or events were lost.
    pub(super) needs_scan: bool,
    /// Whether it is time to tell all that was put off.
    pub(super) refreshes: bool,
}

impl Burst {
    /// A burst of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self { needs_scan: true, refreshes: true, ..Self::default() }
    }

    /// Whether `event` matters at all. Asked on the thread that reads the kernel's events, so that
    /// what does not matter costs no room.
    pub(super) fn concerns(event: &Result<Event, Error>) -> bool {
        match event {
            Ok(event) => !matches!(event.kind, EventKind::Access(_)) || event.need_rescan(),
            Err(_) => true,
        }
    }

    /// Takes note that events were lost: a folder may be another one than the one that is watched.
    pub(super) const fn lose(&mut self) {
        self.needs_scan = true;
        self.voids_watches = true;
    }

    /// Takes one more event.
    pub(super) fn add(&mut self, event: Result<Event, Error>) {
        let Ok(event) = event else {
            self.needs_scan = true;
            return;
        };
        if event.need_rescan() {
            self.lose();
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
            self.lose();
        }
    }
}

/// Paths of a kind that are told apart; with more of them a scan costs less.
const PATHS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use notify::event::{
        AccessKind, CreateKind, DataChange, Flag, MetadataKind, RemoveKind, RenameMode,
    };

    use super::*;

    fn seen(events: impl IntoIterator<Item = Event>) -> Burst {
        let mut burst = Burst::default();
        for event in events.into_iter().map(Ok).filter(Burst::concerns) {
            burst.add(event);
        }
        burst
    }

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(PathBuf::from(path))
    }

    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

    #[test]
    fn many_writes_of_one_file_are_one() {
        let burst = seen((0..100).map(|_| event(WRITTEN, "/a")));
        assert_eq!(burst.written.len(), 1);
        assert!(!burst.needs_scan && burst.replaced.is_empty());
    }

    #[test]
    fn opening_and_reading_is_nothing() {
        let reads = [AccessKind::Any, AccessKind::Read].map(EventKind::Access);
        assert_eq!(seen(reads.map(|kind| event(kind, "/a"))), Burst::default());
    }

    #[test]
    fn names_that_come_and_go_need_a_scan() {
        for kind in [
            EventKind::Create(CreateKind::Folder),
            EventKind::Remove(RemoveKind::File),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)),
        ] {
            let burst = seen([event(kind, "/a")]);
            assert!(burst.needs_scan && burst.replaced.contains(&PathBuf::from("/a")), "{kind:?}");
        }
        let metadata = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let burst = seen([event(metadata, "/a"), event(EventKind::Any, "/b")]);
        assert!(burst.needs_scan && burst.replaced.is_empty());
    }

    #[test]
    fn what_was_lost_or_is_too_much_needs_a_scan() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let burst = seen([lost]);
        assert!(burst.needs_scan && burst.voids_watches);
        let mut burst = Burst::default();
        burst.add(Err(Error::generic("lost")));
        assert!(burst.needs_scan);
        let burst = seen((0..=PATHS_MAX).map(|place| event(WRITTEN, &format!("/{place}"))));
        assert!(burst.needs_scan && burst.written.is_empty() && !burst.voids_watches);
        let came = EventKind::Create(CreateKind::File);
        let burst = seen((0..=PATHS_MAX).map(|place| event(came, &format!("/{place}"))));
        assert!(burst.needs_scan && burst.replaced.is_empty() && burst.voids_watches);
    }
}
