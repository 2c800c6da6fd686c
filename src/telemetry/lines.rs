//! Lines for a stream or file that may stall, and the thread that writes them.
//!
//! Invariants: adding a line waits for no write. The lines that wait have a bounded number of
//! bytes. Lines are written in the order in which they were added; where some found no place, a
//! line says how many were lost. A line that was written in part is ended before the next one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Time for what is left at the end of a [`LineWriter`].
pub const FLUSH_MAX: Duration = Duration::from_millis(500);
/// Time after which a line is written again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of one write, unless a line is longer: a pipe takes that many without mixing them with
/// those of another process.
const WRITE_BYTES_MAX: usize = 4_096;
/// Capacity from which an empty buffer is freed.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Stack of the thread, which calls nothing but the kernel.
const STACK_BYTES: usize = 128 << 10;

#[expect(clippy::disallowed_types, reason = "locked while a line is copied, never in a write")]
type Mutex<T> = std::sync::Mutex<T>;

/// Lines that wait for the thread.
#[derive(Debug)]
pub struct LineQueue {
    state: Mutex<QueueState>,
    /// There is something to write, or the end.
    changed: Condvar,
    /// Everything is written, or the thread has ended.
    idle: Condvar,
    bytes_max: usize,
}

#[derive(Debug)]
struct QueueState {
    waiting: Vec<u8>,
    /// Bytes that the thread has taken and has not written yet.
    taken: usize,
    /// Bytes of lines that are to come.
    reserved: usize,
    /// Lines that were lost behind those that wait.
    lost: u64,
    lost_total: u64,
    /// Makes the line that says how many were lost.
    lost_line: fn(u64) -> Vec<u8>,
    /// Where the next lines go, if that has changed.
    next_output: Option<OwnedFd>,
    /// The last line could not be written, and waits to be written again.
    is_failing: bool,
    ends: bool,
    has_ended: bool,
}

impl LineQueue {
    /// Creates a queue for `bytes_max` bytes; `lost_line` makes the line, with its terminator, that
    /// says how many lines were lost.
    pub fn new(bytes_max: usize, lost_line: fn(u64) -> Vec<u8>) -> Self {
        let state = QueueState {
            waiting: Vec::new(),
            taken: 0,
            reserved: 0,
            lost: 0,
            lost_total: 0,
            lost_line,
            next_output: None,
            is_failing: false,
            ends: false,
            has_ended: false,
        };
        let (changed, idle) = Default::default();
        Self { state: Mutex::new(state), changed, idle, bytes_max }
    }

    /// Adds a line with its terminator, or drops and counts it if the queue is full.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.held() + line.len() > self.bytes_max {
            state.lost += 1;
            state.lost_total += 1;
            return;
        }
        self.append(state, line);
    }

    /// Adds a line with its terminator even if the queue is full: for those that are few, and that
    /// other programs wait for.
    #[cfg(any(feature = "cli", test))]
    pub fn push_always(&self, line: &[u8]) {
        self.append(self.lock(), line);
    }

    /// Reserves a place for a line of up to `bytes` with its terminator. Returns `None` if the
    /// queue is full, or if the last line could not be written.
    pub fn reserve(queue: &Arc<Self>, bytes: usize) -> Option<LinePlace> {
        let mut state = queue.lock();
        if state.is_failing || state.held() + bytes > queue.bytes_max {
            return None;
        }
        state.reserved += bytes;
        drop(state);
        Some(LinePlace { queue: Arc::clone(queue), bytes })
    }

    /// Waits until everything is written, for [`FLUSH_MAX`] at most.
    pub fn flush(&self) {
        let is_open = |it: &mut QueueState| !it.has_ended && it.waiting.len() + it.taken > 0;
        drop(self.idle.wait_timeout_while(self.lock(), FLUSH_MAX, is_open));
    }

    fn append(&self, mut state: MutexGuard<'_, QueueState>, line: &[u8]) {
        state.report_lost();
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_one();
    }

    /// Has later losses reported by lines of `lost_line`.
    #[cfg(feature = "cli")]
    pub fn set_lost_line(&self, lost_line: fn(u64) -> Vec<u8>) {
        self.lock().lost_line = lost_line;
    }

    /// Returns the number of lines that were lost since the start.
    pub fn lost_total(&self) -> u64 {
        self.lock().lost_total
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a line that is to come. When it is dropped, other lines may have it.
#[derive(Debug)]
pub struct LinePlace {
    queue: Arc<LineQueue>,
    bytes: usize,
}

impl LinePlace {
    /// Adds the line with its terminator.
    pub fn fill(mut self, line: &[u8]) {
        let mut state = self.queue.lock();
        state.reserved -= std::mem::take(&mut self.bytes);
        self.queue.append(state, line);
    }
}

impl Drop for LinePlace {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.queue.lock().reserved -= self.bytes;
        }
    }
}

impl QueueState {
    /// Returns the bytes that count against the limit.
    const fn held(&self) -> usize {
        self.waiting.len() + self.taken + self.reserved
    }

