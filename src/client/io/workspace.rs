//! Memory that the servers of a thread share.

use super::call_slot::{CallToken, WakeList};
use super::commands::{NewCall, ParityToken};
use super::peer_settings::PeerId;
use super::tasks::InputTasks;
use crate::parity_session::{ParityContext, ParitySessionEvent};
use crate::session::{SessionBuffers, SessionContext, SessionEvent};
use corelane_base::time::Instant;
use corelane_protocol::json::{ParseLimits, Parser};

/// What all servers of a thread share: memory for messages, and the events of one operation.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) parser: Parser,
    pub(super) buffers: SessionBuffers,
    pub(super) events: Vec<SessionEvent<CallToken>>,
    pub(super) inputs: InputTasks,
    /// Calls to make.
    pub(super) calls: CallBatch,
    /// Callers of calls that have ended.
    pub(super) ended: WakeList,
    /// The bytes that an HTTP connection has received.
    pub(super) received: Vec<u8>,
    pub(super) parity: ParityWorkspace,
}

/// What the servers of the parity dialect share besides.
#[derive(Debug, Default)]
pub(super) struct ParityWorkspace {
    pub(super) events: Vec<ParitySessionEvent<ParityToken>>,
    /// Memory for a message.
    pub(super) text: Vec<u8>,
}

impl ParityWorkspace {
    pub(super) const fn context<'a, S>(
        &'a mut self,
        sink: &'a mut S,
        now: Instant,
    ) -> ParityContext<'a, ParityToken, S> {
        ParityContext { now, sink, events: &mut self.events, text: &mut self.text }
    }
}

impl Workspace {
    pub(super) fn new(inputs: InputTasks) -> Self {
        Self {
            parser: Parser::new(ParseLimits::default()),
            buffers: SessionBuffers::default(),
            events: Vec::new(),
            inputs,
            calls: CallBatch::default(),
            ended: WakeList::default(),
            received: Vec::new(),
            parity: ParityWorkspace::default(),
        }
    }

    pub(super) fn context<'a, S>(
        &'a mut self,
        sink: &'a mut S,
        now: Instant,
    ) -> SessionContext<'a, CallToken, S> {
        SessionContext { now, sink, events: &mut self.events, buffers: &mut self.buffers }
    }
}

/// Consecutive calls of one server.
#[derive(Debug, Default)]
pub(super) struct CallBatch {
    /// `None` if there are no calls.
    peer: Option<PeerId>,
    calls: Vec<NewCall>,
}

impl CallBatch {
    /// Returns whether a call of the server `peer` may be added.
    pub(super) fn accepts(&self, peer: PeerId) -> bool {
        self.peer.is_none_or(|it| it == peer)
    }

    /// Adds a call, which [`CallBatch::accepts`] allows.
    pub(super) fn push(&mut self, peer: PeerId, call: NewCall) {
        debug_assert!(self.accepts(peer), "calls of two servers in a batch");
        self.peer = Some(peer);
        self.calls.push(call);
    }

    /// Takes the calls, if there are any, and their server.
    pub(super) fn take(&mut self) -> Option<(PeerId, Vec<NewCall>)> {
        Some((self.peer.take()?, std::mem::take(&mut self.calls)))
    }

    /// Takes back the memory of calls that were made.
    pub(super) fn put_memory(&mut self, calls: Vec<NewCall>) {
        debug_assert!(calls.is_empty(), "a call was not made");
        if self.calls.capacity() == 0 {
            self.calls = calls;
        }
    }
}
