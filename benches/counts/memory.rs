//! A ring without a kernel: what arrives was written before, what is sent is counted and given
//! back. It shows what a turn of the shard itself costs.

use std::io;

use corelane::base::time::Moment;
use corelane::engine::buffer::PADDING;
use corelane::engine::ring::{
    Completion, Lease, Listener, Operation, Patience, Registered, Ring, Socket, Source, Waker,
};

/// The only listener there is.
pub(crate) const LISTENER: Listener = Listener(0);
/// Time between two turns; any would do.
const TURN_NANOSECONDS: u64 = 10_000;

/// Connections whose peers all say the same thing again and again.
pub(crate) struct MemoryRing {
    connections: u32,
    script: Vec<u8>,
    buffer: Vec<u8>,
    ready: Vec<Completion>,
    /// How often the script is still to be said.
    left: u64,
    now: u64,
    /// Bytes that went to the peer.
    pub(crate) sent_bytes: u64,
    /// What the peer heard last, where somebody wants to know: keeping it costs instructions.
    pub(crate) heard: Option<Vec<u8>>,
}

impl MemoryRing {
    /// A ring whose connections have just been made.
    pub(crate) fn new(connections: u32) -> Self {
        let accepted = |socket| Completion::Accepted { listener: LISTENER, socket, peer: None };
        Self {
            connections,
            script: Vec::new(),
            buffer: Vec::new(),
            ready: (0..connections).map(Socket).map(accepted).collect(),
            left: 0,
            now: 0,
            sent_bytes: 0,
            heard: None,
        }
    }

    /// Has each peer say `script` once a turn, in each of the next `times` turns.
    pub(crate) fn say(&mut self, script: &[u8], times: u64) {
        self.script = script.to_vec();
        self.buffer = vec![0; script.len() + PADDING];
        self.left = times;
    }
}

impl Ring for MemoryRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        if let Operation::Send { socket, buffer, from } = operation {
            let result = Ok(buffer.len() - from);
            self.sent_bytes += (buffer.len() - from) as u64;
            if let Some(heard) = &mut self.heard {
                buffer.clone_into(heard);
            }
            self.ready.push(Completion::Sent { socket, buffer, result });
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ready);
    }

    fn park(&mut self, _: Patience) -> Moment {
        if self.left > 0 {
            self.left -= 1;
            let length = u32::try_from(self.script.len()).unwrap_or(u32::MAX);
            let received = |socket| {
                let lease = Lease { buffer: 0, length };
                Completion::Received { socket, lease }
            };
            self.ready.extend((0..self.connections).map(Socket).map(received));
        }
        self.now += TURN_NANOSECONDS;
        Moment::from_nanoseconds(self.now)
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, _: &Lease) -> &mut [u8] {
        // As the kernel would have done it: what is carried may be changed.
        self.buffer[..self.script.len()].copy_from_slice(&self.script);
        &mut self.buffer
    }

    fn release(&mut self, _: Lease) {}

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
