//! The filtered streams by socket, and what they hold.
//!
//! Invariant: what a stream holds is accounted, except while a guard changes it.

use std::ops::{Deref, DerefMut};

use super::filtered::{ByteFilter, FilteredStream};
use crate::ring::Socket;
use corelane_base::heap_bytes::HeapBytes;

/// The streams of a ring that have a filter.
#[derive(Debug)]
pub(super) struct StreamTable<F> {
    /// By socket; shorter if the later ones have no filter.
    streams: Vec<Option<Box<FilteredStream<F>>>>,
    /// The sum of what they hold.
    held_bytes: usize,
}

impl<F> Default for StreamTable<F> {
    fn default() -> Self {
        Self { streams: Vec::new(), held_bytes: 0 }
    }
}

impl<F> StreamTable<F> {
    /// Returns whether no socket had a filter so far.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the bytes that all streams hold.
    #[inline]
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns whether a socket has a filter.
    #[inline]
    pub(super) fn contains(&self, socket: Socket) -> bool {
        self.streams.get(socket.index()).is_some_and(Option::is_some)
    }

    /// Returns the stream of a socket, if it has a filter.
    #[inline]
    pub(super) fn get(&self, socket: Socket) -> Option<&FilteredStream<F>> {
        self.streams.get(socket.index())?.as_deref()
    }
}

impl<F: ByteFilter> StreamTable<F> {
    /// Returns the bytes that the stream of a socket holds; 0 if it has no filter.
    pub(super) fn held_bytes_of(&self, socket: Socket) -> usize {
        self.streams.get(socket.index()).map_or(0, HeapBytes::heap_bytes)
    }

    /// Adds the stream of a socket, in place of the one before.
    pub(super) fn insert(&mut self, socket: Socket, stream: Box<FilteredStream<F>>) {
        self.remove(socket);
        if self.streams.len() <= socket.index() {
            self.streams.resize_with(socket.index() + 1, || None);
        }
        self.held_bytes += stream.heap_bytes();
        self.streams[socket.index()] = Some(stream);
    }

    /// Removes the stream of a socket, if it has a filter.
    pub(super) fn remove(&mut self, socket: Socket) {
        self.held_bytes -= self.held_bytes_of(socket);
        if let Some(place) = self.streams.get_mut(socket.index()) {
            *place = None;
        }
    }

    /// Returns the stream of a socket to be changed, if it has a filter.
    #[inline]
    pub(super) fn get_mut(&mut self, socket: Socket) -> Option<StreamGuard<'_, F>> {
        let Self { streams, held_bytes } = self;
        let stream = streams.get_mut(socket.index())?.as_mut()?;
        *held_bytes -= stream.heap_bytes();
        Some(StreamGuard { stream, held_bytes })
    }
}

/// A stream that may be changed. What it holds then is accounted when this is dropped.
pub(super) struct StreamGuard<'a, F: ByteFilter> {
    stream: &'a mut Box<FilteredStream<F>>,
    held_bytes: &'a mut usize,
}

impl<F: ByteFilter> Deref for StreamGuard<'_, F> {
    type Target = FilteredStream<F>;

    #[inline]
    fn deref(&self) -> &FilteredStream<F> {
        self.stream
    }
}

impl<F: ByteFilter> DerefMut for StreamGuard<'_, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut FilteredStream<F> {
        self.stream
    }
}

impl<F: ByteFilter> Drop for StreamGuard<'_, F> {
    #[inline]
    fn drop(&mut self) {
        *self.held_bytes += self.stream.heap_bytes();
    }
}
