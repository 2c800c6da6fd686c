//! A real shard over a ring in memory, whose one peer asks several times a turn.

use std::rc::Rc;

use corelane::engine::host::native::Native;
use corelane::engine::ring::{Patience, Ring};
use corelane::observe::label::Transport;
use corelane::server::{Inlet, Options, Server};

use crate::frames;
use crate::memory::{LISTENER, MemoryRing};
use crate::over::Over;
use crate::question::{self, Question};
use crate::requests::{INITIALIZE, INITIALIZED};
use crate::road::Failure;

/// Asks `messages` questions in a session, `together` of them in a turn.
pub(crate) fn run(
    over: Over,
    question: Question,
    messages: u64,
    together: u64,
) -> Result<(), Failure> {
    let catalog = question::catalog()?;
    let mut options = Options::default();
    options.engine.blocking_threads = 1;
    let (seeds, _handle) = Server::new(catalog).options(options).seeds(1)?;
    let seed = seeds.into_iter().next().ok_or("no seed")?;
    let ring = MemoryRing::new();
    let host = Rc::new(Native::new(ring.waker()));
    let transport = match over {
        Over::Lines => Transport::Tcp,
        Over::Frames => Transport::Http,
    };
    let mut shard = seed.build(ring, host, &[Inlet::Listener { listener: LISTENER, transport }])?;
    let mut say = |script: &[u8], times: u64| {
        shard.ring_mut().say(script, times);
        let before = shard.ring().sent_bytes;
        // One turn more, for what was sent in the last one to come back.
        for _ in 0..=times {
            shard.turn(Patience::None);
        }
        shard.ring().sent_bytes - before
    };
    if over == Over::Frames {
        say(&frames::upgrade(([127, 0, 0, 1], 80).into()), 1);
    }
    let opening = [INITIALIZE, INITIALIZED].map(|line| over.send(line.as_bytes()));
    say(&opening.concat(), 1);
    let message = over.send(&question.line());
    let answer = say(&message, 1);
    let sent = say(&message.repeat(usize::try_from(together)?), messages / together);
    if answer == 0 || sent != messages / together * together * answer {
        return Err(format!("{messages} requests got {sent} bytes of {answer} each").into());
    }
    Ok(())
}