    /// Adds the line that says how many were lost, if any were.
    fn report_lost(&mut self) {
        if self.lost > 0 {
            let line = (self.lost_line)(std::mem::take(&mut self.lost));
            self.waiting.extend_from_slice(&line);
        }
    }
}

/// Writes some of `bytes`. Waits until the descriptor takes them.
fn write_some(output: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(output, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => return Ok(written),
            Err(Errno::INTR) => {}
            // Another program has made the shared description non-blocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(output, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reports an error, or that lines are written again.
pub type FailureReport = Box<dyn Fn(Option<&io::Error>) + Send>;

/// What becomes of a line that cannot be written.
pub enum OnFailure {
    /// It is lost.
    #[cfg_attr(not(any(feature = "cli", test)), expect(dead_code, reason = "for the commands"))]
    Discard,
    /// It is written again after a second, and to another output at once. The first error is
    /// reported, and `None` when lines are written again.
    Retry(FailureReport),
}

/// The thread that writes the lines of a queue. When this is dropped, it writes what is left for
/// [`FLUSH_MAX`].
#[derive(Debug)]
pub struct LineWriter {
    queue: Arc<LineQueue>,
}

impl LineWriter {
    /// Starts the thread that writes to `output`.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        queue: Arc<LineQueue>,
        output: OwnedFd,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        let lines = Vec::new();
        let queue_of_thread = Arc::clone(&queue);
        let thread =
            WriterThread { queue: queue_of_thread, output, on_failure, lines, is_cut: false };
        let builder = thread::Builder::new().name("corelane-log".into()).stack_size(STACK_BYTES);
        // Not joined: a write may never end.
        builder.spawn(move || thread.run())?;
        Ok(Self { queue })
    }

    /// Has later lines written to `output`, and those that could not be written.
    pub fn replace_output(&self, output: OwnedFd) {
        self.queue.lock().next_output = Some(output);
        self.queue.changed.notify_one();
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.ends = true;
        self.queue.changed.notify_one();
        drop(self.queue.idle.wait_timeout_while(state, FLUSH_MAX, |it| !it.has_ended));
    }
}

struct WriterThread {
    queue: Arc<LineQueue>,
    output: OwnedFd,
    on_failure: OnFailure,
    /// What is being written.
    lines: Vec<u8>,
    /// The last thing in the output is the begin of a line.
    is_cut: bool,
}

impl WriterThread {
    fn run(mut self) {
        while self.take_lines() {
            self.write_lines();
        }
        self.queue.lock().has_ended = true;
        self.queue.idle.notify_all();
    }

    /// Waits for lines and takes all of them. Returns whether there are any: there are none at the
    /// end.
    fn take_lines(&mut self) -> bool {
        self.lines.clear();
        if self.lines.capacity() > KEPT_BYTES_MAX {
            self.lines = Vec::new();
        }
        let mut state = self.queue.lock();
        loop {
            if let Some(output) = state.next_output.take() {
                (self.output, self.is_cut) = (output, false);
            }
            state.report_lost();
            if !state.waiting.is_empty() {
                break;
            }
            self.queue.idle.notify_all();
            if state.ends {
                return false;
            }
            state = self.queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.waiting, &mut self.lines);
        state.taken = self.lines.len();
        true
    }

    /// Writes what was taken.
    fn write_lines(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let mut done = 0;
        while done < lines.len() {
            let part = &lines[done..done + end_of_part(&lines[done..])];
            let lost = match self.end_cut_line().and_then(|()| write_some(&self.output, part)) {
                Ok(written) => {
                    done += written;
                    self.report_success();
                    0
                }
                Err(error) => {
                    let before = lines[..done].iter().rposition(|byte| *byte == b'\n');
                    let line_start = before.map_or(0, |newline| newline + 1);
                    self.is_cut |= line_start < done;
                    if self.waits_to_retry(&error) {
                        // A line that is written in part is repeated.
                        done = line_start;
                        0
                    } else {
                        done += part.len();
                        count_lines(part)
                    }
                }
            };
            let mut state = self.queue.lock();
            state.taken = lines.len() - done;
            state.lost_total += lost;
        }
        self.lines = lines;
    }

    /// Ends a line that was written in part.
    fn end_cut_line(&mut self) -> io::Result<()> {
        if self.is_cut {
            write_some(&self.output, b"\n")?;
            self.is_cut = false;
        }
        Ok(())
    }

    fn report_success(&self) {
        if let OnFailure::Retry(report) = &self.on_failure
            && std::mem::take(&mut self.queue.lock().is_failing)
        {
            report(None);
        }
    }

    /// Waits until a part is to be written again. Returns `false` if it is lost.
    fn waits_to_retry(&mut self, error: &io::Error) -> bool {
        let OnFailure::Retry(report) = &self.on_failure else { return false };
        let mut state = self.queue.lock();
        if !std::mem::replace(&mut state.is_failing, true) {
            drop(state);
            report(Some(error));
            state = self.queue.lock();
        }
        if !state.ends {
            let waits = |it: &mut QueueState| !it.ends && it.next_output.is_none();
            let waited = self.queue.changed.wait_timeout_while(state, RETRY_INTERVAL, waits);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            // Once more at the end.
            if let Some(output) = state.next_output.take() {
                (self.output, self.is_cut) = (output, false);
            }
            return true;
        }
        let output = state.next_output.take();
        drop(state);
        output.map(|output| (self.output, self.is_cut) = (output, false)).is_some()
    }
}

/// Returns the length of the lines at the start of `bytes` that one write takes, at least one line.
fn end_of_part(bytes: &[u8]) -> usize {
    let first = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
    let after = |newline: usize| newline + 1;
    let last = first.iter().rposition(|byte| *byte == b'\n');
    let end = last.or_else(|| bytes.iter().position(|byte| *byte == b'\n'));
    end.map_or(bytes.len(), after)
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split_inclusive(|byte| *byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, Read, pipe};
    use std::sync::mpsc::channel;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::io::ioctl_fionread;

    use super::*;

    fn lost(lines: u64) -> Vec<u8> {
        format!("{lines} lost\n").into_bytes()
    }

    fn queue(bytes_max: usize) -> Arc<LineQueue> {
        Arc::new(LineQueue::new(bytes_max, lost))
    }

    fn start(queue: &Arc<LineQueue>) -> (LineWriter, PipeReader) {
        let (reader, writer) = pipe().unwrap();
        (LineWriter::start(Arc::clone(queue), writer.into(), OnFailure::Discard).unwrap(), reader)
    }

    /// Writes what is left, and returns all that was written.
    fn end(writer: LineWriter, mut reader: PipeReader) -> String {
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let queue = queue(1 << 20);
        let (writer, reader) = start(&queue);
        let lines: Vec<String> = (0..1_000).map(|line| format!("line {line}\n")).collect();
        for line in &lines {
            queue.push(line.as_bytes());
        }
        assert_eq!(end(writer, reader), lines.concat());
        assert_eq!(queue.lost_total(), 0);
    }

    #[test]
    fn full_queue_counts_and_reports_lost_lines() {
        let queue = queue(8);
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            queue.push(line.as_bytes());
        }
        queue.push_always(b"listening\n");
        queue.push(b"five\n");
        assert_eq!(queue.lost_total(), 3);
        let (writer, reader) = start(&queue);
        assert_eq!(end(writer, reader), "one\ntwo\n2 lost\nlistening\n1 lost\n");
    }

    #[test]
    fn queue_takes_lines_again_once_written() {
        let queue = queue(8);
        let (writer, mut reader) = start(&queue);
        let mut read = [0; 8];
        for _ in 0..100 {
            queue.push(b"one\n");
            queue.push(b"two\n");
            reader.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"one\ntwo\n");
            // The thread counts what it has written a moment after the read.
            while queue.lock().taken > 0 {
                thread::yield_now();
            }
        }
        assert_eq!(end(writer, reader), "");
    }

    #[test]
    fn stalled_output_does_not_delay_the_end() {
        let queue = queue(1 << 20);
        let (writer, mut reader) = start(&queue);
        // More than a pipe holds.
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        for _ in 0..512 {
            queue.push(&line);
        }
        drop(writer);
        assert!(!queue.lock().has_ended);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, line.repeat(512));
    }

    #[test]
    fn closed_output_counts_lines_as_lost() {
        let queue = queue(1 << 20);
        let (writer, reader) = start(&queue);
        drop(reader);
        for _ in 0..100 {
            queue.push(b"unread\n");
        }
        drop(writer);
        assert_eq!(queue.lost_total(), 100);
    }

    #[test]
    fn line_cut_by_failure_is_ended_and_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Opens both ends without waiting; its read end is closed below.
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let output = File::options().write(true).open(&path).unwrap();
        let (report, reported) = channel();
        let on_failure = OnFailure::Retry(Box::new(move |error| {
            report.send(error.is_some()).unwrap_or(());
        }));
        let queue = queue(1 << 20);
        let writer = LineWriter::start(Arc::clone(&queue), output.into(), on_failure).unwrap();
        // More than a pipe holds: the write ends early when the read end closes.
        let line = format!("{}\n", "x".repeat(200_000)).into_bytes();
        queue.push(&line);
        while ioctl_fionread(&both).unwrap() < 65_536 {
            thread::yield_now();
        }
        drop(both);
        assert!(reported.recv().unwrap());
        let mut reader = File::open(&path).unwrap();
        let mut read = vec![0; 65_536 + 1 + line.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(!reported.recv().unwrap());
        assert!(read[..65_536].iter().all(|byte| *byte == b'x'));
        assert_eq!(read[65_536], b'\n');
        assert!(read[65_537..] == line);
        drop(writer);
        assert_eq!(queue.lost_total(), 0);
    }

    #[test]
    fn parts_end_with_a_line() {
        let short = b"ab\ncd\ne";
        assert_eq!(end_of_part(short), 6);
        let long = [&[b'x'; 5_000][..], b"\nab\n"].concat();
        assert_eq!(end_of_part(&long), 5_001);
        assert_eq!(end_of_part(b"no end"), 6);
    }
}
