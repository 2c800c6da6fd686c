//! Which seeds are run, and what is said of one that fails.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::scenario::{ALWAYS, Chapter, Scenario};
use crate::stage::{self, Report};
use crate::tally::Tally;

/// Seeds that found something once, with their chapter: they are always run. A change of what a
/// seed draws makes them seeds like any others; what they found has a scene or a chapter that still
/// looks for it.
const REGRESSIONS: [(Chapter, u64); 5] = [
    // A method that nobody knows was answered in the middle of the handshake.
    (Chapter::Calm, 27),
    // Bytes that waited to be read held a paused connection open until the drain was cut.
    (Chapter::Drained, 37),
    // After the cut of a drain the shard turned without parking.
    (Chapter::Drained, 32),
    // A lack of memory that hit in the middle of a line was told when the lease was over.
    (Chapter::Tight, 8),
    // A lack of memory was told to a connection that had been refused.
    (Chapter::Tight, 10),
];

/// Runs every seed of a chapter, or the one that the environment names. All of them together must
/// have reached what the chapter is for.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey(chapter: Chapter, seeds: Range<u64>) {
    if let Some(seed) = named_seed() {
        let report = run(chapter, seed);
        eprintln!("seed {seed} of {chapter:?}: {report:?}");
        return;
    }
    let failed_once = REGRESSIONS.iter().filter(|row| row.0 == chapter).map(|row| row.1);
    let tallies = failed_once.chain(seeds).map(|seed| run(chapter, seed).tally);
    let tally = tallies.fold(Tally::default(), Tally::plus);
    for name in ALWAYS.iter().chain(chapter.reaches()) {
        assert!(tally.count(name) > 0, "{chapter:?} has never reached {name}:\n{tally}");
    }
}

fn run(chapter: Chapter, seed: u64) -> Report {
    let replay = format!(
        "seed {seed} of {chapter:?} failed; again: CORELANE_SEED={seed} cargo test --test sim {}",
        chapter.word()
    );
    let scenario = Scenario::draw(chapter, seed);
    match catch_unwind(AssertUnwindSafe(|| stage::run(&scenario))) {
        Ok(Ok(report)) => report,
        Ok(Err(reason)) => panic!("{replay}\n{reason}\n{:?}", scenario.faults),
        Err(panic) => {
            eprintln!("{replay}");
            resume_unwind(panic)
        }
    }
}

/// The seed that the environment asks for.
#[expect(clippy::disallowed_methods, reason = "a test that is run again by hand")]
fn named_seed() -> Option<u64> {
    let seed = std::env::var("CORELANE_SEED").ok()?;
    Some(seed.parse().expect("CORELANE_SEED is a number"))
}
