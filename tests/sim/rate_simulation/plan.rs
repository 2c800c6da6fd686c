//! What a seed decides: limit, shards, faults, and where the demand is.

use std::time::Duration;

use corelane::Options;
use corelane_base::random::Random;
use corelane_engine::ring::sim::{Fault, Faults};

use crate::harness::mesh::simulated_mesh;

/// Where clients send requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Demand {
    /// On one shard, twice what the limit allows.
    OneShard,
    /// On shards that change, with pauses.
    Moving,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct RatePlan {
    pub(crate) seed: u64,
    pub(crate) demand: Demand,
    pub(crate) shards: usize,
    /// Requests per second.
    pub(crate) limit: u64,
    pub(crate) burst: u64,
    pub(crate) faults: Faults,
    pub(crate) stall_chance: Option<usize>,
    pub(crate) options: Options,
}

impl RatePlan {
    pub(crate) fn draw(demand: Demand, seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x7261_7465);
        let shards = 2 + random.below(5);
        let limit = 200 + random.below(800);
        // From what the limit allows in 50 ms to what it allows in two seconds.
        let burst = (limit / 20).max(shards) + random.below(2 * limit);
        let (limit, burst) = (limit as u64, burst as u64);
        let mut faults = Faults::NONE;
        for fault in [Fault::FullMesh, Fault::ReorderedMessages, Fault::SpuriousWake] {
            if random.chance(1, 2) {
                faults = faults.with(fault);
            }
        }
        let mut options = Options::default();
        options.engine.mesh = simulated_mesh(faults, &mut random);
        options.engine.blocking_threads = 1;
        options.engine.ring_sizes.receive_buffers = 64;
        options.tcp.idle_timeout = Duration::from_mins(10);
        options.rate.rules = vec![format!("ping rate={limit}/s burst={burst} per=principal")];
        let stall_chance = random.chance(1, 2).then_some(200);
        Self { seed, demand, shards, limit, burst, faults, stall_chance, options }
    }
}
