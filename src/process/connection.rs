//! The server's end of one supervisor process.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::proc_table::{Stat, all_ids};
use crate::socket::{self, FRAME_BYTES_MAX, Received};
use crate::spec::{ChildStdio, Exit};
use crate::supervise::{MODE_VARIABLE, Mode};
use crate::tag::Tag;
use crate::wire::{self, ChildId, Ended};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
pub(crate) type Mutex<T> = std::sync::Mutex<T>;

/// Receives how a child has ended.
pub(crate) type OnExit = Box<dyn FnOnce(Exit) + Send>;

/// Bytes of stack of the thread that receives exits and runs their callbacks.
const STACK_BYTES: usize = 256 << 10;
/// Time until the next attempt to send if the kernel lacks room for more descriptors or bytes.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Time that a killed process has to end before the next look at those that are left.
const KILLED: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Looks at those that are left, at most: a process in the kernel may not end.
const ROUNDS: usize = 10;

/// A running supervisor process.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: UnixStream,
    /// Wakes the thread when frames wait to be sent.
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_id: ChildId,
    /// The callbacks of the children that have not ended.
    callbacks: BTreeMap<ChildId, OnExit>,
    /// What the socket has no room for.
    unsent: VecDeque<Frame>,
    /// The last attempt to send found no room in the kernel, which poll does not report.
    is_exhausted: bool,
    /// Nothing can be sent any more.
    is_closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("children", &self.callbacks.len())
            .finish_non_exhaustive()
    }
}

/// A frame to send.
struct Frame {
    bytes: Vec<u8>,
    sent: usize,
    /// Go with the first byte.
    stdio: Option<ChildStdio>,
}

impl Frame {
    const fn new(bytes: Vec<u8>, stdio: Option<ChildStdio>) -> Self {
        Self { bytes, sent: 0, stdio }
    }

    /// Sends what the socket has room for.
    fn send(&mut self, socket: &UnixStream) -> Result<Sent, Errno> {
        while self.sent < self.bytes.len() {
            let descriptors: Option<[BorrowedFd<'_>; 3]> =
                self.stdio.as_ref().map(|ChildStdio { stdin, stdout, stderr }| {
                    [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]
                });
            let descriptors = descriptors.as_ref().map_or(&[] as &[_], |it| it.as_slice());
            let rest = &self.bytes[self.sent..];
            match socket::send(socket, rest, descriptors, SendFlags::DONTWAIT) {
                Ok(len) => {
                    self.sent += len;
                    self.stdio = None;
                }
                Err(Errno::AGAIN) => return Ok(Sent::SocketFull),
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    return Ok(Sent::Exhausted);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Whole)
    }
}

/// How much of a frame was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sent {
    Whole,
    /// Not all: the socket has no room.
    SocketFull,
    /// Not all: the kernel has no room.
    Exhausted,
}

/// What was not accepted since the supervisor has ended.
pub(crate) struct Rejected {
    pub(crate) stdio: Option<ChildStdio>,
    pub(crate) on_exit: OnExit,
}

impl Connection {
    /// Starts a supervisor process.
    pub(crate) fn start(
        program: &OsString,
        arguments: &[OsString],
        mode: Mode,
    ) -> io::Result<Arc<Self>> {
        let (socket, child_socket) = UnixStream::pair()?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut process = Command::new(program)
            .args(arguments)
            .env_clear()
            .env(MODE_VARIABLE, mode.name())
            .stdin(OwnedFd::from(child_socket))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let connection = Arc::new(Self { socket, wake, state: Mutex::default() });
        let receiver = Arc::clone(&connection);
        let id = i32::try_from(process.id()).unwrap_or(0);
        let thread = thread::Builder::new().name("corelane-spawn".into()).stack_size(STACK_BYTES);
        let receive = move || {
            receiver.run();
            receiver.end(&mut process, id);
        };
        // On an error the process ends with its socket.
        thread.spawn(receive)?;
        Ok(connection)
    }

