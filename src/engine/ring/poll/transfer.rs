//! Bytes in and bytes out: what a readiness ring does for one stream at a time.
//!
//! What it keeps true: one visit to a stream takes a bounded number of buffers, so that a fast
//! sender does not make the others wait; bytes that find no buffer stay in the kernel, where they
//! close the peer's window; a send is tried before it is waited for.

use std::io;

use polling::Poller;
use rustix::io::Errno;

use super::descriptor::Progress;
use super::streams::{Departure, Intake, Stream, Streams};
use crate::engine::ring::{Completion, Socket};

impl Streams {
    /// Receives from now on.
    pub(super) fn receive(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.intake != Intake::Paused {
            return;
        }
        stream.intake = Intake::Receiving;
        if let Err(error) = self.watch(poller, socket) {
            self.end(socket, Err(error));
        }
    }

    /// Stops receiving. Says nothing to the poller: most streams stay silent meanwhile.
    pub(super) fn pause(&mut self, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let intake = stream.intake;
        if intake != Intake::Ended {
            stream.intake = Intake::Paused;
        }
        if intake == Intake::Starved {
            self.starved.retain(|&other| other != socket);
        }
    }

    /// Sends at once what goes at once and waits with the rest.
    #[inline]
    pub(super) fn send(&mut self, poller: &Poller, socket: Socket, buffer: Vec<u8>, from: usize) {
        let Some(stream) = self.find(socket) else {
            debug_assert!(false, "{socket:?} is sent to after it was closed");
            let result = Err(Errno::BADF.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
            return;
        };
        if stream.departure.is_some() {
            debug_assert!(false, "{socket:?} has a send in flight already");
            let result = Err(Errno::BUSY.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
            return;
        }
        let mut departure = Departure { buffer, from, next: from };
        let moved = if stream.descriptor.is_written_at_once() || departure.rest().is_empty() {
            stream.advance(&mut departure)
        } else {
            Ok(false)
        };
        if matches!(moved, Ok(false)) {
            stream.departure = Some(departure);
            if let Err(error) = self.watch(poller, socket) {
                self.conclude(socket, Err(error));
            }
            return;
        }
        let result = moved.map(|_| departure.next - from);
        self.completed.push(Completion::Sent { socket, buffer: departure.buffer, result });
    }

    /// Goes on with the send under way, now that the stream is writable.
    pub(super) fn resume(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let Some(mut departure) = stream.departure.take() else { return };
        let moved = stream.advance(&mut departure);
        stream.departure = Some(departure);
        match moved {
            Ok(false) => return,
            Ok(true) => self.conclude(socket, Ok(())),
            Err(error) => self.conclude(socket, Err(error)),
        }
        self.trim(poller, socket);
    }

    /// Ends the sending half, after the send that is under way.
    pub(super) fn finish(&mut self, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.departure.is_some() {
            stream.is_finishing = true;
        } else {
            stream.descriptor.finish();
        }
    }

    /// Closes: the send that is under way is cancelled, then the name is free.
    pub(super) fn close(&mut self, poller: &Poller, socket: Socket) {
        let Some(mut stream) = self.remove(poller, socket) else {
            debug_assert!(false, "{socket:?} is closed twice");
            return;
        };
        if let Some(Departure { buffer, .. }) = stream.departure.take() {
            let result = Err(Errno::CANCELED.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
        }
        drop(stream);
        self.completed.push(Completion::Closed { socket });
    }

    /// Reads a stream that is ready: until it is empty, has had its share, or no buffer is free.
    #[inline]
    pub(super) fn take_in(&mut self, socket: Socket) {
        for taken in 0..self.share {
            let Some(Some(stream)) = self.places.get_mut(socket.index()) else { return };
            let Some(bytes) = self.buffers.next() else {
                if taken > 0 {
                    // It has had some: those that found none go first, and its rest is reported
                    // again.
                    return;
                }
                // First in line when buffers are back. It stays watched: most often they are back
                // before the next wait, and an event before that ends the watching.
                stream.intake = Intake::Starved;
                self.starved.push_back(socket);
                self.starvations += 1;
                return;
            };
            let (length, is_empty) = match stream.descriptor.read(bytes) {
                Ok(Progress::More(length)) => (length, false),
                Ok(Progress::Wait(length)) => (length, true),
                Ok(Progress::End) => return self.end(socket, Ok(())),
                Err(error) => return self.end(socket, Err(error)),
            };
            if length > 0 {
                let lease = self.buffers.lease(length);
                self.completed.push(Completion::Received { socket, lease });
            }
            if is_empty {
                return;
            }
        }
    }

    /// Reads those that found no buffer, while there are buffers again.
    pub(super) fn feed_starved(&mut self, poller: &Poller) {
        for _ in 0..self.starved.len() {
            if self.buffers.is_exhausted() {
                return;
            }
            let Some(socket) = self.starved.pop_front() else { return };
            let Some(stream) = self.find(socket) else { continue };
            stream.intake = Intake::Receiving;
            self.take_in(socket);
            if let Err(error) = self.watch(poller, socket) {
                self.end(socket, Err(error));
            }
        }
    }

    /// Reads and writes the files, which are ready whenever there is something to do.
    pub(super) fn serve_files(&mut self, poller: &Poller) {
        for place in (0..self.files.len()).rev() {
            let socket = self.files[place];
            let wanted = self.find(socket).map(|stream| stream.wanted()).unwrap_or_default();
            if wanted.writable {
                self.resume(poller, socket);
            }
            if wanted.readable && !self.buffers.is_exhausted() {
                self.take_in(socket);
            }
            if !wanted.readable && !wanted.writable {
                self.files.swap_remove(place);
            }
        }
    }

    /// Tells the end of what is received.
    fn end(&mut self, socket: Socket, result: io::Result<()>) {
        let Some(stream) = self.find(socket) else { return };
        if stream.intake == Intake::Ended {
            return;
        }
        stream.intake = Intake::Ended;
        self.completed.push(Completion::Ended { socket, result });
    }

    /// Tells the outcome of the send under way and hands its buffer back.
    fn conclude(&mut self, socket: Socket, outcome: io::Result<()>) {
        let Some(stream) = self.find(socket) else { return };
        let Some(Departure { buffer, from, next }) = stream.departure.take() else { return };
        if std::mem::take(&mut stream.is_finishing) {
            stream.descriptor.finish();
        }
        let result = outcome.map(|()| next - from);
        self.completed.push(Completion::Sent { socket, buffer, result });
    }
}

impl Stream {
    /// Writes what goes now; `true` where that was all of it.
    #[inline]
    fn advance(&self, departure: &mut Departure) -> io::Result<bool> {
        while !departure.rest().is_empty() {
            match self.descriptor.write(departure.rest())? {
                Progress::More(length) => departure.next += length,
                Progress::Wait(length) => {
                    departure.next += length;
                    return Ok(departure.rest().is_empty());
                }
                Progress::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        Ok(true)
    }
}

impl Departure {
    #[inline]
    fn rest(&self) -> &[u8] {
        self.buffer.get(self.next..).unwrap_or_default()
    }
}
