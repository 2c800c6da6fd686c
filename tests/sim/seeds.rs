//! Which seeds are run, and the report of a seed that fails.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::fairness_simulation::plan::FairnessPlan;
use crate::feature_simulation::simulation::FeaturePlan;
use crate::line_simulation::scenario::{ALWAYS_REQUIRED, Scenario, ScenarioKind};
use crate::line_simulation::simulation::Report;
use crate::rate_simulation::plan::{Demand, RatePlan};
use crate::totals::Totals;

/// Seeds that once failed, with their scenario kind; always run. A change of what a seed draws
/// makes them ordinary seeds; what they found is also covered by a scenario test or a whole kind.
const REGRESSION_SEEDS: [(ScenarioKind, u64); 9] = [
    // A request with an unknown method was answered in the middle of the handshake.
    (ScenarioKind::Calm, 27),
    // A paused connection was read between the effects of one step: progress followed the
    // cancellation of its call.
    (ScenarioKind::Calm, 3558),
    // Unread received bytes kept a paused connection open until the drain timeout.
    (ScenarioKind::Drained, 37),
    // After the drain timeout the shard ran without parking.
    (ScenarioKind::Drained, 32),
    // A connection accepted after the drain timeout kept its shard running.
    (ScenarioKind::Drained, 3915),
    // A memory error in the middle of a line was reported only at the first-message timeout.
    (ScenarioKind::Tight, 8),
    // A memory error was sent to a connection that had been refused.
    (ScenarioKind::Tight, 10),
    // The checker expected that a connection without unread output is not closed for memory.
    (ScenarioKind::Tight, 475),
    // The clock jumped past the idle timeout while a response was half sent.
    (ScenarioKind::Jumped, 223),
];

/// Runs every seed of a scenario kind, or those that the environment names, and checks that all of
/// them together reached every required count.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_scenarios(chapter: ScenarioKind, seeds: Range<u64>) {
    if let Some(named) = seeds_from_environment() {
        let is_one = named.end - named.start == 1;
        for seed in named {
            let report = run_scenario(chapter, seed);
            if is_one {
                eprintln!("seed {seed} of {chapter:?}: {report:?}");
            }
        }
        return;
    }
    let failed_once = REGRESSION_SEEDS.iter().filter(|row| row.0 == chapter).map(|row| row.1);
    let tallies = failed_once.chain(seeds).map(|seed| run_scenario(chapter, seed).totals);
    let totals = tallies.fold(Totals::default(), Totals::plus);
    for name in ALWAYS_REQUIRED.iter().chain(chapter.required_counts()) {
        assert!(totals.count(name) > 0, "no seed of {chapter:?} counted any {name}:\n{totals}");
    }
}

/// Counts that the runs of the mesh must reach together.
const MESH_REQUIRED_COUNTS: [&str; 7] = [
    "shard_messages",
    "inboxes_full",
    "channels_full",
    "shard_messages_queued",
    "shard_messages_undeliverable",
    "shard_messages_reordered",
    "shards_woken",
];

/// A test over many seeds.
pub(crate) struct SeedRun {
    /// Subject of the runs, printed after "seed 7".
    pub(crate) subject: &'static str,
    /// Filter that selects the test.
    pub(crate) test_filter: &'static str,
    /// Seeds that once failed; always run.
    pub(crate) regression_seeds: &'static [u64],
    /// Counts that the runs must reach together.
    pub(crate) required_counts: &'static [&'static str],
}

impl SeedRun {
    /// Runs every seed, or those that the environment names.
    ///
    /// # Panics
    ///
    /// At the first seed that fails, or if a required count stays zero.
    pub(crate) fn run(&self, seeds: Range<u64>, run: impl Fn(u64) -> Result<Totals, String>) {
        let Self {
            subject: about,
            test_filter: test,
            regression_seeds: failed,
            required_counts: reaches,
        } = *self;
        let named = seeds_from_environment();
        let is_survey = named.is_none();
        let failed_once = failed.iter().copied().filter(|_| is_survey);
        let mut totals = Totals::default();
        for seed in failed_once.chain(named.unwrap_or(seeds)) {
            let replay = format!(
                "seed {seed} {about} failed; \
                 repeat it with: CORELANE_SEED={seed} cargo test --test sim {test}"
            );
            totals = totals.plus(run_with_replay_hint(&replay, || run(seed)));
        }
        if !is_survey {
            eprintln!("seeds {about}:\n{totals}");
        }
        for name in reaches.iter().filter(|_| is_survey) {
            assert!(totals.count(name) > 0, "no seed {about} counted any {name}:\n{totals}");
        }
    }
}

