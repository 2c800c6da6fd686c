//! Which seeds are run, and what is said of one that fails.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::meeting::gathering::{self, Plan};
use crate::mesh::courier;
use crate::talk::scenario::{ALWAYS, Chapter, Scenario};
use crate::talk::stage::{self, Report};
use crate::tally::Tally;

/// Seeds that found something once, with their chapter: they are always run. A change of what a
/// seed draws makes them seeds like any others; what they found has a scene or a chapter that still
/// looks for it.
const REGRESSIONS: [(Chapter, u64); 6] = [
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
    // Time jumped past the idle time while an answer was half sent, which was taken for unfair.
    (Chapter::Jumped, 223),
];

/// Runs every seed of a chapter, or those that the environment names. All of them together must
/// have reached what the chapter is for.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey(chapter: Chapter, seeds: Range<u64>) {
    if let Some(named) = named_seeds() {
        let is_one = named.end - named.start == 1;
        for seed in named {
            let report = run(chapter, seed);
            if is_one {
                eprintln!("seed {seed} of {chapter:?}: {report:?}");
            }
        }
        return;
    }
    let failed_once = REGRESSIONS.iter().filter(|row| row.0 == chapter).map(|row| row.1);
    let tallies = failed_once.chain(seeds).map(|seed| run(chapter, seed).tally);
    let tally = tallies.fold(Tally::default(), Tally::plus);
    for name in ALWAYS.iter().chain(chapter.reaches()) {
        assert!(tally.count(name) > 0, "{chapter:?} has never reached {name}:\n{tally}");
    }
}

/// What the runs of the mesh must reach, all of them together.
const MESH_REACHES: [&str; 7] = [
    "letters",
    "letters_refused",
    "lanes_full",
    "letters_postponed",
    "letters_undeliverable",
    "letters_overtaken",
    "shards_woken",
];

/// What is run over many seeds.
pub(crate) struct Survey {
    /// What the runs are of, behind "seed 7".
    pub(crate) about: &'static str,
    /// What picks the test that runs them.
    pub(crate) test: &'static str,
    /// Seeds that found something once.
    pub(crate) failed: &'static [u64],
    /// What the runs must reach together.
    pub(crate) reaches: &'static [&'static str],
}

impl Survey {
    /// Runs every seed, or those that the environment names.
    ///
    /// # Panics
    ///
    /// At the first seed that fails, or where something was never reached.
    pub(crate) fn run(&self, seeds: Range<u64>, run: impl Fn(u64) -> Result<Tally, String>) {
        let Self { about, test, failed, reaches } = *self;
        let named = named_seeds();
        let is_survey = named.is_none();
        let failed_once = failed.iter().copied().filter(|_| is_survey);
        let mut tally = Tally::default();
        for seed in failed_once.chain(named.unwrap_or(seeds)) {
            let replay = format!(
                "seed {seed} {about} failed; \
                 again: CORELANE_SEED={seed} cargo test --test sim {test}"
            );
            tally = tally.plus(replayable(&replay, || run(seed)));
        }
        for name in reaches.iter().filter(|_| is_survey) {
            assert!(tally.count(name) > 0, "no seed {about} has reached {name}:\n{tally}");
        }
    }
}

/// Runs something; where it fails, in whatever way, it is said how to run it again.
fn replayable<T>(replay: &str, run: impl FnOnce() -> Result<T, String>) -> T {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(report)) => report,
        Ok(Err(reason)) => panic!("{replay}\n{reason}"),
        Err(panic) => {
            eprintln!("{replay}");
            resume_unwind(panic)
        }
    }
}

/// Runs every seed of the mesh, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey_mesh(seeds: Range<u64>) {
    let survey = Survey {
        about: "of the mesh",
        test: "letters_between",
        failed: &[],
        reaches: &MESH_REACHES,
    };
    survey.run(seeds, courier::run);
}

/// Seeds of gatherings that found something once.
const GATHERINGS_FAILED: [u64; 1] = [
    // Two streams of one connection listened to a task whose frame filled what may wait for it: the
    // first was told again and again, the second never.
    610,
];

/// What the runs of clients that are asked, keep tasks and listen must reach together.
const GATHERINGS_REACH: [&str; 23] = [
    "answers",
    "asked",
    "crowded",
    "editions",
    "editions_held_up",
    "frames",
    "letters_forgone",
    "notices",
    "pauses",
    "replies",
    "rounds",
    "silenced",
    "starved",
    "states_brought_again",
    "states_late",
    "states_refused",
    "states_taken",
    "streams",
    "tasks_begun",
    "tasks_ended",
    "tasks_expired",
    "tasks_visited",
    "vanished",
];

/// Runs every seed of clients that are asked, keep tasks and listen, or those that the environment
/// names.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey_gatherings(seeds: Range<u64>) {
    let survey = Survey {
        about: "of the gatherings",
        test: "vanish_in_the_middle",
        failed: &GATHERINGS_FAILED,
        reaches: &GATHERINGS_REACH,
    };
    survey.run(seeds, |seed| gathering::tally(&Plan::draw(seed)));
}

fn run(chapter: Chapter, seed: u64) -> Report {
    let replay = format!(
        "seed {seed} of {chapter:?} failed; again: CORELANE_SEED={seed} cargo test --test sim {}",
        chapter.word()
    );
    let scenario = Scenario::draw(chapter, seed);
    replayable(&replay, || {
        stage::run(&scenario).map_err(|reason| format!("{reason}\n{:?}", scenario.faults))
    })
}

/// The seeds that the environment asks for: one, or a range as `100..5000`.
#[expect(clippy::disallowed_methods, reason = "a test that is run again by hand")]
pub(crate) fn named_seeds() -> Option<Range<u64>> {
    let named = std::env::var("CORELANE_SEED").ok()?;
    let number = |text: &str| text.parse().expect("CORELANE_SEED is a number, or two as in 1..9");
    Some(match named.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&named)..number(&named) + 1,
    })
}
