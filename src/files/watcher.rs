//! Thread that watches folders and reports batches of changes.
//!
//! Invariants: a batch is reported when no event has occurred for 100 ms, or after a second, so
//! that a file written in many steps is one change. Events are queued in a bounded channel; if it
//! is full, a scan finds what they would have reported. The thread's own file access triggers no
//! event. If the kernel grants no watch, the consumer is warned once, and everything else
//! continues.
//!
//! Folders are watched one by one, not recursively: what is not listed costs no watch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender, bounded};
use notify::{Config, ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::FileFault;
use super::change_batch::ChangeBatch;

#[expect(clippy::disallowed_types, reason = "locked for each event of a folder, by no shard")]
type RwLock<T> = std::sync::RwLock<T>;

/// Consumer of batches of changes.
pub trait Consumer: Send + 'static {
    /// Reads the disk after `burst`; returns what to watch from now on.
    fn update(&mut self, burst: &ChangeBatch) -> WatchedPaths;

    /// Returns whether an update is due after [`REFRESH_INTERVAL`] even without events.
    fn is_pending(&self) -> bool;

    /// Reports a fault of the watcher itself.
    fn report_fault(&mut self, fault: FileFault);
}

/// What a consumer wants to be told of.
#[derive(Debug, Default)]
pub struct WatchedPaths {
    /// Folders, for each change in them.
    pub folders: BTreeSet<PathBuf>,
    /// Links on the way to folders. The folders that contain them are watched, for changes of the
    /// links alone.
    pub links: BTreeSet<PathBuf>,
}

impl WatchedPaths {
    /// Returns whether an event is one of a watched folder, or of a link: other entries of the
    /// folders that contain links are not read.
    fn concerns(&self, event: &Result<Event, notify::Error>) -> bool {
        let Ok(event) = event else { return true };
        let Self { folders, links } = self;
        let is_in = |path: &PathBuf| path.parent().is_some_and(|it| folders.contains(it));
        let is_watched =
            |path: &PathBuf| links.contains(path) || folders.contains(path) || is_in(path);
        links.is_empty() || event.need_rescan() || event.paths.iter().any(is_watched)
    }
}

/// A running watcher. Its thread ends soon after this is dropped.
#[derive(Debug)]
pub struct FileWatch {
    /// Never sent on: dropping it stops the thread.
    _stop: Sender<Infallible>,
}

impl FileWatch {
    /// Starts the thread. Its first update covers all changes since the consumer's last one.
    pub fn start(keeper: impl Consumer) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let thread = std::thread::Builder::new().name("corelane-files".into());
        thread.spawn(move || DirectoryWatcher::open(stopped).run(keeper))?;
        Ok(Self { _stop: stop })
    }
}

/// State of the watcher's thread.
struct DirectoryWatcher {
    /// `None` if the system grants none.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Shared with the thread that reads the kernel's events.
    paths: Arc<RwLock<WatchedPaths>>,
    events: Receiver<Result<Event, notify::Error>>,
    /// Set when an event did not fit into the queue.
    has_lost_events: Arc<AtomicBool>,
    stopped: Receiver<Infallible>,
    watch_error: Option<notify::Error>,
    has_warned: bool,
}

enum WaitResult {
    Changes(ChangeBatch),
    Stopped,
}

impl DirectoryWatcher {
    fn open(stopped: Receiver<Infallible>) -> Self {
        let (sender, events) = bounded(EVENTS_MAX);
        let has_lost_events = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&has_lost_events);
        let paths = Arc::new(RwLock::new(WatchedPaths::default()));
        let watched = Arc::clone(&paths);
        let handler = move |event| {
            // Never blocks: this thread also serves requests for watches.
            let is_relevant = ChangeBatch::is_relevant(&event)
                && watched.read().unwrap_or_else(PoisonError::into_inner).concerns(&event);
            if is_relevant && sender.try_send(event).is_err() {
                lost.store(true, Ordering::Release);
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let (watcher, watch_error) = match RecommendedWatcher::new(handler, config) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            watcher,
            watched: BTreeSet::new(),
            paths,
            events,
            has_lost_events,
            stopped,
            watch_error,
            has_warned: false,
        }
    }