    /// Sends the frame that `encode` makes of the id of a new child, and returns the id.
    pub(crate) fn submit(
        &self,
        encode: impl FnOnce(ChildId) -> Vec<u8>,
        stdio: Option<ChildStdio>,
        on_exit: OnExit,
    ) -> Result<ChildId, Rejected> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Rejected { stdio, on_exit });
        }
        let mut id = state.next_id;
        while state.callbacks.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        state.next_id = id.wrapping_add(1);
        let bytes = encode(id);
        if bytes.len() > FRAME_BYTES_MAX {
            drop(state);
            on_exit(Exit::NotStarted(format!(
                "the arguments of the command are too long: {} bytes of {FRAME_BYTES_MAX} at most",
                bytes.len()
            )));
            return Ok(id);
        }
        let mut frame = Frame::new(bytes, stdio);
        if state.unsent.is_empty() {
            match frame.send(&self.socket) {
                Ok(Sent::Whole) => {}
                Ok(sent) => self.push_unsent(&mut state, frame, sent),
                Err(_) if frame.sent == 0 => {
                    state.is_closed = true;
                    return Err(Rejected { stdio: frame.stdio, on_exit });
                }
                // The thread reports the end of the supervisor.
                Err(_) => state.is_closed = true,
            }
        } else {
            state.unsent.push_back(frame);
        }
        state.callbacks.insert(id, on_exit);
        Ok(id)
    }

    /// Sends the frame that `encode` makes, unless the child has ended.
    pub(crate) fn signal(&self, id: ChildId, encode: impl FnOnce(ChildId) -> Vec<u8>) {
        let mut state = self.lock();
        if state.is_closed || !state.callbacks.contains_key(&id) {
            return;
        }
        let mut frame = Frame::new(encode(id), None);
        if !state.unsent.is_empty() {
            state.unsent.push_back(frame);
            return;
        }
        match frame.send(&self.socket) {
            // Without a supervisor there is no child either.
            Ok(Sent::Whole) | Err(_) => {}
            Ok(sent) => self.push_unsent(&mut state, frame, sent),
        }
    }

    /// Returns whether children can be started.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().is_closed
    }

    /// Lets the supervisor end its children and itself.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        // Fails if the supervisor has ended.
        shutdown(&self.socket, Shutdown::Write).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_unsent(&self, state: &mut State, frame: Frame, sent: Sent) {
        state.is_exhausted = sent == Sent::Exhausted;
        state.unsent.push_back(frame);
        // Fails if the thread is woken already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Receives exits until the supervisor has ended.
    fn run(&self) {
        let mut received = Received::default();
        while let Ok(is_readable) = self.wait() {
            self.send_unsent();
            if !is_readable {
                continue;
            }
            match received.receive(&self.socket, RecvFlags::DONTWAIT) {
                Ok(0) => return,
                Ok(_) if received.is_invalid() => return,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
            while let Some(frame) = received.take_frame() {
                let Some(Ended { id, exit }) = wire::decode_ended(&frame) else { return };
                let on_exit = self.lock().callbacks.remove(&id);
                if let Some(on_exit) = on_exit {
                    call(on_exit, exit);
                }
            }
        }
    }

    /// Waits until there is something to do, and returns whether the socket can be read.
    fn wait(&self) -> Result<bool, Errno> {
        let (flags, timeout) = {
            let state = self.lock();
            match (state.unsent.is_empty(), state.is_exhausted) {
                (true, _) => (PollFlags::IN, None),
                (false, true) => (PollFlags::IN, Some(&RETRY)),
                (false, false) => (PollFlags::IN | PollFlags::OUT, None),
            }
        };
        let mut polled = [PollFd::new(&self.socket, flags), PollFd::new(&self.wake, PollFlags::IN)];
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if !polled[1].revents().is_empty() {
            // Resets it.
            rustix::io::read(&self.wake, &mut [0; 8]).ok();
        }
        Ok(polled[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }

    fn send_unsent(&self) {
        let mut state = self.lock();
        while let Some(mut frame) = state.unsent.pop_front() {
            match frame.send(&self.socket) {
                // Without a supervisor there is no child either.
                Ok(Sent::Whole) | Err(_) => {}
                Ok(sent) => {
                    state.is_exhausted = sent == Sent::Exhausted;
                    state.unsent.push_front(frame);
                    return;
                }
            }
        }
    }

    /// Ends what a supervisor has left behind, reaps it and reports the children that have not
    /// ended.
    fn end(&self, process: &mut Child, id: i32) {
        self.lock().is_closed = true;
        // It has ended by now, unless it sent what is no exit.
        process.kill().ok();
        kill_left_behind(id);
        // Reaped after that: until then its id is the session of its children and no other.
        process.wait().ok();
        let callbacks = std::mem::take(&mut self.lock().callbacks);
        for on_exit in callbacks.into_values() {
            call(on_exit, Exit::SupervisorGone);
        }
    }
}

/// Calls back. A panic, which the hook of the program has reported, ends no other callback.
fn call(on_exit: OnExit, exit: Exit) {
    catch_unwind(AssertUnwindSafe(|| on_exit(exit))).ok();
}

/// Kills what was started by a supervisor that was killed: the processes of its session, and those
/// with its tag.
fn kill_left_behind(supervisor: i32) {
    let is_left_behind = |id: i32| {
        id != supervisor
            && Stat::of(id).is_some_and(|stat| {
                let is_tagged = || Tag::of(id).is_some_and(|tag| tag.supervisor == supervisor);
                !stat.is_zombie && (stat.session == supervisor || is_tagged())
            })
    };
    for _ in 0..ROUNDS {
        let mut has_killed = false;
        for id in all_ids().into_iter().filter(|id| is_left_behind(*id)) {
            let Some(pid) = Pid::from_raw(id) else { continue };
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // The descriptor may be of a later process with the same id.
            if is_left_behind(id) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                has_killed = true;
                let mut polled = [PollFd::new(&process, PollFlags::IN)];
                poll(&mut polled, Some(&KILLED)).ok();
            }
        }
        if !has_killed {
            return;
        }
    }
}
