//! Thresholds of a plan compared with what was measured.

use super::{CallResult, MemoryGrowth, Percentiles, Totals};
use crate::figure::{duration, round_duration};
use crate::plan::{HumanDuration, Thresholds};

/// A threshold and what was measured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ThresholdCheck {
    /// The figure, after the call if it is that of one: `search p99`.
    pub name: String,
    /// The limit and what was measured, such as `p99 2.00 ms, limit 1 ms`.
    pub text: String,
    /// Whether the limit is kept.
    pub is_kept: bool,
}

/// What the thresholds of a run or of one call apply to.
struct Measured<'a> {
    response: &'a Percentiles,
    failure_ratio: Option<f64>,
    rate: f64,
    memory_growth: Option<MemoryGrowth>,
}

/// Compares thresholds with a run; `last_delivery` is not among them.
pub(super) fn threshold_checks(
    thresholds: &Thresholds,
    totals: &Totals,
    response: &Percentiles,
    memory_growth: Option<MemoryGrowth>,
    calls: &[CallResult],
) -> Vec<ThresholdCheck> {
    let Totals { failure_ratio, rate, .. } = *totals;
    let run = Measured { response, failure_ratio, rate, memory_growth };
    let mut all = checks("", thresholds, &run);
    for (name, limits) in &thresholds.call {
        let none = Percentiles::default();
        let measured = match calls.iter().find(|call| call.name == *name) {
            Some(call) => of_call(call),
            // A plan with one call has no results by call.
            None if calls.is_empty() => Measured { ..run },
            None => {
                Measured { response: &none, failure_ratio: None, rate: 0.0, memory_growth: None }
            }
        };
        all.extend(checks(&format!("{name} "), limits, &measured));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests")]
fn of_call(call: &CallResult) -> Measured<'_> {
    let CallResult { answered, failed, response, rate, .. } = call;
    Measured {
        response,
        failure_ratio: (answered + failed > 0).then(|| *failed as f64 / (answered + failed) as f64),
        rate: *rate,
        memory_growth: None,
    }
}

/// Compares thresholds; `prefix` precedes the names of the figures.
fn checks(prefix: &str, thresholds: &Thresholds, measured: &Measured<'_>) -> Vec<ThresholdCheck> {
    let response = measured.response;
    let mut all = Vec::new();
    let mut add = |name: &str, text: String, is_kept: bool| {
        let text = format!("{prefix}{text}");
        all.push(ThresholdCheck { name: format!("{prefix}{name}"), text, is_kept });
    };
    for (name, limit) in thresholds.latencies() {
        let us = response.statistics().into_iter().find(|(statistic, _)| *statistic == name);
        let us = us.and_then(|(_, us)| us);
        // Without a response there is no latency that could keep the limit.
        let is_kept = us.is_some_and(|us| us <= microseconds(limit));
        add(name, latency_text(name, us, limit), is_kept);
    }
    if let Some(limit) = thresholds.errors {
        let ratio = measured.failure_ratio;
        let text = match ratio {
            Some(ratio) => format!("errors {ratio:.4}, limit {limit}"),
            None => format!("errors without a request, limit {limit}"),
        };
        add("errors", text, ratio.is_none_or(|ratio| ratio <= limit));
    }
    if let Some(limit) = thresholds.rate {
        let rate = measured.rate;
        let text = format!("{rate:.0} responses a second, at least {limit} required");
        add("rate", text, rate >= limit);
    }
    if let Some(limit) = thresholds.memory_growth {
        let growth = measured.memory_growth;
        let text = growth.map_or_else(|| "growth not measured".into(), |growth| growth.text());
        // A growth that may be lower is not missed.
        let is_kept = growth.is_some_and(|growth| growth.low_bytes_per_minute <= limit.get());
        add("memory_growth", format!("memory {text}, limit {limit}/min"), is_kept);
    }
    all
}

/// Describes a latency with its limit.
pub(super) fn latency_text(name: &str, us: Option<f64>, limit: HumanDuration) -> String {
    let limit = round_duration(microseconds(limit));
    match us {
        Some(us) => format!("{name} {}, limit {limit}", duration(us)),
        None => format!("{name} without a response, limit {limit}"),
    }
}

fn microseconds(limit: HumanDuration) -> f64 {
    limit.get().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: Percentiles = Percentiles {
        count: 10,
        mean_us: Some(1_000.0),
        p50_us: Some(1_000.0),
        p90_us: Some(2_000.0),
        p95_us: Some(3_000.0),
        p99_us: Some(4_000.0),
        p999_us: Some(5_000.0),
        p9999_us: Some(6_000.0),
        max_us: Some(7_000.0),
    };

    const GROWTH: MemoryGrowth = MemoryGrowth {
        bytes_per_minute: 1_536.0,
        low_bytes_per_minute: 1_024.0,
        high_bytes_per_minute: 2_048.0,
    };

    fn missed(thresholds: &str, calls: &[CallResult]) -> Vec<String> {
        let thresholds = toml::from_str(thresholds).unwrap();
        let totals = Totals { rate: 50.0, ..Totals::default() };
        let all =
            threshold_checks(&thresholds, &totals, &RESPONSE, Some(GROWTH), calls).into_iter();
        all.filter(|check| !check.is_kept).map(|check| check.text).collect()
    }

    #[test]
    fn every_printed_figure_has_a_threshold() {
        let names = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];
        let limits = [1, 1, 2, 3, 4, 5, 6, 7];
        for (name, limit) in names.into_iter().zip(limits) {
            assert_eq!(missed(&format!("{name} = \"{limit}ms\""), &[]), [""; 0]);
            let less = missed(&format!("{name} = \"{}us\"", limit * 1_000 - 1), &[]);
            assert_eq!(less.len(), 1, "{name}");
            assert!(less[0].contains(&format!(" {limit}.00 ms, limit")), "{less:?}");
        }
        assert_eq!(missed("rate = 51", &[]), ["50 responses a second, at least 51 required"]);
    }

    #[test]
    fn memory_growth_misses_with_its_interval() {
        assert_eq!(missed("memory_growth = \"1 KiB\"", &[]), [""; 0]);
        let expected = "memory growth +1.50 KiB/min (95 %: +1.00 to +2.00), limit 1023 B/min";
        assert_eq!(missed("memory_growth = 1023", &[]), [expected]);
    }

    #[test]
    fn calls_have_thresholds_of_their_own() {
        let slow = Percentiles { p99_us: Some(9_000.0), ..RESPONSE };
        let call = |name: &str, response| CallResult {
            name: name.into(),
            answered: 98,
            failed: 2,
            rate: 49.0,
            response,
        };
        let calls = [call("search", slow), call("fetch", RESPONSE)];
        let limits = "[call.search]\np99 = \"5ms\"\nerrors = 0.01\nrate = 49\n\
                      [call.fetch]\np99 = \"5ms\"\nrate = 50\n";
        let expected = [
            "fetch 49 responses a second, at least 50 required",
            "search p99 9.00 ms, limit 5 ms",
            "search errors 0.0200, limit 0.01",
        ];
        assert_eq!(missed(limits, &calls), expected);
        assert_eq!(missed(limits, &calls[1..])[1], "search p99 without a response, limit 5 ms");
        assert_eq!(missed("[call.echo]\np95 = \"2ms\"", &[]), ["echo p95 3.00 ms, limit 2 ms"]);
    }
}
