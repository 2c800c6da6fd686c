//! The listeners of a readiness ring.
//!
//! Invariants: one event accepts a bounded number of connections; a listener that cannot accept (no
//! slot, no descriptor, no memory) reports it once, pauses, and is retried when a socket of this
//! ring closes or after 100 ms, because descriptors are also released outside of this ring. If the
//! process has no descriptor left, one that is kept in reserve is given up for a connection, so
//! that it gets an error response; it is replaced at the next event of a listener. Names of
//! listeners are not reused.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use polling::{Event, PollMode, Poller};
use rustix::io::{Errno, ioctl_fionbio};
use socket2::SockRef;

use super::descriptor::Descriptor;
use super::streams::{SOCKETS_MAX, Stream, StreamTable};
use crate::ring::{Completion, Listener};
use corelane_base::time::Instant;

/// All listeners of a ring.
#[derive(Debug)]
pub(super) struct Listeners {
    entries: Vec<Option<ListenerState>>,
    /// The number of connections accepted for one event.
    batch: u16,
    /// Whether some listener is paused.
    has_paused: bool,
    /// A descriptor of the poller, to be closed for a connection when none is left.
    reserve: Option<OwnedFd>,
}

#[derive(Debug)]
struct ListenerState {
    fd: OwnedFd,
    is_accepting: bool,
    is_registered: bool,
    /// Set while the listener is paused: when it is retried at the latest.
    retry_at: Option<Instant>,
}

impl Listeners {
    /// Creates an empty table; one event accepts at most `batch` connections, at least one.
    pub(super) fn new(batch: u16) -> Self {
        Self { entries: Vec::new(), batch: batch.max(1), has_paused: false, reserve: None }
    }

    /// Adds a listening socket and makes it non-blocking; it accepts nothing yet.
    pub(super) fn add(&mut self, fd: OwnedFd) -> io::Result<Listener> {
        let name = u16::try_from(self.entries.len()).map_err(|_| io::Error::from(Errno::NFILE))?;
        ioctl_fionbio(&fd, true)?;
        let state = ListenerState { fd, is_accepting: false, is_registered: false, retry_at: None };
        self.entries.push(Some(state));
        Ok(Listener(name))
    }

    /// Starts accepting.
    pub(super) fn accept(
        &mut self,
        poller: &Poller,
        listener: Listener,
        completed: &mut Vec<Completion>,
    ) {
        let Some(state) = self.find(listener) else { return };
        state.is_accepting = true;
        let result = state.register(poller, listener);
        self.restore_reserve(poller);
        if let Err(error) = result {
            completed.push(Completion::AcceptFailed { listener, error });
        }
    }

    pub(super) fn close(&mut self, poller: &Poller, listener: Listener) {
        let Some(entry) = self.entries.get_mut(usize::from(listener.0)) else { return };
        if let Some(mut state) = entry.take() {
            state.unregister(poller);
        }
    }

    pub(super) fn close_all(&mut self, poller: &Poller) {
        for mut state in self.entries.drain(..).flatten() {
            state.unregister(poller);
        }
    }

    /// Accepts connections waiting at a listener.
    pub(super) fn accept_ready(
        &mut self,
        poller: &Poller,
        streams: &mut StreamTable,
        listener: Listener,
        now: Instant,
        completed: &mut Vec<Completion>,
    ) {
        self.restore_reserve(poller);
        let Self { entries, batch, reserve, .. } = self;
        let state = entries.get_mut(usize::from(listener.0)).and_then(Option::as_mut);
        let Some(state) = state.filter(|state| state.is_registered) else { return };
        for _ in 0..*batch {
            let error = match state.accept_one(streams, reserve, listener, completed) {
                Ok(AcceptOutcome::Accepted) => continue,
                Ok(AcceptOutcome::WouldBlock) => return,
                Err(error) => error,
            };
            completed.push(Completion::AcceptFailed { listener, error });
            state.retry_at = Some(now.after(RETRY_DELAY));
            state.unregister(poller);
            self.has_paused = true;
            return;
        }
    }

    /// Accepts connections waiting at any listener.
    pub(super) fn accept_all_ready(
        &mut self,
        poller: &Poller,
        streams: &mut StreamTable,
        now: Instant,
        completed: &mut Vec<Completion>,
    ) {
        #[expect(clippy::cast_possible_truncation, reason = "`add` limits the number to u16")]
        let end = self.entries.len() as u16;
        for name in 0..end {
            self.accept_ready(poller, streams, Listener(name), now, completed);
        }
    }

