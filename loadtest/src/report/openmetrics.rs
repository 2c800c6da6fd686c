//! The figures of a run as `OpenMetrics` text, which Prometheus reads, too.
//!
//! All are gauges: they describe a run that has ended. Times are in seconds; figures without data
//! are absent.

use std::collections::BTreeSet;

use crate::result::{MemoryGrowth, Percentiles, RunResult, RunStatus, UsersResult};

/// Lines of the output, by metric.
#[derive(Default)]
struct Metrics {
    text: String,
    described: BTreeSet<&'static str>,
}

/// The name of a label and its value.
type Label<'a> = (&'static str, &'a str);

/// Formats the figures of a run.
pub fn run(result: &RunResult) -> String {
    let mut metrics = Metrics::default();
    let RunResult { plan, manifest, totals, .. } = result;
    let status = result.status();
    let server = manifest.server.as_ref();
    let info = [
        ("target", &*plan.target),
        ("era", plan.era_name()),
        ("server", server.map_or("", |server| &server.name)),
        ("server_version", server.map_or("", |server| &server.version)),
        ("host", &manifest.host),
        ("commit", manifest.commit.as_deref().unwrap_or_default()),
        ("status", status.text()),
    ];
    metrics.add("run_info", "The run.", &info, Some(1.0));
    let is_passed = matches!(status, RunStatus::Passed | RunStatus::Completed);
    let passed = Some(f64::from(u8::from(is_passed)));
    metrics.add(
        "run_passed",
        "Whether the run passed, or completed without thresholds.",
        &[],
        passed,
    );
    let times = [("started", manifest.started_unix_s), ("ended", manifest.ended_unix_s)];
    for (event, seconds) in times.into_iter().filter(|(_, seconds)| *seconds > 0) {
        let help = "When the run started and ended.";
        metrics.add("run_timestamp_seconds", help, &[("event", event)], Some(float(seconds)));
    }
    let failed = totals.failures.values().sum();
    let counts = [
        ("due", totals.due),
        ("sent", totals.sent),
        ("answered", totals.answered),
        ("failed", failed),
    ];
    for (state, count) in counts {
        let help = "Requests of the measured time.";
        metrics.add("requests", help, &[("state", state)], Some(float(count)));
    }
    for (kind, count) in &totals.failures {
        let help = "Failed requests by kind.";
        metrics.add("failures", help, &[("kind", kind)], Some(float(*count)));
    }
    metrics.add("failure_ratio", "Failed requests of all.", &[], totals.failure_ratio);
    let rate = Some(totals.rate);
    metrics.add("responses_per_second", "Successful responses a second.", &[], rate);
    latencies(&mut metrics, result);
    if let Some(users) = &result.users {
        add_users(&mut metrics, users);
    }
    costs(&mut metrics, result);
    if let Some(growth) = result.memory_growth {
        memory_growth(&mut metrics, growth);
    }
    for check in result.threshold_checks() {
        let labels = [("threshold", &*check.name)];
        let is_kept = Some(f64::from(u8::from(check.is_kept)));
        metrics.add("threshold_kept", "Whether a threshold is kept.", &labels, is_kept);
    }
    metrics.text + "# EOF\n"
}

fn add_users(metrics: &mut Metrics, users: &UsersResult) {
    metrics.add("users", "Users at a time.", &[], Some(float(users.users)));
    let iterations = [("complete", users.iterations), ("failed", users.failed_iterations)];
    for (state, count) in iterations {
        let help = "Iterations of users.";
        metrics.add("user_iterations", help, &[("state", state)], Some(float(count)));
    }
    for (action, count) in users.actions() {
        let help = "What users did besides their steps.";
        metrics.add("user_actions", help, &[("action", action)], Some(float(count)));
    }
    let help = "Duration of complete iterations, pauses included.";
    statistics(metrics, "user_iteration_seconds", help, &[], &users.iteration);
}

