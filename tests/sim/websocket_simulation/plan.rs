//! What a seed draws for a run over WebSocket: a run over lines with limits of its own.

use std::time::Duration;

use corelane::Options;
use corelane::options::Utf8CloseCode;
use corelane_base::random::Random;
use corelane_engine::ring::sim::Faults;
use corelane_protocol::revision::Revision;

use crate::feature_simulation::action::Action;
use crate::feature_simulation::simulation::{self, FeaturePlan};

/// Draws the run of this seed.
pub(crate) fn draw(seed: u64) -> FeaturePlan {
    let mut random = Random::seeded(seed ^ 0x0046_5241_4D45 << 8);
    let random = &mut random;
    let mut plan = FeaturePlan::draw(random.next_u64());
    (plan.seed, plan.is_websocket) = (seed, true);
    let is_deaf = |actions: &[Action]| actions.contains(&Action::StopReading);
    let limits = &mut plan.options.limits;
    limits.outgoing_bytes_max = Options::default().limits.outgoing_bytes_max;
    limits.message_bytes_max = MESSAGE_BYTES_MAX;
    let websocket = &mut plan.options.websocket;
    websocket.outgoing_bytes_max = 256 << random.below(10);
    websocket.send_timeout = Duration::from_millis([40, 5_000][random.below(2)]);
    websocket.fragment_timeout = Duration::from_secs(5);
    (websocket.ping_interval, websocket.idle_timeout) = match random.below(4) {
        0 => (Duration::from_millis(30), Duration::from_millis(400)),
        1 => (Duration::from_millis(10), Duration::from_mins(5)),
        2 => (Duration::from_millis(60), Duration::from_mins(5)),
        _ => (Duration::from_secs(30), Duration::from_mins(5)),
    };
    websocket.strict_delimiter = random.chance(1, 4);
    if random.chance(1, 4) {
        websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
    }
    for (_, _, actions) in &mut plan.clients {
        match random.below(8) {
            // Some clients close immediately behind the upgrade request.
            0 => actions.clear(),
            // And some while a response is due.
            1 if !is_deaf(actions) => {
                actions.pop();
                actions.extend([Action::Ping, Action::TouchResource, Action::Close]);
            }
            _ => {}
        }
    }
    plan
}

/// Clients that connect to two shards one after the other, without faults.
pub(crate) fn plan_clients(seed: u64, visits: &[(Revision, &[Action])]) -> FeaturePlan {
    let mut options = simulation::options();
    options.limits.message_bytes_max = MESSAGE_BYTES_MAX;
    options.websocket.fragment_timeout = Duration::from_secs(1);
    let visits = visits.iter().enumerate().map(|(index, (revision, actions))| {
        (Duration::from_millis(20 * index as u64), *revision, actions.to_vec())
    });
    FeaturePlan {
        seed,
        shards: 2,
        options,
        faults: Faults::NONE,
        is_websocket: true,
        frame_fault: None,
        clients: visits.collect(),
        drain_at: None,
        stall_chance: None,
    }
}

/// Larger than every valid message.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
