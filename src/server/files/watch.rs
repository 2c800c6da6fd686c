//! A thread that follows folders and tells, once for each burst, that something happened.
//!
//! What it keeps true: a burst is told when it is over or has gone on for a second, so that a
//! program that writes a file in a thousand steps is one change. Events are held in a bounded
//! queue; where they do not fit, a scan finds what they would have told. Nothing is told twice
//! because of its own looking. Where the kernel grants no watch the keeper hears the reason once,
//! and all else goes on.
//!
//! Folders are watched one by one, each as deep as itself: what is not listed costs no watch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender, bounded};
use notify::{Config, ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::burst::Burst;
use super::fault::Fault;

/// Whoever wants to know.
pub(super) trait Keeper: Send + 'static {
    /// Looks at the disk after `burst`; returns the folders to watch from here on.
    fn keep(&mut self, burst: &Burst) -> BTreeSet<PathBuf>;

    /// Whether a look is due after [`REFRESH`], even where nothing happens.
    fn is_pending(&self) -> bool;

    /// Hears what is wrong with the watch itself.
    fn warn(&mut self, fault: Fault);
}

/// A running watch. Its thread ends soon after this is dropped.
#[derive(Debug)]
pub struct Watch {
    /// Never sent on: that it is gone is the message.
    _stop: Sender<Infallible>,
}

impl Watch {
    /// Starts the thread. Its first look tells of everything that changed since the keeper looked
    /// last.
    pub(super) fn start(keeper: impl Keeper) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let thread = std::thread::Builder::new().name("corelane-files".into());
        thread.spawn(move || Eyes::open(stopped).run(keeper))?;
        Ok(Self { _stop: stop })
    }
}

/// The thread's side.
struct Eyes {
    /// `None` where the system grants none.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    events: Receiver<Result<Event, notify::Error>>,
    /// Set when an event found the queue full.
    is_lost: Arc<AtomicBool>,
    stopped: Receiver<Infallible>,
    refused: Option<notify::Error>,
    has_warned: bool,
}

/// Why waiting ended.
enum Waited {
    Burst(Burst),
    Stopped,
}

impl Eyes {
    fn open(stopped: Receiver<Infallible>) -> Self {
        let (sender, events) = bounded(EVENTS_MAX);
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        let handler = move |event| {
            // Never waits: this thread also answers requests for watches.
            if Burst::concerns(&event) && sender.try_send(event).is_err() {
                lost.store(true, Ordering::Release);
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let (watcher, refused) = match RecommendedWatcher::new(handler, config) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            watcher,
            watched: BTreeSet::new(),
            events,
            is_lost,
            stopped,
            refused,
            has_warned: false,
        }
    }

    fn run(mut self, mut keeper: impl Keeper) {
        let mut burst = Burst::unknown();
        loop {
            self.forget_void(&burst);
            // A folder that came just now may have filled before it was watched.
            for _ in 0..LOOKS_MAX {
                let folders = keeper.keep(&burst);
                if !self.follow(folders) {
                    break;
                }
                burst = Burst::unknown();
            }
            self.tell_refusal(&mut keeper);
            match self.wait(keeper.is_pending()) {
                Waited::Burst(next) => burst = next,
                Waited::Stopped => return,
            }
        }
    }

    /// Watches `folders` and nothing else; whether this calls for another look, since some were not
    /// watched before or are no more.
    fn follow(&mut self, folders: BTreeSet<PathBuf>) -> bool {
        let gone: Vec<PathBuf> = self.watched.difference(&folders).cloned().collect();
        for path in gone {
            self.forget(&path);
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
                // It went away since the look: another look finds what stands there.
                Err(error) if is_missing(&error) => calls_for_look = true,
                Err(error) => {
                    self.refused = Some(error);
                    break;
                }
            }
        }
        calls_for_look
    }

    /// Forgets watches that may be on something else by now than what stands at their path.
    fn forget_void(&mut self, burst: &Burst) {
        let void = if burst.voids_watches { self.watched.clone() } else { burst.replaced.clone() };
        for path in void {
            self.forget(&path);
        }
    }

    fn forget(&mut self, path: &Path) {
        if let (true, Some(watcher)) = (self.watched.remove(path), &mut self.watcher) {
            // A folder that is gone took its watch along.
            watcher.unwatch(path).ok();
        }
    }

    /// Tells once why not everything is watched.
    fn tell_refusal(&mut self, keeper: &mut impl Keeper) {
        let Some(error) = self.refused.take().filter(|_| !self.has_warned) else { return };
        self.has_warned = true;
        let place = error.paths.first().cloned().unwrap_or_default();
        let remedy = match error.kind {
            ErrorKind::MaxFilesWatch => {
                "raise fs.inotify.max_user_watches, lower resources.depth_max, or set watch = false"
            }
            _ => "see fs.inotify.max_user_instances, or set watch = false",
        };
        let what = format!("changes are not noticed ({error})");
        keeper.warn(Fault::new(&place, what, remedy));
    }

