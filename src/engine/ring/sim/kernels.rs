//! Sending and receiving of simulated sockets, and the completions of all rings.
//!
//! Invariants: bytes are received in order and only while the socket receives; bytes that find no
//! buffer stay in the window of their sender; each send completes exactly once.

use std::io;

use rustix::io::Errno;

use super::connection::{EndId, Owner, ReadSide, Segment, WriteSide};
use super::kernel::{Kernel, PendingCompletion, PendingSend, ReceiveState, SocketState};
use super::network::Network;
use super::scheduler::{Fault, Scheduler, SimEvent};
use crate::ring::{Completion, RingOptions, Socket};

/// The kernel state of all rings of a world.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    kernels: Vec<Kernel>,
}

impl Kernels {
    /// Adds a ring and returns its index.
    pub(super) fn add(&mut self, options: RingOptions) -> usize {
        self.kernels.push(Kernel::new(options));
        self.kernels.len() - 1
    }

    /// Returns the state of one ring.
    pub(super) fn get(&self, ring: usize) -> &Kernel {
        &self.kernels[ring]
    }

    /// Returns the state of one ring.
    pub(super) fn get_mut(&mut self, ring: usize) -> &mut Kernel {
        &mut self.kernels[ring]
    }

    /// Returns the states of all rings, including dropped ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// Queues a completion of a socket, possibly delayed.
    pub(super) fn complete(
        &mut self,
        scheduler: &mut Scheduler,
        ring: usize,
        socket: Socket,
        completion: PendingCompletion,
    ) {
        let mut at = scheduler.now();
        if scheduler.occurs(Fault::Delay, 1, 4) {
            at = at.after(scheduler.random_duration(2_000));
        }
        let order = scheduler.next_sequence();
        let due = self.kernels[ring].queue_completion(socket, at, order, completion);
        if due <= scheduler.now() {
            self.kernels[ring].mark_due(socket);
        } else {
            scheduler.schedule(due, SimEvent::CompletionDue { ring, socket });
        }
    }

    /// Queues a failure that belongs to no socket.
    pub(super) fn complete_failed(
        &mut self,
        scheduler: &mut Scheduler,
        ring: usize,
        completion: Completion,
    ) {
        let order = scheduler.next_sequence();
        self.kernels[ring].queue_failure(scheduler.now(), order, completion);
    }

    /// Retries both directions of a socket.
    pub(super) fn serve_socket(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
    ) {
        if let Some(sending) =
            self.socket_mut(ring, socket).and_then(|state| state.pending_send.as_mut())
        {
            sending.is_delayed = false;
        }
        self.receive_arrived(scheduler, network, ring, socket);
        self.continue_send(scheduler, network, ring, socket);
    }

    pub(super) fn start_receive(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
    ) {
        let state = self.kernels[ring].expect_open(socket, "receive");
        if state.receive_state == ReceiveState::Stopped {
            state.receive_state = ReceiveState::Receiving;
        }
        self.receive_arrived(scheduler, network, ring, socket);
    }

    /// Stops receiving; pending completions are still delivered.
    pub(super) fn stop_receive(&mut self, ring: usize, socket: Socket) {
        let kernel = &mut self.kernels[ring];
        let state = kernel.expect_open(socket, "pause");
        if state.receive_state != ReceiveState::AtEnd {
            state.receive_state = ReceiveState::Stopped;
        }
        kernel.remove_starved(socket);
    }

    pub(super) fn start_send(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
        buffer: Vec<u8>,
        from: usize,
    ) {
        let kernel = &mut self.kernels[ring];
        kernel.usage.sends_in_flight += 1;
        let state = kernel.expect_open(socket, "send");
        assert!(state.pending_send.is_none(), "{socket:?} has a send in flight already");
        assert!(from <= buffer.len(), "the offset of a send exceeds its buffer");
        state.pending_send =
            Some(PendingSend { buffer, offset: from, next: from, is_delayed: false });
        self.continue_send(scheduler, network, ring, socket);
    }

    /// Shuts down writing after the send in flight.
    pub(super) fn shutdown_write(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
    ) {
        self.kernels[ring].expect_open(socket, "finish").shutdown_pending = true;
        self.continue_send(scheduler, network, ring, socket);
    }

    /// Closes a socket: cancels the send in flight, discards other completions, and closes its end
    /// by `close_end`.
    pub(super) fn close(
        &mut self,
        scheduler: &mut Scheduler,
        ring: usize,
        socket: Socket,
        close_end: impl FnOnce(&mut Scheduler, EndId),
    ) {
        let kernel = &mut self.kernels[ring];
        let state = kernel.expect_open(socket, "close");
        state.is_closing = true;
        state.receive_state = ReceiveState::AtEnd;
        let end_id = state.end_id;
        let cancelled = state.complete_send(socket, Err(Errno::CANCELED.into()));
        kernel.discard_completions(socket);
        if let Some(sent) = cancelled {
            self.complete(scheduler, ring, socket, PendingCompletion::Other(sent));
        }
        close_end(scheduler, end_id);
        self.complete(
            scheduler,
            ring,
            socket,
            PendingCompletion::Other(Completion::Closed { socket }),
        );
    }

    /// Receives on starved sockets while buffers are free.
    pub(super) fn receive_starved(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
    ) {
        for _ in 0..self.kernels[ring].starved_count() {
            let Some(socket) = self.kernels[ring].take_starved() else { return };
            self.receive_arrived(scheduler, network, ring, socket);
        }
    }

