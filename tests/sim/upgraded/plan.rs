//! What a seed draws for a run over WebSocket: the run over lines with bounds of its own.

use std::time::Duration;

use corelane::base::random::Random;
use corelane::engine::ring::sim::Faults;
use corelane::protocol::revision::Revision;
use corelane::server::Options;
use corelane::server::options::Utf8CloseCode;

use crate::meeting::deed::Deed;
use crate::meeting::gathering::{self, Plan};

/// The run of this seed.
pub(crate) fn draw(seed: u64) -> Plan {
    let mut random = Random::seeded(seed ^ 0x0046_5241_4D45 << 8);
    let random = &mut random;
    let mut plan = Plan::draw(random.next_u64());
    (plan.seed, plan.is_framed) = (seed, true);
    let is_deaf = |deeds: &[Deed]| deeds.contains(&Deed::StopReading);
    let limits = &mut plan.options.limits;
    limits.outgoing_bytes_max = Options::default().limits.outgoing_bytes_max;
    limits.message_bytes_max = MESSAGE_BYTES_MAX;
    let websocket = &mut plan.options.websocket;
    websocket.frame_buffer_bytes_max = 256 << random.below(10);
    websocket.drain_max = Duration::from_millis([40, 5_000][random.below(2)]);
    websocket.fragment_max = Duration::from_secs(5);
    (websocket.ping, websocket.idle_max) = match random.below(4) {
        0 => (Duration::from_millis(30), Duration::from_millis(400)),
        1 => (Duration::from_millis(10), Duration::from_mins(5)),
        2 => (Duration::from_millis(60), Duration::from_mins(5)),
        _ => (Duration::from_secs(30), Duration::from_mins(5)),
    };
    websocket.strict_delimiter = random.chance(1, 4);
    if random.chance(1, 4) {
        websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
    }
    for (_, _, deeds) in &mut plan.visits {
        match random.below(8) {
            // Whoever says goodbye at once does so right behind its head.
            0 => deeds.clear(),
            // And some while what they have just asked is on its way.
            1 if !is_deaf(deeds) => {
                deeds.pop();
                deeds.extend([Deed::Greet, Deed::Touch, Deed::Close]);
            }
            _ => {}
        }
    }
    plan
}

/// Clients that come one after the other to two shards, and nothing that goes wrong by itself.
pub(crate) fn play(seed: u64, visits: &[(Revision, &[Deed])]) -> Plan {
    let mut options = gathering::options();
    options.limits.message_bytes_max = MESSAGE_BYTES_MAX;
    options.websocket.fragment_max = Duration::from_secs(1);
    let visits = visits.iter().enumerate().map(|(index, (revision, deeds))| {
        (Duration::from_millis(20 * index as u64), *revision, deeds.to_vec())
    });
    Plan {
        seed,
        shards: 2,
        options,
        faults: Faults::NONE,
        is_framed: true,
        breaks: None,
        visits: visits.collect(),
        drain: None,
        naps: None,
    }
}

/// More than any message has but those that are to be too long.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