    /// Waits for a burst and for its end.
    fn wait(&self, is_pending: bool) -> Waited {
        let refresh = if is_pending { channel::after(REFRESH) } else { channel::never() };
        let mut burst = Burst::default();
        channel::select! {
            recv(self.stopped) -> _ => return Waited::Stopped,
            recv(refresh) -> _ => burst = Burst::unknown(),
            recv(self.events) -> event => match event {
                Ok(event) => burst.add(event),
                // Without a watcher there is nobody to send; what is left is to be stopped.
                Err(_) => return self.wait_blind(&refresh),
            },
        }
        let longest = channel::after(BURST_LONGEST);
        while longest.is_empty() {
            match self.events.recv_timeout(BURST_QUIET) {
                Ok(event) => burst.add(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.is_lost.swap(false, Ordering::Acquire) {
            burst.lose();
        }
        Waited::Burst(burst)
    }

    fn wait_blind(&self, refresh: &Receiver<std::time::Instant>) -> Waited {
        channel::select! {
            recv(self.stopped) -> _ => Waited::Stopped,
            recv(refresh) -> _ => Waited::Burst(Burst::unknown()),
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

/// Silence that ends a burst: longer than programs pause between the steps of saving a file,
/// shorter than people notice.
const BURST_QUIET: Duration = Duration::from_millis(100);

/// The longest that a burst is gathered.
const BURST_LONGEST: Duration = Duration::from_secs(1);

/// The time to the next look where one is due.
pub(super) const REFRESH: Duration = Duration::from_secs(30);

/// Events that wait to be gathered; with more of them a scan costs less.
const EVENTS_MAX: usize = 1024;

/// Looks in a row while new folders keep coming; their events tell of the rest.
const LOOKS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches one folder and passes on what it hears.
    struct Listener {
        folder: PathBuf,
        heard: Sender<Burst>,
    }

    impl Keeper for Listener {
        fn keep(&mut self, burst: &Burst) -> BTreeSet<PathBuf> {
            self.heard.send(burst.clone()).ok();
            BTreeSet::from([self.folder.clone()])
        }

        fn is_pending(&self) -> bool {
            false
        }

        fn warn(&mut self, fault: Fault) {
            panic!("{fault}");
        }
    }

    /// Hears of bursts until one satisfies.
    fn wait_for(heard: &Receiver<Burst>, is_it: impl Fn(&Burst) -> bool) {
        let next = || heard.recv_timeout(Duration::from_secs(20)).expect("a burst comes");
        while !is_it(&next()) {}
    }

    #[test]
    fn what_happens_in_a_folder_is_heard_and_the_thread_ends_with_the_watch() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let (sender, heard) = channel::unbounded();
        let watch = Watch::start(Listener { folder: folder.clone(), heard: sender }).unwrap();
        // The first look, and the one after the folder was watched.
        wait_for(&heard, |burst| burst.needs_scan);
        wait_for(&heard, |burst| burst.needs_scan);
        let file = folder.join("file");
        std::fs::write(&file, "one").unwrap();
        wait_for(&heard, |burst| burst.replaced.contains(&file));
        std::fs::write(&file, "two").unwrap();
        wait_for(&heard, |burst| burst.written.contains(&file));
        drop(watch);
        // The sender goes with the thread.
        while heard.recv_timeout(Duration::from_secs(20)).is_ok() {}
        assert_eq!(heard.try_recv(), Err(channel::TryRecvError::Disconnected));
    }

    /// Keeps what it is warned of.
    struct Warned(Vec<Fault>);

    impl Keeper for Warned {
        fn keep(&mut self, _: &Burst) -> BTreeSet<PathBuf> {
            BTreeSet::from([PathBuf::from("/nowhere")])
        }

        fn is_pending(&self) -> bool {
            false
        }

        fn warn(&mut self, fault: Fault) {
            self.0.push(fault);
        }
    }

    #[test]
    fn a_watch_that_is_refused_is_told_once_and_all_else_goes_on() {
        let (stop, stopped) = bounded(0);
        let mut eyes = Eyes::open(stopped);
        let mut keeper = Warned(Vec::new());
        for _ in 0..2 {
            let refused = notify::Error::new(ErrorKind::MaxFilesWatch);
            eyes.refused = Some(refused.add_path(PathBuf::from("/srv/docs")));
            eyes.tell_refusal(&mut keeper);
        }
        let [fault] = keeper.0.as_slice() else { panic!("one fault: {:?}", keeper.0) };
        assert_eq!(fault.path, Path::new("/srv/docs"));
        assert!(fault.remedy.contains("fs.inotify.max_user_watches"), "{fault}");
        // Without any watcher it waits to be stopped, and then ends.
        eyes.watcher = None;
        assert!(!eyes.follow(keeper.keep(&Burst::unknown())));
        drop(stop);
        assert!(matches!(eyes.wait(false), Waited::Stopped));
    }
}
