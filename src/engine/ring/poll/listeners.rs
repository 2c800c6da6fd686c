//! The listeners of a readiness ring.
//!
//! What it keeps true: one visit accepts a bounded number of connections; a listener that cannot
//! accept (no place, no descriptor, no memory) says so once, rests, and tries again when a socket
//! of this ring has closed or a tenth of a second has passed, because descriptors are also freed
//! where this ring does not see it. Names of listeners are not used twice.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use polling::{Event, PollMode, Poller};
use rustix::io::{Errno, ioctl_fionbio};
use socket2::SockRef;

use super::descriptor::Descriptor;
use super::streams::{SOCKETS_MAX, Stream, Streams};
use crate::base::time::Moment;
use crate::engine::ring::{Completion, Listener};

/// Every listener of one ring.
#[derive(Debug)]
pub(super) struct Listeners {
    places: Vec<Option<Gate>>,
    /// Connections that one visit accepts.
    batch: u16,
    /// Some listener rests.
    is_any_resting: bool,
}

/// One listener.
#[derive(Debug)]
struct Gate {
    fd: OwnedFd,
    is_accepting: bool,
    is_watched: bool,
    /// Set while it rests: when it tries again at the latest.
    rests_until: Option<Moment>,
}

impl Listeners {
    /// No listener yet; each visit will accept at most `batch` connections, at least one.
    pub(super) fn new(batch: u16) -> Self {
        Self { places: Vec::new(), batch: batch.max(1), is_any_resting: false }
    }

    /// Names a socket that listens.
    pub(super) fn open(&mut self, fd: OwnedFd) -> io::Result<Listener> {
        let name = u16::try_from(self.places.len()).map_err(|_| io::Error::from(Errno::NFILE))?;
        ioctl_fionbio(&fd, true)?;
        let gate = Gate { fd, is_accepting: false, is_watched: false, rests_until: None };
        self.places.push(Some(gate));
        Ok(Listener(name))
    }

    /// Accepts from now on.
    pub(super) fn accept(&mut self, poller: &Poller, streams: &mut Streams, listener: Listener) {
        let Some(gate) = self.find(listener) else { return };
        gate.is_accepting = true;
        if let Err(error) = gate.watch(poller, listener) {
            streams.completed.push(Completion::AcceptFailed { listener, error });
        }
    }

    /// Closes one listener.
    pub(super) fn close(&mut self, poller: &Poller, listener: Listener) {
        let Some(place) = self.places.get_mut(usize::from(listener.0)) else { return };
        if let Some(mut gate) = place.take() {
            gate.forget(poller);
        }
    }

    /// Closes all of them.
    pub(super) fn close_all(&mut self, poller: &Poller) {
        for mut gate in self.places.drain(..).flatten() {
            gate.forget(poller);
        }
    }

    /// Takes in connections that wait at a listener.
    pub(super) fn take_in(
        &mut self,
        poller: &Poller,
        streams: &mut Streams,
        listener: Listener,
        now: Moment,
    ) {
        let batch = self.batch;
        let Some(gate) = self.find(listener).filter(|gate| gate.is_watched) else { return };
        for _ in 0..batch {
            let error = match gate.admit(streams, listener) {
                Ok(Admitted::One) => continue,
                Ok(Admitted::None) => return,
                Err(error) => error,
            };
            streams.completed.push(Completion::AcceptFailed { listener, error });
            gate.rests_until = Some(now.after(REST));
            gate.forget(poller);
            self.is_any_resting = true;
            return;
        }
    }

    /// Takes in connections that wait at any listener.
    pub(super) fn take_in_all(&mut self, poller: &Poller, streams: &mut Streams, now: Moment) {
        #[expect(clippy::cast_possible_truncation, reason = "`open` names no more")]
        let end = self.places.len() as u16;
        for name in 0..end {
            self.take_in(poller, streams, Listener(name), now);
        }
    }