/// Runs `run`; prints the command that repeats it if it fails or panics.
pub(crate) fn run_with_replay_hint<T>(replay: &str, run: impl FnOnce() -> Result<T, String>) -> T {
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
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_mesh(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "of the mesh",
        test_filter: "mesh_messages",
        regression_seeds: &[],
        required_counts: &MESH_REQUIRED_COUNTS,
    };
    survey.run(seeds, crate::mesh_simulation::simulation::run);
}

/// Runs every seed of the simulation of rate limits, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_rates(demand: Demand, seeds: Range<u64>) {
    let test_filter = match demand {
        Demand::OneShard => "rate_limit_goes",
        Demand::Moving => "rate_limit_of",
    };
    let survey = SeedRun {
        subject: "of the rate limit",
        test_filter,
        regression_seeds: &[],
        required_counts: &["responses", "rate_limit_errors"],
    };
    survey
        .run(seeds, |seed| crate::rate_simulation::simulation::run(&RatePlan::draw(demand, seed)));
}

/// Counts that the simulations of hostile clients must reach together.
const FAIRNESS_REQUIRED_COUNTS: [&str; 4] =
    ["responses", "connections_evicted", "sessions_evicted", "tasks_refused"];

/// Runs every seed of the simulation of clients that take all places, or those that the environment
/// names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_fairness(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "of hostile clients",
        test_filter: "hostile_clients_leave",
        regression_seeds: &[815, 846, 8636],
        required_counts: &FAIRNESS_REQUIRED_COUNTS,
    };
    survey.run(seeds, |seed| {
        let plan = FairnessPlan::draw(seed);
        crate::fairness_simulation::simulation::run(&plan).map(|it| it.totals)
    });
}

/// Seeds of feature simulations that once failed.
const FEATURE_REGRESSION_SEEDS: [u64; 2] = [
    // Two streams of one connection subscribed to a task whose notification filled the outgoing
    // buffer: the first stream received it repeatedly, the second never.
    610, // The checker did not expect that a draining server refuses a connection.
    3331,
];

/// Counts that the feature simulations must reach together.
const FEATURE_REQUIRED_COUNTS: [&str; 23] = [
    "responses",
    "client_requests",
    "in_flight_limit_errors",
    "catalog_updates",
    "catalog_updates_delayed",
    "stream_notifications",
    "shard_messages_skipped",
    "session_notifications",
    "read_pauses",
    "client_responses",
    "input_required_results",
    "cancelled_calls_dropped",
    "receive_buffer_waits",
    "states_sent_again",
    "states_expired",
    "states_refused_as_used",
    "states_accepted",
    "streams_opened",
    "tasks_created",
    "tasks_finished",
    "tasks_expired",
    "tasks_accessed_elsewhere",
    "clients_vanished",
];

/// Runs every seed of the feature simulation (client requests, tasks, subscriptions), or those that
/// the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_feature_simulations(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "of the feature simulation",
        test_filter: "vanished_clients",
        regression_seeds: &FEATURE_REGRESSION_SEEDS,
        required_counts: &FEATURE_REQUIRED_COUNTS,
    };
    survey.run(seeds, |seed| {
        crate::feature_simulation::simulation::run_for_totals(&FeaturePlan::draw(seed))
    });
}

/// Runs every seed of the feature simulation with small memory limits, or those that the
/// environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_memory_limited_features(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "of the feature simulation with little memory",
        test_filter: "memory_account",
        // The checker did not expect that a task is evicted.
        regression_seeds: &[1362],
        required_counts: &["memory_charges_refused", "largest_holders_closed", "tasks_finished"],
    };
    survey.run(seeds, |seed| {
        crate::feature_simulation::simulation::run_for_totals(&FeaturePlan::draw_memory_limited(
            seed,
        ))
    });
}

fn run_scenario(chapter: ScenarioKind, seed: u64) -> Report {
    let replay = format!(
        "seed {seed} of {chapter:?} failed; \
         repeat it with: CORELANE_SEED={seed} cargo test --test sim {}",
        chapter.test_filter()
    );
    let scenario = Scenario::draw(chapter, seed);
    run_with_replay_hint(&replay, || {
        crate::line_simulation::simulation::run(&scenario)
            .map_err(|reason| format!("{reason}\n{:?}", scenario.faults))
    })
}

/// Returns the seeds that `CORELANE_SEED` names: one, or a range such as `100..5000`.
#[expect(clippy::disallowed_methods, reason = "a failing seed is repeated by hand")]
pub(crate) fn seeds_from_environment() -> Option<Range<u64>> {
    let named = std::env::var("CORELANE_SEED").ok()?;
    let number =
        |text: &str| text.parse().expect("CORELANE_SEED: a number or a range such as 1..9");
    Some(match named.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&named)..number(&named) + 1,
    })
}
