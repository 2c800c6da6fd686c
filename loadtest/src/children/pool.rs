//! The thread that owns the child processes: starts them, drains their output, terminates them.
//!
//! A load thread must not block on a spawn, and children must not inherit its CPU affinity. So each
//! load thread has one pool thread, created before the load thread is pinned.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use corelane_engine::clock::Clock;
use corelane_engine::ring::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::{Child, StartedChild, TerminationStep};
use super::{ChildEvent, Program};
use crate::metrics::process_group::ProcessGroup;

/// Polling interval for children that are terminating.
const TERMINATION_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Command to the pool thread.
enum PoolCommand {
    /// Wakes this ring on every event.
    SetWaker(Waker),
    /// Starts a child with this number.
    Start(u32),
    /// Terminates the child with this number. Its pipes have been closed.
    Stop(u32),
}

/// The child processes of one load thread. Dropping it terminates all of them and blocks until they
/// have exited, for a few seconds at most.
#[derive(Debug)]
pub struct ProcessPool {
    command_tx: Option<Sender<PoolCommand>>,
    /// Each byte, and the end of the pipe, wakes the thread.
    wake_pipe: Option<PipeWriter>,
    event_rx: Option<Receiver<ChildEvent>>,
    thread: Option<JoinHandle<()>>,
}

impl ProcessPool {
    /// Creates a pool whose children run `program` and are members of `group`.
    ///
    /// # Errors
    ///
    /// Returns the error of creating the pipe or the thread.
    pub fn new(program: Program, group: Arc<ProcessGroup>) -> io::Result<Self> {
        let (command_tx, command_rx) = channel();
        let (event_tx, event_rx) = channel();
        let (wake_reader, wake_writer) = io::pipe()?;
        let mut pool_thread = PoolThread {
            program,
            group,
            clock: Clock::start(),
            commands: command_rx,
            wake_pipe: wake_reader,
            events: event_tx,
            waker: None,
            children: Vec::new(),
            is_closing: false,
        };
        let thread = thread::Builder::new().name("load-children".into());
        let thread = Some(thread.spawn(move || pool_thread.run())?);
        Ok(Self {
            command_tx: Some(command_tx),
            wake_pipe: Some(wake_writer),
            event_rx: Some(event_rx),
            thread,
        })
    }

    /// Sets the waker that is called on every event.
    pub fn set_waker(&self, waker: Waker) {
        self.send_command(PoolCommand::SetWaker(waker));
    }

    /// Starts a child with number `connection`. [`ChildEvent::Started`] or [`ChildEvent::Failed`]
    /// follows.
    pub fn start(&self, connection: u32) {
        self.send_command(PoolCommand::Start(connection));
    }

    /// Terminates child `connection`, whose pipes the caller has closed. [`ChildEvent::Exited`]
    /// follows.
    pub fn stop(&self, connection: u32) {
        self.send_command(PoolCommand::Stop(connection));
    }

    /// Returns the next event, or `None` if there is none yet.
    pub fn next_event(&self) -> Option<ChildEvent> {
        self.event_rx.as_ref()?.try_recv().ok()
    }

    fn send_command(&self, command: PoolCommand) {
        // Sending fails only if the thread has ended; then there are no children.
        if let (Some(commands), Some(mut wake_pipe)) = (&self.command_tx, self.wake_pipe.as_ref()) {
            drop(commands.send(command));
            drop(wake_pipe.write(&[0]));
        }
    }
}

impl Drop for ProcessPool {
    fn drop(&mut self) {
        self.command_tx = None;
        self.wake_pipe = None;
        // Unread events hold pipes of children, which would keep the children waiting for input.
        self.event_rx = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// State of the pool thread.
struct PoolThread {
    program: Program,
    group: Arc<ProcessGroup>,
    clock: Clock,
    commands: Receiver<PoolCommand>,
    wake_pipe: PipeReader,
    events: Sender<ChildEvent>,
    waker: Option<Waker>,
    children: Vec<Child>,
    /// The pool was dropped: all children must terminate.
    is_closing: bool,
}

impl PoolThread {
    fn run(&mut self) {
        loop {
            self.take_commands();
            self.advance_terminations();
            if self.is_closing && self.children.is_empty() {
                return;
            }
            self.wait_for_event();
        }
    }

    fn take_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(PoolCommand::SetWaker(waker)) => self.waker = Some(waker),
                Ok(PoolCommand::Start(connection)) => self.start_child(connection),
                Ok(PoolCommand::Stop(connection)) => {
                    self.begin_terminations(|child| child.connection == connection);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if !std::mem::replace(&mut self.is_closing, true) {
                        self.begin_terminations(|_| true);
                    }
                    return;
                }
            }
        }
    }

    fn start_child(&mut self, connection: u32) {
        let event = match Child::start(connection, &self.program) {
            Ok(StartedChild { child, stdin: input, stdout: output }) => {
                self.group.add(child.pid());
                self.children.push(child);
                ChildEvent::Started { connection, stdin: input, stdout: output }
            }
            Err(message) => ChildEvent::Failed { connection, message },
        };
        self.send_event(event);
    }

    fn begin_terminations(&mut self, is_selected: impl Fn(&Child) -> bool) {
        let now = self.clock.now();
        for child in self.children.iter_mut().filter(|child| is_selected(child)) {
            child.begin_termination(now);
        }
    }

    /// Advances the terminations in progress.
    fn advance_terminations(&mut self) {
        let (now, mut tree) = (self.clock.now(), None);
        for place in (0..self.children.len()).rev() {
            let step = self.children[place].advance_termination(now, &self.group, &mut tree);
            let Some(step) = step else { continue };
            let mut child = self.children.swap_remove(place);
            match step {
                TerminationStep::InputClosed => {}
                TerminationStep::Terminated => self.group.count_terminated(),
                TerminationStep::Killed => self.group.count_killed(),
            }
            let message = child.describe_exit();
            if let Some(lines) = child.last_stderr() {
                self.group.record_stderr(lines);
            }
            self.send_event(ChildEvent::Exited { connection: child.connection, message });
        }
    }

    fn send_event(&self, event: ChildEvent) {
        // Fails only if the load thread has ended.
        drop(self.events.send(event));
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Waits for a command, for output of a child, or for the next check of terminating children.
    fn wait_for_event(&mut self) {
        let mut fds = Vec::with_capacity(2 * self.children.len() + 1);
        if !self.is_closing {
            fds.push(PollFd::new(&self.wake_pipe, PollFlags::IN));
        }
        let ends = |child: &Child| [child.stderr().is_some(), child.terminating_stdout().is_some()];
        let open: Vec<[bool; 2]> = self.children.iter().map(ends).collect();
        for child in &self.children {
            let both = [child.stderr(), child.terminating_stdout()].into_iter().flatten();
            fds.extend(both.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        }
        let is_terminating = self.children.iter().any(Child::is_terminating);
        let timeout = is_terminating.then_some(&TERMINATION_POLL_INTERVAL);
        if poll(&mut fds, timeout).is_err() {
            // Interrupted by a signal: the next pass finds what is ready.
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if !self.is_closing && ready.next() == Some(true) {
            // The number of bytes does not matter; the end of the pipe shows as a closed channel.
            drop(self.wake_pipe.read(&mut [0; 256]));
        }
        for (child, [stderr, stdout]) in self.children.iter_mut().zip(open) {
            if stderr && ready.next() == Some(true) {
                child.read_stderr();
            }
            if stdout && ready.next() == Some(true) {
                child.discard_stdout();
            }
        }
    }
}