    /// Returns when the first paused listener is retried.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        if !self.has_paused {
            return None;
        }
        self.entries.iter().flatten().filter_map(|state| state.retry_at).min()
    }

    /// Retries paused listeners: all of them after a socket was closed, otherwise those whose time
    /// has come.
    pub(super) fn retry_paused(
        &mut self,
        poller: &Poller,
        streams: &StreamTable,
        now: Instant,
        has_closed: bool,
        completed: &mut Vec<Completion>,
    ) {
        if !self.has_paused || streams.is_full() {
            return;
        }
        self.has_paused = false;
        for (name, state) in self.entries.iter_mut().enumerate() {
            let Some(state) = state else { continue };
            match state.retry_at {
                None => continue,
                Some(until) if !has_closed && now < until => {
                    self.has_paused = true;
                    continue;
                }
                Some(_) => state.retry_at = None,
            }
            #[expect(clippy::cast_possible_truncation, reason = "`add` limits the number to u16")]
            let listener = Listener(name as u16);
            if let Err(error) = state.register(poller, listener) {
                completed.push(Completion::AcceptFailed { listener, error });
                state.retry_at = Some(now.after(RETRY_DELAY));
                self.has_paused = true;
            }
        }
    }

    /// Takes a descriptor in reserve again, if there is one.
    fn restore_reserve(&mut self, poller: &Poller) {
        if self.reserve.is_none() {
            self.reserve = poller.as_fd().try_clone_to_owned().ok();
        }
    }

    fn find(&mut self, listener: Listener) -> Option<&mut ListenerState> {
        self.entries.get_mut(usize::from(listener.0))?.as_mut()
    }
}

impl ListenerState {
    /// Accepts one connection, if need be with the descriptor in reserve.
    fn accept_one(
        &self,
        streams: &mut StreamTable,
        reserve: &mut Option<OwnedFd>,
        listener: Listener,
        completed: &mut Vec<Completion>,
    ) -> io::Result<AcceptOutcome> {
        if streams.is_full() {
            return Err(Errno::NFILE.into());
        }
        let mut is_from_reserve = false;
        let mut result = SockRef::from(&self.fd).accept();
        if let Err(error) = &result
            && Errno::from_io_error(error) == Some(Errno::MFILE)
            && reserve.take().is_some()
        {
            is_from_reserve = true;
            result = SockRef::from(&self.fd).accept();
        }
        let (accepted, address) = match result {
            Ok(accepted) => accepted,
            Err(error) => {
                return match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => Ok(AcceptOutcome::WouldBlock),
                    // The connection was aborted while it waited.
                    Some(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {
                        Ok(AcceptOutcome::Accepted)
                    }
                    _ => Err(error),
                };
            }
        };
        let descriptor = Descriptor::socket(accepted.into())?;
        let mut stream = Stream::new(descriptor);
        stream.is_from_reserve = is_from_reserve;
        let socket = streams.add(stream)?;
        let peer: Option<SocketAddr> = address.as_socket();
        completed.push(Completion::Accepted { listener, socket, peer });
        Ok(AcceptOutcome::Accepted)
    }

    /// Registers the listener with the poller.
    fn register(&mut self, poller: &Poller, listener: Listener) -> io::Result<()> {
        if self.is_registered || !self.is_accepting || self.retry_at.is_some() {
            return Ok(());
        }
        let event = Event::readable(key(listener));
        // SAFETY: a descriptor must be removed from the poller before it is closed.
        // `ListenerState::unregister` does so on both ways out of the table, and the ring empties
        // the table before dropping it.
        unsafe { poller.add_with_mode(&self.fd, event, PollMode::Level) }?;
        self.is_registered = true;
        Ok(())
    }

    /// Removes the listener from the poller.
    fn unregister(&mut self, poller: &Poller) {
        if std::mem::take(&mut self.is_registered) {
            // Fails only if the poller does not know the descriptor.
            let result = poller.delete(&self.fd);
            debug_assert!(result.is_ok(), "{result:?}");
        }
    }
}

/// The result of accepting one connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AcceptOutcome {
    /// No connection is waiting.
    WouldBlock,
    /// A connection was accepted, or was aborted.
    Accepted,
}

/// Returns the poller key of a listener; listener keys follow those of sockets.
pub(super) const fn key(listener: Listener) -> usize {
    SOCKETS_MAX as usize + listener.0 as usize
}

/// Returns the listener of a poller key, if it is one.
pub(super) fn from_key(key: usize) -> Option<Listener> {
    key.checked_sub(SOCKETS_MAX as usize).and_then(|name| u16::try_from(name).ok()).map(Listener)
}

/// The delay before a paused listener is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);
