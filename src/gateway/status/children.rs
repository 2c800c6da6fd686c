//! The programs or sessions of an upstream that are connected, and the last lines that its programs
//! have written to standard error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use corelane_client::{ClientBuilder, ConnectionEvent, ProgramEvent};

use crate::gateway::recycling::Usage;
use crate::gateway::status::printable;

#[expect(clippy::disallowed_types, reason = "locked by threads of programs and for operators")]
type Mutex<T> = std::sync::Mutex<T>;

/// Lines of standard error that are kept.
const LINES_MAX: usize = 20;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 512;

/// The programs or sessions of one upstream.
#[derive(Debug, Default)]
pub struct Children {
    open: AtomicUsize,
    started: AtomicU64,
    restarts: AtomicU64,
    lines: Mutex<VecDeque<Box<str>>>,
}

impl Children {
    /// Number of those that are connected.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Number of those that have connected since the start.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Number of those that have connected in place of one that had ended.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// The last lines of standard error, the oldest first, in printable characters.
    pub fn stderr_lines(&self) -> Vec<Box<str>> {
        self.lock().iter().cloned().collect()
    }

    /// Keeps a line of standard error.
    pub fn push_stderr(&self, line: &str) {
        let line = printable(line, LINE_BYTES_MAX);
        let mut lines = self.lock();
        if lines.len() >= LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<str>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one program or session among the children. Events that repeat are counted once, and
/// dropping it ends the child.
#[derive(Debug)]
pub struct ChildRecord {
    children: Arc<Children>,
    is_open: AtomicBool,
    was_open: AtomicBool,
    /// Its age and its calls.
    pub usage: Usage,
}

impl ChildRecord {
    /// Counts a child of `children` that is not connected yet. It `follows` one that was ended to
    /// be replaced.
    pub const fn new(children: Arc<Children>, follows: bool, usage: Usage) -> Self {
        let (is_open, was_open) = (AtomicBool::new(false), AtomicBool::new(follows));
        Self { children, is_open, was_open, usage }
    }

    /// Has `builder` report the changes of the connection and the lines of standard error.
    pub fn watch(self: &Arc<Self>, builder: ClientBuilder) -> ClientBuilder {
        let (record, children) = (Arc::clone(self), Arc::clone(&self.children));
        builder
            .on_connection_event(move |event| match event {
                ConnectionEvent::Connected => record.open(),
                _ => record.close(),
            })
            .on_program_event(move |event| {
                if let ProgramEvent::Stderr(line) = event {
                    children.push_stderr(line);
                }
            })
    }

    /// Notes that the handshake is complete.
    pub fn open(&self) {
        if self.is_open.swap(true, Ordering::Relaxed) {
            return;
        }
        self.usage.begin();
        let children = &self.children;
        children.open.fetch_add(1, Ordering::Relaxed);
        children.started.fetch_add(1, Ordering::Relaxed);
        if self.was_open.swap(true, Ordering::Relaxed) {
            children.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the connection is lost or closed.
    pub fn close(&self) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            self.usage.end();
            self.children.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ChildRecord {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use corelane_engine::clock::Clock;

    use super::*;
    use crate::gateway::recycling::RecycleLimits;

    fn new_record(children: &Arc<Children>, follows: bool) -> ChildRecord {
        let usage = Usage::new(RecycleLimits::default(), Clock::start());
        ChildRecord::new(Arc::clone(children), follows, usage)
    }

    #[test]
    fn child_is_counted_once_until_its_end() {
        let children = Arc::new(Children::default());
        let record = new_record(&children, false);
        let counts = || (children.open(), children.started(), children.restarts());
        record.close();
        assert_eq!(counts(), (0, 0, 0));
        record.open();
        record.open();
        assert_eq!(counts(), (1, 1, 0));
        record.close();
        record.close();
        assert_eq!(counts(), (0, 1, 0));
        record.open();
        assert_eq!(counts(), (1, 2, 1));
        drop(record);
        assert_eq!(counts(), (0, 2, 1));
        let next = new_record(&children, true);
        next.open();
        assert_eq!(counts(), (1, 3, 2));
    }

    #[test]
    fn stderr_lines_are_bounded_and_printable() {
        let children = Children::default();
        for number in 0..LINES_MAX + 5 {
            children.push_stderr(&format!("\u{1b}[31mline {number}\0"));
        }
        children.push_stderr(&"é".repeat(LINE_BYTES_MAX));
        let lines = children.stderr_lines();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(&*lines[0], "\\u{1b}[31mline 6\\0");
        assert!(lines[LINES_MAX - 1].len() <= LINE_BYTES_MAX);
    }
}
