//! A ring with streams that have filters.

use std::io;

use super::filter::ByteFilter;
use super::streams::Streams;
use crate::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Source, Waker,
};
use corelane_base::time::Instant;

/// A ring as the owner of streams sees it: their sockets send and receive decoded bytes.
#[derive(Debug)]
pub struct StreamRing<'a, R, F> {
    ring: &'a mut R,
    streams: &'a mut Streams<F>,
}

impl<'a, R, F> StreamRing<'a, R, F> {
    /// Joins a ring and its streams.
    pub const fn new(ring: &'a mut R, streams: &'a mut Streams<F>) -> Self {
        Self { ring, streams }
    }
}

impl<R: Ring, F: ByteFilter> Ring for StreamRing<'_, R, F> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    fn submit(&mut self, operation: Operation) {
        self.streams.submit(self.ring, operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.ring.reap(completions);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        match self.streams.bytes(buffer) {
            None => self.ring.bytes(buffer),
            Some(decoded) => decoded,
        }
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        if let Err(buffer) = self.streams.release(buffer) {
            self.ring.release(buffer);
        }
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}
