//! A ring without a kernel: input is predefined, output is counted and its buffer returned, to
//! measure the cost of a shard turn alone.

use std::io;

use corelane_base::time::Instant;
use corelane_engine::buffer::PADDING;
use corelane_engine::ring::{
    Completion, Listener, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source,
    Waker,
};

/// The only listener.
pub(crate) const LISTENER: Listener = Listener(0);
/// Simulated time between two turns; the value is arbitrary.
const TURN_NANOSECONDS: u64 = 10_000;

/// A ring whose peers all send the same bytes repeatedly.
pub(crate) struct MemoryRing {
    connections: u32,
    script: Vec<u8>,
    buffer: Vec<u8>,
    ready: Vec<Completion>,
    /// Remaining repetitions of `script`.
    remaining: u64,
    now: u64,
    /// Bytes sent to the peers.
    pub(crate) sent_bytes: u64,
    /// The last output, if recorded; recording costs instructions.
    pub(crate) last_output: Option<Vec<u8>>,
}

impl MemoryRing {
    /// Creates a ring with newly accepted connections.
    pub(crate) fn new(connections: u32) -> Self {
        let accepted = |socket| Completion::Accepted { listener: LISTENER, socket, peer: None };
        Self {
            connections,
            script: Vec::new(),
            buffer: Vec::new(),
            ready: (0..connections).map(Socket).map(accepted).collect(),
            remaining: 0,
            now: 0,
            sent_bytes: 0,
            last_output: None,
        }
    }

    /// Makes each peer send `script` once per turn for the next `times` turns.
    pub(crate) fn set_script(&mut self, script: &[u8], times: u64) {
        self.script = script.to_vec();
        self.buffer = vec![0; script.len() + PADDING];
        self.remaining = times;
    }
}

impl Ring for MemoryRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        if let Operation::Send { socket, buffer, offset: from } = operation {
            let result = Ok(buffer.len() - from);
            self.sent_bytes += (buffer.len() - from) as u64;
            if let Some(output) = &mut self.last_output {
                buffer.clone_into(output);
            }
            self.ready.push(Completion::Sent { socket, buffer, result });
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ready);
    }

    fn park(&mut self, _: ParkTimeout) -> Instant {
        if self.remaining > 0 {
            self.remaining -= 1;
            let length = u32::try_from(self.script.len()).unwrap_or(u32::MAX);
            let received = |socket| {
                let buffer = ReceiveBuffer { index: 0, len: length };
                Completion::Received { socket, buffer }
            };
            self.ready.extend((0..self.connections).map(Socket).map(received));
        }
        self.now += TURN_NANOSECONDS;
        Instant::from_nanoseconds(self.now)
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, _: &ReceiveBuffer) -> &mut [u8] {
        // The kernel would write a new buffer; the reader may modify it.
        self.buffer[..self.script.len()].copy_from_slice(&self.script);
        &mut self.buffer
    }

    fn release(&mut self, _: ReceiveBuffer) {}

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
