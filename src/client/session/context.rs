//! What sessions share, and what each of their methods is passed.

use super::event::SessionEvent;
use super::options::SessionOptions;
use super::request::write_initialize;
use crate::base::time::Instant;
use crate::protocol::eras::ClientCapabilities;
use crate::protocol::revision::Revision;

/// What the sessions of a client have in common.
#[derive(Debug)]
pub struct SessionConfig {
    options: SessionOptions,
    capabilities: ClientCapabilities,
    /// Members of `_meta` of a modern request, encoded.
    modern_meta: Box<[u8]>,
}

impl SessionConfig {
    /// Creates the configuration of clients that declare `capabilities`.
    pub fn new(options: SessionOptions, capabilities: ClientCapabilities) -> Self {
        let modern_meta = options.modern_meta(capabilities);
        Self { options, capabilities, modern_meta }
    }

    /// Returns the options.
    pub const fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Returns the members of `_meta` that every modern request carries, without braces.
    pub(super) fn modern_meta(&self) -> &[u8] {
        &self.modern_meta
    }

    /// Appends the request `initialize` for `revision`.
    pub(super) fn write_initialize(&self, out: &mut Vec<u8>, id: u64, revision: Revision) {
        let (mut capabilities, mut client_info) = (Vec::new(), Vec::new());
        self.capabilities.write_required(&mut capabilities);
        self.options.client_info.write(&mut client_info, revision);
        write_initialize(out, id, revision, &capabilities, &client_info);
    }
}

/// Where the output of a session goes, and the time.
#[derive(Debug)]
pub struct SessionContext<'a, T, S> {
    /// The time of the turn.
    pub now: Instant,
    /// Receives the messages to send.
    pub sink: &'a mut S,
    /// Receives the events, in order.
    pub events: &'a mut Vec<SessionEvent<T>>,
    /// Memory that is reused for each message.
    pub buffers: &'a mut SessionBuffers,
}

/// Memory for the message being written and a copy of the one being read, shared by sessions.
#[derive(Debug, Default)]
pub struct SessionBuffers {
    pub(super) encoded: Vec<u8>,
    pub(super) received: Vec<u8>,
}

impl<T, S> SessionContext<'_, T, S> {
    /// Returns the same context with another sink.
    pub(in crate::client) fn with_sink<'s, N>(
        &'s mut self,
        sink: &'s mut N,
    ) -> SessionContext<'s, T, N> {
        SessionContext { now: self.now, sink, events: self.events, buffers: self.buffers }
    }
}