    fn run(mut self, mut keeper: impl Consumer) {
        let mut burst = ChangeBatch::full_scan();
        loop {
            self.remove_invalid_watches(&burst);
            // A new folder may have been filled before it was watched.
            for _ in 0..UPDATES_IN_ROW_MAX {
                let paths = keeper.update(&burst);
                if !self.watch_paths(paths) {
                    break;
                }
                burst = ChangeBatch::full_scan();
            }
            self.report_watch_error(&mut keeper);
            match self.wait(keeper.is_pending()) {
                WaitResult::Changes(next) => burst = next,
                WaitResult::Stopped => return,
            }
        }
    }

    /// Watches exactly the folders of `paths`, and those that contain its links. Returns whether
    /// another update is needed because some were not watched before, or do not exist any more.
    fn watch_paths(&mut self, paths: WatchedPaths) -> bool {
        let WatchedPaths { folders, links } = &paths;
        let of_links = links.iter().filter_map(|link| link.parent()).map(Path::to_owned);
        let folders: BTreeSet<PathBuf> = folders.iter().cloned().chain(of_links).collect();
        *self.paths.write().unwrap_or_else(PoisonError::into_inner) = paths;
        let removed: Vec<PathBuf> = self.watched.difference(&folders).cloned().collect();
        for path in removed {
            self.unwatch(&path);
        }
        let mut calls_for_look = false;
        for path in folders {
            let Some(watcher) = &mut self.watcher else { return false };
            if self.watched.contains(&path) {
                continue;
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    calls_for_look = true;
                    self.watched.insert(path);
                }
                // It was removed meanwhile: another update finds what replaced it.
                Err(error) if is_missing(&error) => calls_for_look = true,
                Err(error) => {
                    self.watch_error = Some(error);
                    break;
                }
            }
        }
        calls_for_look
    }

    /// Removes watches that may refer to something else than what is at their path.
    fn remove_invalid_watches(&mut self, burst: &ChangeBatch) {
        let invalid =
            if burst.invalidates_watches { self.watched.clone() } else { burst.replaced.clone() };
        for path in invalid {
            // What is below a link leads elsewhere with it.
            let below = self.watched.range(path.clone()..);
            let below: Vec<PathBuf> =
                below.take_while(|other| other.starts_with(&path)).cloned().collect();
            for path in below {
                self.unwatch(&path);
            }
        }
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        let is_switched = paths.links.iter().any(|link| burst.replaced.contains(link));
        drop(paths);
        if is_switched {
            for path in self.watched.clone() {
                self.unwatch(&path);
            }
        }
    }

    fn unwatch(&mut self, path: &Path) {
        if let (true, Some(watcher)) = (self.watched.remove(path), &mut self.watcher) {
            // The watch of a removed folder does not exist any more.
            watcher.unwatch(path).ok();
        }
    }

    /// Warns once if some folders cannot be watched.
    fn report_watch_error(&mut self, keeper: &mut impl Consumer) {
        let Some(error) = self.watch_error.take().filter(|_| !self.has_warned) else { return };
        self.has_warned = true;
        let place = error.paths.first().cloned().unwrap_or_default();
        let hint = match error.kind {
            ErrorKind::MaxFilesWatch => {
                "raise fs.inotify.max_user_watches, lower resources.depth_max, or set watch = false"
            }
            _ => "see fs.inotify.max_user_instances, or set watch = false",
        };
        let what = format!("changes are not watched ({error})");
        keeper.report_fault(FileFault::new(&place, what, hint));
    }

    /// Waits for a batch of events and for its end.
    fn wait(&self, is_pending: bool) -> WaitResult {
        let refresh = if is_pending { channel::after(REFRESH_INTERVAL) } else { channel::never() };
        let mut burst = ChangeBatch::default();
        channel::select! {
            recv(self.stopped) -> _ => return WaitResult::Stopped,
            recv(refresh) -> _ => burst = ChangeBatch::full_scan(),
            recv(self.events) -> event => match event {
                Ok(event) => burst.add(event),
                // Without a watcher there are no events; only the stop is awaited.
                Err(_) => return self.wait_without_events(&refresh),
            },
        }
        let longest = channel::after(BATCH_DURATION_MAX);
        while longest.is_empty() {
            match self.events.recv_timeout(BATCH_QUIET) {
                Ok(event) => burst.add(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.has_lost_events.swap(false, Ordering::Acquire) {
            burst.record_loss();
        }
        WaitResult::Changes(burst)
    }

    fn wait_without_events(&self, refresh: &Receiver<std::time::Instant>) -> WaitResult {
        channel::select! {
            recv(self.stopped) -> _ => WaitResult::Stopped,
            recv(refresh) -> _ => WaitResult::Changes(ChangeBatch::full_scan()),
        }
    }
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}

/// Silence that ends a batch: longer than programs pause between the steps of saving a file,
/// shorter than users notice.
const BATCH_QUIET: Duration = Duration::from_millis(100);

/// Longest duration of a batch.
const BATCH_DURATION_MAX: Duration = Duration::from_secs(1);

/// Time until the next update if one is pending.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Capacity of the event queue; beyond it a scan is cheaper.
const EVENTS_MAX: usize = 1024;

/// Updates in a row while new folders appear; their events report the rest.
const UPDATES_IN_ROW_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches one folder and forwards the batches.
    struct BatchForwarder {
        folder: PathBuf,
        batches: Sender<ChangeBatch>,
    }

    impl Consumer for BatchForwarder {
        fn update(&mut self, burst: &ChangeBatch) -> WatchedPaths {
            self.batches.send(burst.clone()).ok();
            WatchedPaths { folders: [self.folder.clone()].into(), links: BTreeSet::new() }
        }

        fn is_pending(&self) -> bool {
            false
        }

        fn report_fault(&mut self, fault: FileFault) {
            panic!("{fault}");
        }
    }

    /// Waits for a batch that satisfies `is_expected`.
    fn wait_for(received: &Receiver<ChangeBatch>, is_expected: impl Fn(&ChangeBatch) -> bool) {
        let next = || received.recv_timeout(Duration::from_secs(20)).expect("no batch within 20 s");
        while !is_expected(&next()) {}
    }

    #[test]
    fn watch_reports_changes_until_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let (sender, received) = channel::unbounded();
        let watch =
            FileWatch::start(BatchForwarder { folder: folder.clone(), batches: sender }).unwrap();
        // The first update, and the one after the folder was watched.
        wait_for(&received, |burst| burst.needs_scan);
        wait_for(&received, |burst| burst.needs_scan);
        let file = folder.join("file");
        std::fs::write(&file, "one").unwrap();
        wait_for(&received, |burst| burst.replaced.contains(&file));
        std::fs::write(&file, "two").unwrap();
        wait_for(&received, |burst| burst.written.contains(&file));
        drop(watch);
        // The sender is dropped with the thread.
        while received.recv_timeout(Duration::from_secs(20)).is_ok() {}
        assert_eq!(received.try_recv(), Err(channel::TryRecvError::Disconnected));
    }

    /// Records the faults it is warned of.
    struct FaultRecorder(Vec<FileFault>);

    impl Consumer for FaultRecorder {
        fn update(&mut self, _: &ChangeBatch) -> WatchedPaths {
            WatchedPaths { folders: [PathBuf::from("/nowhere")].into(), links: BTreeSet::new() }
        }

        fn is_pending(&self) -> bool {
            false
        }

        fn report_fault(&mut self, fault: FileFault) {
            self.0.push(fault);
        }
    }

    #[test]
    fn rejected_watch_is_warned_once() {
        let (stop, stopped) = bounded(0);
        let mut eyes = DirectoryWatcher::open(stopped);
        let mut keeper = FaultRecorder(Vec::new());
        for _ in 0..2 {
            let refused = notify::Error::new(ErrorKind::MaxFilesWatch);
            eyes.watch_error = Some(refused.add_path(PathBuf::from("/srv/docs")));
            eyes.report_watch_error(&mut keeper);
        }
        let [fault] = keeper.0.as_slice() else { panic!("not one fault: {:?}", keeper.0) };
        assert_eq!(fault.path, Path::new("/srv/docs"));
        assert!(fault.hint.contains("fs.inotify.max_user_watches"), "{fault}");
        // Without a watcher it waits until it is stopped.
        eyes.watcher = None;
        assert!(!eyes.watch_paths(keeper.update(&ChangeBatch::full_scan())));
        drop(stop);
        assert!(matches!(eyes.wait(false), WaitResult::Stopped));
    }
}
