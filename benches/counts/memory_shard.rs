//! A real shard on a ring in memory.

use std::error::Error;
use std::rc::Rc;

use corelane::internal::{Shard, ShardInput};
use corelane::{Handle, Options, Server, Transport};
use corelane_engine::executor::native::NativeExecutor;
use corelane_engine::ring::{ParkTimeout, Ring};
use corelane_engine::shard_loop::ShardLoop;

use crate::memory::{LISTENER, MemoryRing};
use crate::request_kind;

/// A shard whose peers all send the same bytes.
pub(crate) struct MemoryShard {
    shard: ShardLoop<MemoryRing, Shard>,
    _handle: Handle,
}

impl MemoryShard {
    /// Creates a shard with `connections` peers on a listener for `transport`.
    pub(crate) fn open(transport: Transport, connections: u32) -> Result<Self, Box<dyn Error>> {
        Self::with_options(transport, connections, Options::default())
    }

    /// The same with these options.
    pub(crate) fn with_options(
        transport: Transport,
        connections: u32,
        mut options: Options,
    ) -> Result<Self, Box<dyn Error>> {
        let catalog = request_kind::catalog()?;
        options.engine.blocking_threads = 1;
        let (builders, handle) = Server::builder(catalog).options(options).shard_builders(1)?;
        let builder = builders.into_iter().next().ok_or("no shard builder")?;
        let ring = MemoryRing::new(connections);
        let executor = Rc::new(NativeExecutor::new(ring.waker()));
        let input = ShardInput::Listener { listener: LISTENER, transport };
        let mut shard = builder.build(ring, executor, &[input])?;
        // A turn accepts at least 32 connections.
        for _ in 0..=connections / 32 {
            shard.run_turn(ParkTimeout::Zero);
        }
        Ok(Self { shard, _handle: handle })
    }

    /// Makes every peer send `script` in each of `times` turns; returns the bytes sent to them.
    pub(crate) fn send(&mut self, script: &[u8], times: u64) -> u64 {
        self.shard.ring_mut().set_script(script, times);
        let before = self.shard.ring().sent_bytes;
        // Two more turns, for what is left of many requests and for the completions of the sends.
        for _ in 0..times + 2 {
            self.shard.run_turn(ParkTimeout::Zero);
        }
        self.shard.ring().sent_bytes - before
    }

    /// Makes every peer send `script` once; returns the output of one of them.
    pub(crate) fn send_and_receive(&mut self, script: &[u8]) -> Vec<u8> {
        self.shard.ring_mut().last_output = Some(Vec::new());
        self.send(script, 1);
        self.shard.ring_mut().last_output.take().unwrap_or_default()
    }

    /// Sends `request` `messages` times, `per_turn` of them a turn, and checks the response bytes.
    pub(crate) fn repeat_request(
        &mut self,
        request: &[u8],
        messages: u64,
        per_turn: u64,
    ) -> Result<(), Box<dyn Error>> {
        let response_bytes = self.send(request, 1);
        let sent = self.send(&request.repeat(usize::try_from(per_turn)?), messages / per_turn);
        if response_bytes == 0 || sent != messages / per_turn * per_turn * response_bytes {
            return Err(format!(
                "{messages} requests got {sent} bytes, {response_bytes} expected for each"
            )
            .into());
        }
        Ok(())
    }
}
