//! The sockets whose header is incomplete, and those whose owner does not read yet what followed
//! it.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::id_map::{IdHasher, IdMap};
use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::ring::{Completion, Listener, Operation, ReceiveBuffer, Ring, Socket};
use corelane_transport::proxy_protocol::{ProxyHeaderError, ProxyHeaderReader};

use super::HEADER_TIMEOUT;
use super::counters::{HeaderResult, ProxyCounters};
use crate::telemetry::event::Event;
use crate::telemetry::throttle::EventThrottle;

/// The listeners that expect headers, and their sockets.
#[derive(Debug)]
pub(super) struct ProxySockets {
    listeners: Vec<Listener>,
    trusted: TrustedProxies,
    counters: Arc<ProxyCounters>,
    pending: IdMap<Socket, PendingHeader>,
    /// Number of the last header that was begun, since sockets are used again.
    begun: u64,
    /// In order of the deadlines, since all have the same time. Some are complete.
    deadlines: VecDeque<(Instant, Socket, u64)>,
    /// What has arrived behind the header of sockets that the owner does not read yet.
    unread: IdMap<Socket, Vec<Completion>>,
    /// Of these, those that the owner reads from now on.
    resumed: Vec<Socket>,
    /// Sockets that are closed here; the owner does not know them.
    refused: HashSet<Socket, BuildHasherDefault<IdHasher>>,
    events: EventThrottle,
}

/// A connection whose header is incomplete.
#[derive(Debug)]
struct PendingHeader {
    number: u64,
    listener: Listener,
    /// The address of the proxy.
    proxy: Option<SocketAddr>,
    reader: ProxyHeaderReader,
}

impl ProxySockets {
    pub(super) fn new(trusted: TrustedProxies, counters: Arc<ProxyCounters>) -> Self {
        Self {
            listeners: Vec::new(),
            trusted,
            counters,
            pending: IdMap::default(),
            begun: 0,
            deadlines: VecDeque::new(),
            unread: IdMap::default(),
            resumed: Vec::new(),
            refused: HashSet::default(),
            events: EventThrottle::default(),
        }
    }

    /// Expects headers on the connections that `listener` accepts.
    pub(super) fn add_listener(&mut self, listener: Listener) {
        self.listeners.push(listener);
    }