    /// Moves received bytes into buffers, up to the socket's limit.
    fn receive_arrived(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
    ) {
        let Some(state) = self.socket_mut(ring, socket).filter(|state| state.is_receiving()) else {
            return;
        };
        let end_id = state.end_id;
        for _ in 0..self.kernels[ring].options.burst_buffers_max.max(1) {
            if network.end(end_id).received.is_empty() {
                return self.report_end_of_stream(scheduler, network, ring, socket, end_id);
            }
            let buffers = &mut self.kernels[ring].buffers;
            if !buffers.is_out_of_buffers() && scheduler.occurs(Fault::NoBuffers, 1, 60) {
                buffers.set_out_of_buffers(true);
                scheduler.schedule_within(5_000, SimEvent::RestoreBuffers { ring });
            }
            if !buffers.has_free() {
                return self.kernels[ring].queue_starved(socket);
            }
            self.fill_buffer(scheduler, network, ring, socket, end_id);
        }
        // Limit reached: others come first.
        scheduler.schedule_within(10, SimEvent::ServeSocket { ring, socket });
    }

    /// Fills one free buffer.
    fn fill_buffer(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
        end_id: EndId,
    ) {
        let window = self.kernels[ring].options.receive_buffer_bytes as usize;
        let length = network.end(end_id).received.len().min(window);
        let length = scheduler.partial_len(Fault::ShortRead, length);
        let bytes = network.end(end_id).take_received(length);
        let kernel = &mut self.kernels[ring];
        let Some(buffer) = kernel.take_buffer(length) else { return };
        kernel.usage.bytes_received += length as u64;
        self.complete(scheduler, ring, socket, PendingCompletion::Bytes { socket, buffer, bytes });
        self.notify_sender(scheduler, network, end_id);
    }

    /// Reports the end of stream or a reset, if there is one.
    fn report_end_of_stream(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
        end_id: EndId,
    ) {
        let end = network.end(end_id);
        let result = match end.read_side {
            ReadSide::AtEnd => Ok(()),
            ReadSide::Reset => Err(io::Error::from(Errno::CONNRESET)),
            ReadSide::Open => return,
        };
        if let Some(state) = self.socket_mut(ring, socket) {
            state.receive_state = ReceiveState::AtEnd;
        }
        self.complete(
            scheduler,
            ring,
            socket,
            PendingCompletion::Other(Completion::EndOfStream { socket, result }),
        );
    }

    /// Sends as much as the other end's window holds, and shuts down writing behind it.
    pub(super) fn continue_send(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
    ) {
        let Some(state) = self.socket_mut(ring, socket) else { return };
        let (end_id, is_finishing) = (state.end_id, state.shutdown_pending);
        if let Some(sending) = &state.pending_send {
            if sending.is_delayed {
                return;
            }
            let rest = sending.buffer.len() - sending.next;
            if network.end(end_id).is_reset() {
                return self.complete_send(scheduler, ring, socket, Err(Errno::CONNRESET.into()));
            }
            if network.end(end_id).write_side != WriteSide::Open {
                return self.complete_send(scheduler, ring, socket, Err(Errno::PIPE.into()));
            }
            if rest > 0 && !self.transmit_some(scheduler, network, ring, socket, end_id, rest) {
                return;
            }
            self.complete_send(scheduler, ring, socket, Ok(()));
        }
        if is_finishing && network.end(end_id).can_send() {
            network.end(end_id).write_side = WriteSide::ShutDown;
            network.transmit(scheduler, end_id.opposite(), Segment::Fin);
        }
    }

    /// Transmits part of the `rest` bytes; returns whether the send is complete.
    fn transmit_some(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
        socket: Socket,
        end_id: EndId,
        rest: usize,
    ) -> bool {
        let window = network.end(end_id.opposite()).window_left();
        let length = scheduler.partial_len(Fault::PartialSend, rest.min(window));
        if length == 0 {
            return false;
        }
        let is_cut_short = length < rest && scheduler.occurs(Fault::ShortSend, 1, 4);
        let Some(sending) =
            self.socket_mut(ring, socket).and_then(|state| state.pending_send.as_mut())
        else {
            return false;
        };
        let bytes = sending.buffer[sending.next..sending.next + length].to_vec();
        sending.next += length;
        let is_resting = length < rest && length < window;
        sending.is_delayed = is_resting;
        self.kernels[ring].usage.bytes_sent += length as u64;
        network.transmit(scheduler, end_id.opposite(), Segment::Bytes(bytes));
        if is_resting && !is_cut_short {
            scheduler.schedule_within(500, SimEvent::ServeSocket { ring, socket });
        }
        length == rest || is_cut_short
    }

    /// Completes the send in flight.
    fn complete_send(
        &mut self,
        scheduler: &mut Scheduler,
        ring: usize,
        socket: Socket,
        result: io::Result<()>,
    ) {
        let Some(state) = self.socket_mut(ring, socket) else { return };
        let Some(sending) = &state.pending_send else { return };
        let result = result.map(|()| sending.next - sending.offset);
        if let Some(sent) = state.complete_send(socket, result) {
            self.complete(scheduler, ring, socket, PendingCompletion::Other(sent));
        }
    }

    /// Lets the sender to an end continue, now that its window has space.
    pub(super) fn notify_sender(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        end_id: EndId,
    ) {
        match network.end(end_id.opposite()).owner {
            Owner::Ring { ring, socket } => self.continue_send(scheduler, network, ring, socket),
            Owner::Client(_) => network.send_client_data(scheduler, end_id.opposite()),
            Owner::None => {}
        }
    }

    /// Makes the buffers of a ring available again after a fault.
    pub(super) fn restore_buffers(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
    ) {
        self.kernels[ring].buffers.set_out_of_buffers(false);
        self.receive_starved(scheduler, network, ring);
    }

    fn socket_mut(&mut self, ring: usize, socket: Socket) -> Option<&mut SocketState> {
        self.kernels[ring].find(socket)
    }
}
