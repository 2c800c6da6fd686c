//! A real shard over a ring in memory.

use std::error::Error;
use std::rc::Rc;

use corelane::engine::host::native::Native;
use corelane::engine::ring::{Patience, Ring};
use corelane::engine::shard::Shard;
use corelane::observe::label::Transport;
use corelane::server::{Handle, Inlet, Options, Server, ShardDriver};

use crate::memory::{LISTENER, MemoryRing};
use crate::question;

/// A shard whose peers all say the same.
pub(crate) struct Stage {
    shard: Shard<MemoryRing, ShardDriver>,
    _handle: Handle,
}

impl Stage {
    /// A shard whose peers, as many as `connections`, came through a door for `transport`.
    pub(crate) fn open(transport: Transport, connections: u32) -> Result<Self, Box<dyn Error>> {
        let catalog = question::catalog()?;
        let mut options = Options::default();
        options.engine.blocking_threads = 1;
        let (seeds, handle) = Server::new(catalog).options(options).seeds(1)?;
        let seed = seeds.into_iter().next().ok_or("no seed")?;
        let ring = MemoryRing::new(connections);
        let host = Rc::new(Native::new(ring.waker()));
        let inlet = Inlet::Listener { listener: LISTENER, transport };
        Ok(Self { shard: seed.build(ring, host, &[inlet])?, _handle: handle })
    }

    /// Has every peer say `script` in each of `times` turns; returns how many bytes they heard.
    pub(crate) fn say(&mut self, script: &[u8], times: u64) -> u64 {
        self.shard.ring_mut().say(script, times);
        let before = self.shard.ring().sent_bytes;
        // One turn more, for what was sent in the last one to come back.
        for _ in 0..=times {
            self.shard.turn(Patience::None);
        }
        self.shard.ring().sent_bytes - before
    }

    /// Has every peer say `script` once; returns what one of them heard.
    pub(crate) fn hear(&mut self, script: &[u8]) -> Vec<u8> {
        self.shard.ring_mut().heard = Some(Vec::new());
        self.say(script, 1);
        self.shard.ring_mut().heard.take().unwrap_or_default()
    }

    /// Has one peer ask the same `messages` times, `together` of them a turn, and be answered.
    pub(crate) fn ask(
        &mut self,
        request: &[u8],
        messages: u64,
        together: u64,
    ) -> Result<(), Box<dyn Error>> {
        let answer = self.say(request, 1);
        let sent = self.say(&request.repeat(usize::try_from(together)?), messages / together);
        if answer == 0 || sent != messages / together * together * answer {
            return Err(format!("{messages} requests got {sent} bytes of {answer} each").into());
        }
        Ok(())
    }
}