    /// Returns when the next reap is due, at `now` if something waits for it.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if !self.resumed.is_empty() {
            return Some(now);
        }
        self.deadlines.front().map(|(due, ..)| *due)
    }

    /// Submits an operation of the owner. A socket that it reads is read already.
    #[inline]
    pub(super) fn submit<R: Ring>(&mut self, ring: &mut R, operation: Operation) {
        match operation {
            Operation::Receive(socket) if self.unread.contains_key(&socket) => {
                self.resumed.push(socket);
            }
            Operation::Close(socket) | Operation::Reset(socket)
                if self.unread.contains_key(&socket) =>
            {
                for completion in self.unread.remove(&socket).unwrap_or_default() {
                    if let Completion::Received { buffer, .. } = completion {
                        ring.release(buffer);
                    }
                }
                ring.submit(operation);
            }
            Operation::CloseListener(listener) => {
                self.end_all(ring, listener);
                ring.submit(operation);
            }
            _ => ring.submit(operation),
        }
    }

    /// Appends what has arrived for the sockets that the owner reads now.
    pub(super) fn take_resumed(&mut self, completions: &mut Vec<Completion>) {
        for socket in self.resumed.drain(..) {
            completions.extend(self.unread.remove(&socket).unwrap_or_default());
        }
    }

    /// Passes a completion on, unless it belongs to a header.
    #[inline]
    pub(super) fn handle<R: Ring>(
        &mut self,
        ring: &mut R,
        completion: Completion,
        now: Instant,
        completions: &mut Vec<Completion>,
    ) {
        match completion {
            Completion::Accepted { listener, socket, peer }
                if self.listeners.contains(&listener) =>
            {
                self.begin(ring, listener, socket, peer, now);
            }
            completion
                if self.pending.is_empty() && self.unread.is_empty() && self.refused.is_empty() =>
            {
                completions.push(completion);
            }
            completion => self.handle_early(ring, completion, now, completions),
        }
    }

    /// Passes a completion on, unless it belongs to a header or its socket is not read yet.
    fn handle_early<R: Ring>(
        &mut self,
        ring: &mut R,
        completion: Completion,
        now: Instant,
        completions: &mut Vec<Completion>,
    ) {
        match completion {
            Completion::Received { socket, buffer } if self.pending.contains_key(&socket) => {
                self.read(ring, socket, buffer, now, completions);
            }
            Completion::EndOfStream { socket, .. } if self.pending.contains_key(&socket) => {
                self.refuse(ring, socket, HeaderResult::Closed, "it has no PROXY header", now);
            }
            Completion::Received { socket, .. } | Completion::EndOfStream { socket, .. }
                if self.unread.contains_key(&socket) =>
            {
                self.unread.entry(socket).or_default().push(completion);
            }
            Completion::Closed { socket } if self.refused.remove(&socket) => {}
            completion => completions.push(completion),
        }
    }

    /// Begins to read the header of a new connection, if its peer is a trusted proxy.
    fn begin<R: Ring>(
        &mut self,
        ring: &mut R,
        listener: Listener,
        socket: Socket,
        proxy: Option<SocketAddr>,
        now: Instant,
    ) {
        self.begun += 1;
        let reader = ProxyHeaderReader::default();
        let header = PendingHeader { number: self.begun, listener, proxy, reader };
        self.pending.insert(socket, header);
        if !self.trusted.has_peer(proxy) {
            let cause = "its address is not one of trusted_proxies";
            return self.refuse(ring, socket, HeaderResult::Untrusted, cause, now);
        }
        ring.submit(Operation::Receive(socket));
        self.deadlines.push_back((now.after(HEADER_TIMEOUT), socket, self.begun));
    }

    /// Reads a part of a header. The connection is passed on once that is complete.
    fn read<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        mut buffer: ReceiveBuffer,
        now: Instant,
        completions: &mut Vec<Completion>,
    ) {
        let Some(pending) = self.pending.get_mut(&socket) else { return ring.release(buffer) };
        let bytes = ring.bytes(&buffer);
        let length = buffer.len as usize;
        let header = match pending.reader.read(bytes.get(..length).unwrap_or_default()) {
            Ok(Some(header)) => header,
            Ok(None) => return ring.release(buffer),
            Err(error) => {
                ring.release(buffer);
                let result = match error {
                    ProxyHeaderError::Missing => HeaderResult::Missing,
                    ProxyHeaderError::Malformed | ProxyHeaderError::TooLong => {
                        HeaderResult::Invalid
                    }
                };
                return self.refuse(ring, socket, result, &error.to_string(), now);
            }
        };
        let (listener, peer) = (pending.listener, header.source.or(pending.proxy));
        let is_local = header.source.is_none();
        self.counters.count(if is_local { HeaderResult::Local } else { HeaderResult::Client });
        self.pending.remove(&socket);
        let mut unread = Vec::new();
        if header.bytes < length {
            bytes.copy_within(header.bytes..length, 0);
            buffer.len = u32::try_from(length - header.bytes).unwrap_or_default();
            unread.push(Completion::Received { socket, buffer });
        } else {
            ring.release(buffer);
        }
        self.unread.insert(socket, unread);
        completions.push(Completion::Accepted { listener, socket, peer });
    }

    /// Resets the connections whose header is not complete in time.
    pub(super) fn end_expired<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while let Some((_, socket, number)) = self.deadlines.pop_front_if(|(due, ..)| *due <= now) {
            if self.pending.get(&socket).is_some_and(|pending| pending.number == number) {
                let cause = "its PROXY header is not complete in time";
                self.refuse(ring, socket, HeaderResult::Timeout, cause, now);
            }
        }
    }

    /// Resets the connections of a listener that closes whose header is incomplete.
    fn end_all<R: Ring>(&mut self, ring: &mut R, listener: Listener) {
        let (refused, pending) = (&mut self.refused, &mut self.pending);
        for (socket, _) in pending.extract_if(|_, pending| pending.listener == listener) {
            refused.insert(socket);
            ring.submit(Operation::Reset(socket));
        }
    }

    /// Resets a connection whose header is incomplete, and logs why.
    #[cold]
    fn refuse<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: HeaderResult,
        cause: &str,
        now: Instant,
    ) {
        let peer = self.pending.remove(&socket).and_then(|pending| pending.proxy);
        self.counters.count(result);
        Event::ProxyHeaderRefused { peer, cause }.emit_within(&mut self.events, now);
        self.refused.insert(socket);
        ring.submit(Operation::Reset(socket));
    }
}