fn latencies(metrics: &mut Metrics, result: &RunResult) {
    let RunResult { response, service, failed, lag, calls, .. } = result;
    let none = Percentiles::default();
    let first_event = result.first_event.as_ref().unwrap_or(&none);
    let first_progress = result.first_progress.as_ref().unwrap_or(&none);
    let names = [
        ("response_seconds", "Response time from the intended send time.", response),
        ("service_seconds", "Service time from the actual send time.", service),
        ("failed_seconds", "Time of failed requests from the intended send time.", failed),
        ("first_event_seconds", "Time to the first event of a stream.", first_event),
        ("first_progress_seconds", "Time to the first progress.", first_progress),
        ("generator_lag_seconds", "Lag of the load generator.", lag),
    ];
    for (name, help, percentiles) in names {
        statistics(metrics, name, help, &[], percentiles);
    }
    for call in calls {
        let labels = [("call", &*call.name)];
        let help = "Response time of each call.";
        statistics(metrics, "call_response_seconds", help, &labels, &call.response);
        let help = "Successful responses a second of each call.";
        metrics.add("call_responses_per_second", help, &labels, Some(call.rate));
        for (state, count) in [("answered", call.answered), ("failed", call.failed)] {
            let labels = [("call", &*call.name), ("state", state)];
            metrics.add("call_requests", "Requests of each call.", &labels, Some(float(count)));
        }
    }
}

fn statistics(
    metrics: &mut Metrics,
    name: &'static str,
    help: &str,
    labels: &[Label<'_>],
    percentiles: &Percentiles,
) {
    for (statistic, us) in percentiles.statistics() {
        let labels = [labels, &[("statistic", statistic)]].concat();
        metrics.add(name, help, &labels, us.map(|us| us / 1e6));
    }
}

fn costs(metrics: &mut Metrics, result: &RunResult) {
    for (process, cost) in
        [("generator", Some(&result.generator)), ("server", result.server.as_ref())]
    {
        let Some(cost) = cost else { continue };
        let labels = [("process", process)];
        metrics.add("cpu_cores", "CPU cores used.", &labels, Some(cost.cores));
        let per_response = cost.cpu_us_per_response.map(|us| us / 1e6);
        let help = "CPU time for each response.";
        metrics.add("cpu_per_response_seconds", help, &labels, per_response);
        let bytes = cost.resident_bytes_max.map(float);
        metrics.add("resident_bytes", "Highest resident memory.", &labels, bytes);
    }
}

fn memory_growth(metrics: &mut Metrics, growth: MemoryGrowth) {
    let MemoryGrowth { bytes_per_minute, low_bytes_per_minute, high_bytes_per_minute } = growth;
    for (statistic, bytes) in [
        ("slope", bytes_per_minute),
        ("low", low_bytes_per_minute),
        ("high", high_bytes_per_minute),
    ] {
        let help = "Growth of the memory of the server, with its 95 % interval.";
        let labels = [("statistic", statistic)];
        metrics.add("memory_growth_bytes_per_minute", help, &labels, Some(bytes));
    }
}

impl Metrics {
    /// Adds a sample, unless there is no finite value.
    fn add(&mut self, name: &'static str, help: &str, labels: &[Label<'_>], value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        if self.described.insert(name) {
            self.text += &["# HELP corelane_load_", name, " ", help, "\n"].concat();
            self.text += &["# TYPE corelane_load_", name, " gauge\n"].concat();
        }
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.text += &["corelane_load_", name, &labels, " ", &value.to_string(), "\n"].concat();
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[expect(clippy::cast_precision_loss, reason = "counts, bytes and seconds as samples")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::result;

    #[test]
    fn metrics_have_help_type_and_end() {
        let mut run_result = result(100, 100.0);
        run_result.plan.target = "stdio:a \"b\\\"".into();
        run_result.plan.thresholds = toml::from_str("p99 = \"50us\"").unwrap();
        run_result.totals.failures.insert("timeout".into(), 3);
        let text = run(&run_result);
        for line in [
            "corelane_load_requests{state=\"failed\"} 3",
            "corelane_load_failures{kind=\"timeout\"} 3",
            "corelane_load_response_seconds{statistic=\"p99\"} 0.0001",
            "corelane_load_threshold_kept{threshold=\"p99\"} 0",
            "corelane_load_responses_per_second 100",
            "corelane_load_resident_bytes{process=\"server\"} 1048576",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
        assert!(text.contains("target=\"stdio:a \\\"b\\\\\\\"\""), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        let mut types = text.lines().filter(|line| line.starts_with("# TYPE")).collect::<Vec<_>>();
        let count = types.len();
        types.dedup();
        assert_eq!(types.len(), count);
    }
}
