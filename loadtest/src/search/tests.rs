//! Tests of the search with injected outcomes.

use corelane_base::random::Random;

use super::*;

/// Searches a server for which `passes_at` decides whether a rate passes; it is given the number of
/// the run, from 1, and the rate.
fn search(
    bounds: SearchOptions,
    mut passes_at: impl FnMut(u32, f64) -> bool,
) -> (SearchOutcome, Vec<f64>) {
    let mut search = Search::new(bounds);
    let mut rates = Vec::new();
    while let Some(rate) = search.next_rate() {
        rates.push(rate);
        search.record_run(passes_at(search.runs() + 1, rate));
    }
    (search.outcome().unwrap(), rates)
}

fn bounds() -> SearchOptions {
    SearchOptions { rate_first: 1_000.0, rate_min: 10.0, rate_max: 1e6, ..Default::default() }
}

fn found(answer: SearchOutcome) -> f64 {
    let SearchOutcome::Found { rate, .. } = answer else { panic!("{answer:?}") };
    rate
}

#[test]
fn search_finds_capacity_within_resolution() {
    for capacity in [11.0, 370.0, 1_000.0, 43_210.0, 999_000.0] {
        let (answer, rates) = search(bounds(), |_, rate| rate <= capacity);
        let SearchOutcome::Found { rate, passes, failures, is_ceiling } = answer else {
            panic!("{capacity}: {answer:?}")
        };
        assert!(rate <= capacity && rate * 1.025 >= capacity, "{capacity}: {rate}");
        assert_eq!((passes, failures, is_ceiling), (3, 0, false));
        assert!(rates.len() <= 45, "{capacity}: {rates:?}");
    }
}

#[test]
fn search_starts_at_rate_of_one_connection() {
    let options = SearchOptions::new(&SweepPlan::default(), 20.0);
    assert!((options.rate_first - 20.0).abs() < f64::EPSILON);
    assert!((options.rate_min - 1.0).abs() < f64::EPSILON);
    let (_, rates) = search(options, |_, rate| rate <= 100.0);
    assert_eq!(rates[..3], [20.0, 40.0, 80.0]);
    let slow = SearchOptions::new(&SweepPlan::default(), 0.4);
    assert!((slow.rate_min - 0.05).abs() < 1e-9);
    let named = SweepPlan { rate_first: Some(7.0), rate_min: Some(2.0), ..SweepPlan::default() };
    let named = SearchOptions::new(&named, 20.0);
    assert_eq!((named.rate_first.to_bits(), named.rate_min.to_bits()), bits(7.0, 2.0));
}

const fn bits(one: f64, other: f64) -> (u64, u64) {
    (one.to_bits(), other.to_bits())
}

#[test]
fn one_disturbance_leaves_the_result() {
    let (undisturbed, rates) = search(bounds(), |_, rate| rate <= 43_210.0);
    for pause in 1..=rates.len() {
        let pause = u32::try_from(pause).unwrap();
        let (answer, _) = search(bounds(), |run, rate| rate <= 43_210.0 && run != pause);
        assert_eq!(answer.rate(), undisturbed.rate(), "run {pause}");
    }
}

#[test]
fn two_disturbances_leave_the_result() {
    let (undisturbed, rates) = search(bounds(), |_, rate| rate <= 43_210.0);
    for pause in 1..=rates.len() {
        let pause = u32::try_from(pause).unwrap();
        let (answer, _) =
            search(bounds(), |run, rate| rate <= 43_210.0 && run != pause && run != pause + 1);
        assert_eq!(answer.rate(), undisturbed.rate(), "runs {pause} and the next");
    }
}

#[test]
fn rate_failed_by_disturbance_is_tested_again() {
    // Four disturbed runs in a row let 8,000 fail; the capacity is 43,210.
    let (answer, rates) = search(bounds(), |run, rate| rate <= 43_210.0 && !(4..=7).contains(&run));
    assert_eq!(rates[3..7], [8_000.0; 4]);
    let rate = found(answer);
    assert!(rate <= 43_210.0 && rate * 1.025 >= 43_210.0, "{rate} after {rates:?}");
}

#[test]
fn search_reports_ceiling_at_highest_rate() {
    let (answer, rates) = search(bounds(), |_, _| true);
    let ceiling = SearchOutcome::Found { rate: 1e6, passes: 3, failures: 0, is_ceiling: true };
    assert_eq!(answer, ceiling);
    assert!(rates.iter().all(|rate| *rate <= 1e6));
}

#[test]
fn search_reports_too_slow_when_all_fail() {
    let (answer, rates) = search(bounds(), |_, _| false);
    assert_eq!(answer, SearchOutcome::TooSlow);
    assert_eq!(rates.last(), Some(&10.0));
}

#[test]
fn lucky_pass_is_revoked_by_confirmation() {
    let (answer, rates) = search(bounds(), |run, rate| {
        // The first run passes by luck; the capacity is 900.
        run == 1 || rate <= 900.0
    });
    let rate = found(answer);
    assert!(rate <= 900.0 && rate * 1.025 >= 900.0, "{rate} after {rates:?}");
}

#[test]
fn search_runs_are_limited_for_random_outcomes() {
    let mut random = Random::seeded(11);
    for _ in 0..1_000 {
        let (answer, rates) = search(bounds(), |_, _| random.chance(1, 2));
        assert!(rates.len() <= 60);
        if let SearchOutcome::Found { passes, failures, .. } = answer {
            assert!(passes >= 3 && failures < 3 * (passes + 1));
        }
    }
}

#[test]
fn search_at_runs_max_returns_unconfirmed_rate() {
    let bounds = SearchOptions { runs_max: 5, ..bounds() };
    let (answer, _) = search(bounds, |_, rate| rate <= 9_000.0);
    assert_eq!(answer, SearchOutcome::Unconfirmed { rate: 8_000.0, passes: 1 });
}

#[test]
fn invalid_search_options_error_names_valid_value() {
    assert_eq!(SearchOptions::default().check(), Ok(()));
    let wrong = |bounds: SearchOptions| bounds.check().unwrap_err().to_string();
    assert!(wrong(SearchOptions { rate_min: 0.0, ..bounds() }).contains("above 0"));
    assert!(wrong(SearchOptions { rate_min: 2e6, ..bounds() }).contains("lowest first"));
    assert!(wrong(SearchOptions { rate_first: f64::NAN, ..bounds() }).contains("above 0"));
    assert!(wrong(SearchOptions { resolution: 0.0, ..bounds() }).contains("0.05"));
    assert!(wrong(SearchOptions { confirmations: 0, ..bounds() }).contains("at least one"));
    assert!(wrong(SearchOptions { runs_max: 2, ..bounds() }).contains("a run for each"));
}
