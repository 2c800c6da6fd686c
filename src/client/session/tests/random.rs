//! Sessions in which everything happens in a random order.

use crate::session::fuzz::{CallCounts, run_session};
use corelane_base::random::Random;

const SEEDS: u64 = 2_000;
/// Bytes of the steps of a session.
const STEPS_BYTES: usize = 400;

#[test]
fn random_sessions_end_every_call_once() {
    let mut all = CallCounts::default();
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        let mut random = Random::seeded(seed);
        // Small numbers name requests and calls that exist.
        let mut byte = || u8::try_from(random.below(20)).unwrap();
        let mut steps: Vec<u8> = (0..STEPS_BYTES).map(|_| byte()).collect();
        if !seed.is_multiple_of(4) {
            // Another order of steps seldom completes the handshake.
            let response = if steps[0] % 3 == 2 { 2 } else { 1 };
            steps[3..6].copy_from_slice(&[5, 0, response]);
        }
        let counts = run_session(&steps);
        all.completed += counts.completed;
        all.failed += counts.failed;
        all.cancelled += counts.cancelled;
    }
    let least = usize::try_from(SEEDS).unwrap();
    assert!(all.completed > least && all.failed > least && all.cancelled > least, "{all:?}");
}