    /// When the first listener that rests tries again.
    pub(super) fn deadline(&self) -> Option<Moment> {
        if !self.is_any_resting {
            return None;
        }
        self.places.iter().flatten().filter_map(|gate| gate.rests_until).min()
    }

    /// Has the listeners that rest try again: all of them after a socket was closed, otherwise
    /// those whose time has come.
    pub(super) fn rouse(
        &mut self,
        poller: &Poller,
        streams: &mut Streams,
        now: Moment,
        has_closed: bool,
    ) {
        if !self.is_any_resting || streams.is_full() {
            return;
        }
        self.is_any_resting = false;
        for (name, gate) in self.places.iter_mut().enumerate() {
            let Some(gate) = gate else { continue };
            match gate.rests_until {
                None => continue,
                Some(until) if !has_closed && now < until => {
                    self.is_any_resting = true;
                    continue;
                }
                Some(_) => gate.rests_until = None,
            }
            #[expect(clippy::cast_possible_truncation, reason = "`open` names no more")]
            let listener = Listener(name as u16);
            if let Err(error) = gate.watch(poller, listener) {
                streams.completed.push(Completion::AcceptFailed { listener, error });
                gate.rests_until = Some(now.after(REST));
                self.is_any_resting = true;
            }
        }
    }

    fn find(&mut self, listener: Listener) -> Option<&mut Gate> {
        self.places.get_mut(usize::from(listener.0))?.as_mut()
    }
}

impl Gate {
    /// Accepts one connection and tells of it.
    fn admit(&self, streams: &mut Streams, listener: Listener) -> io::Result<Admitted> {
        if streams.is_full() {
            return Err(Errno::NFILE.into());
        }
        let (accepted, address) = match SockRef::from(&self.fd).accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                return match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => Ok(Admitted::None),
                    // The connection was given up while it waited: on to the next.
                    Some(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => Ok(Admitted::One),
                    _ => Err(error),
                };
            }
        };
        let descriptor = Descriptor::socket(accepted.into())?;
        let socket = streams.open(Stream::new(descriptor))?;
        let peer: Option<SocketAddr> = address.as_socket();
        streams.completed.push(Completion::Accepted { listener, socket, peer });
        Ok(Admitted::One)
    }

    /// Has the poller report connections.
    fn watch(&mut self, poller: &Poller, listener: Listener) -> io::Result<()> {
        if self.is_watched || !self.is_accepting || self.rests_until.is_some() {
            return Ok(());
        }
        let event = Event::readable(key(listener));
        // SAFETY: the poller must forget a descriptor before it is closed. `Gate::forget` has it
        // do so on both ways out of the table, and the ring empties the table before it drops it.
        unsafe { poller.add_with_mode(&self.fd, event, PollMode::Level) }?;
        self.is_watched = true;
        Ok(())
    }

    /// Has the poller report nothing of this listener any more.
    fn forget(&mut self, poller: &Poller) {
        if std::mem::take(&mut self.is_watched) {
            // Only a poller that does not know the descriptor refuses.
            let forgotten = poller.delete(&self.fd);
            debug_assert!(forgotten.is_ok(), "{forgotten:?}");
        }
    }
}

/// What one try to accept came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Admitted {
    /// None waits.
    None,
    /// One was taken, or gave itself up.
    One,
}

/// The poller's name for a listener: above those of the sockets.
pub(super) const fn key(listener: Listener) -> usize {
    SOCKETS_MAX as usize + listener.0 as usize
}

/// The listener of a poller's name, where it is one.
pub(super) fn from_key(key: usize) -> Option<Listener> {
    key.checked_sub(SOCKETS_MAX as usize).and_then(|name| u16::try_from(name).ok()).map(Listener)
}

/// How long a listener that could not accept rests when nothing of this ring closes: long enough
/// to cost nothing, short enough for a connection that waits.
const REST: Duration = Duration::from_millis(100);
