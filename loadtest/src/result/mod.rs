//! What came of a run, as it is shown, kept in a file, and compared.
//!
//! What it keeps true: all latencies are in microseconds; what was measured during the warm-up is
//! in no figure; a run that the generator itself spoiled says so before it says anything else.

pub mod distribution;
pub mod drift;
pub mod listen;
pub mod manifest;
pub mod openings;
pub mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use self::distribution::distribution;
pub use self::drift::Drift;
pub use self::listen::ListenResult;
pub use self::manifest::Manifest;
pub use self::openings::{OpeningsResult, ReadersResult};
pub use self::verdict::{Fault, Verdict};
use crate::generator::Finding;
use crate::measure::group::Programs;
use crate::measure::outcome::{Failure, Outcomes};
pub use crate::measure::second::SecondResult;
use crate::plan::Plan;

/// What came of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunResult {
    /// Whether it counts, and whether it passed.
    pub verdict: Verdict,
    /// What was to be done.
    pub plan: Plan,
    /// Where and with what it was done.
    pub manifest: Manifest,
    /// Counts of requests and connections.
    pub totals: Totals,
    /// From the intended send to the whole answer, of the requests that were answered well.
    pub response: Percentiles,
    /// From the real send to the whole answer.
    pub service: Percentiles,
    /// How late the generator was.
    pub lag: Percentiles,
    /// Response times: percentiles with their microseconds, from the shortest to the longest, as
    /// many as it takes to draw them.
    #[serde(default)]
    pub response_distribution: Vec<(f64, f64)>,
    /// Service times in the same way.
    #[serde(default)]
    pub service_distribution: Vec<(f64, f64)>,
    /// What those that listen have heard, where anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenResult>,
    /// What the generator cost.
    pub generator: Cost,
    /// What the server cost, where its process was watched.
    pub server: Option<Cost>,
    /// What became of the programs that were started, where connections are processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Programs>,
    /// How connections opened.
    #[serde(default)]
    pub openings: OpeningsResult,
    /// How slow readers were borne with, where there were any.
    #[serde(default)]
    pub readers: Option<ReadersResult>,
    /// What the end of the run was compared with its beginning, where it was long enough.
    #[serde(default)]
    pub drift: Option<Drift>,
    /// Second by second.
    pub seconds: Vec<SecondResult>,
}

/// Counts of a whole run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Totals {
    /// How long was measured, in seconds.
    pub span_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were answered well.
    pub answered: u64,
    /// Good answers a second.
    pub rate: f64,
    /// Requests that failed, by how.
    pub failures: BTreeMap<String, u64>,
    /// The part of all requests that failed.
    pub failure_ratio: f64,
    /// Answers that nobody had asked for.
    pub unasked: u64,
    /// What the server told without being asked, in the warm-up too.
    #[serde(default)]
    pub notices: u64,
    /// Answers that came as streams of events, in the warm-up too.
    #[serde(default)]
    pub streamed: u64,
    /// Connections that were open when the first request left.
    pub opened: u64,
    /// How long opening them took, in seconds.
    #[serde(default)]
    pub opening_s: f64,
    /// Connections that ended without our doing.
    pub lost: u64,
    /// Why the last connection that did not open, or ended without our doing, did so, or what
    /// broke the encryption of one.
    pub refused: Option<String>,
    /// The part of the time of all cores that the machine's host kept from it, from zero to one;
    /// none where the system did not tell. While it did, nobody on this machine ran: what took long
    /// then was not the server's doing.
    #[serde(default)]
    pub stolen_ratio: Option<f64>,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The 99.99th percentile.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// What a process cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time a good answer, in microseconds, without what it was awake for nothing.
    pub cpu_us_per_answer: f64,
    /// That CPU time as a part of one core.
    pub cores: f64,
    /// How long the generator was awake for nothing but what was due next, as a part of one core.
    #[serde(default)]
    pub spun_cores: f64,
    /// The most resident memory that was seen, in bytes; zero where it was not looked at.
    pub resident_bytes_max: u64,
}

impl Percentiles {
    /// The percentiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |percentile| microseconds(histogram.value_at_percentile(percentile));
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            p9999_us: at(99.99),
            max_us: microseconds(histogram.max()),
        }
    }
}

impl RunResult {
    /// What a finding comes to.
    pub fn new(plan: Plan, manifest: Manifest, finding: &Finding) -> Self {
        let span = plan.profile().span().saturating_sub(plan.warm_up.duration());
        let total = &finding.total;
        let totals = totals(finding, span);
        let response = Percentiles::of(total.latencies.response());
        let service = Percentiles::of(total.latencies.service());
        let lag = Percentiles::of(&total.lag);
        // CPU is counted from the first request on, so the warm-up takes its share of it.
        let whole = plan.profile().span();
        let part = span.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
        let cost = |cpu: Duration| cost(cpu.mul_f64(part), span, total.outcomes);
        let awake = total.spun.min(finding.cpu);
        let own = finding.seconds.iter().filter_map(|second| second.generator_resident_bytes);
        let generator = Cost {
            spun_cores: awake.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE),
            resident_bytes_max: own.max().unwrap_or_default(),
            ..cost(finding.cpu.saturating_sub(awake))
        };
        let server = finding
            .server_cpu
            .map(cost)
            .map(|cost| Cost { resident_bytes_max: finding.resident_bytes_max, ..cost });
        let warm_up = usize::try_from(plan.warm_up.duration().as_secs()).unwrap_or(usize::MAX);
        let measured = usize::try_from(span.as_secs()).unwrap_or(usize::MAX);
        // Behind them there may be seconds in which the last answers came.
        let measured = finding.seconds.get(warm_up..warm_up.saturating_add(measured));
        let drift = measured.and_then(Drift::of);
        let readers = plan.readers.map(|_| ReadersResult::of(finding));
        let openings = OpeningsResult::of(&total.openings);
        let mut verdict =
            Verdict::of(&plan, &totals, (&response, &lag), (&generator, finding.workers));
        verdict.miss(&plan, &openings);
        let listen = plan.listen.as_ref().map(|listen| ListenResult::of(listen, finding));
        if let Some(listen) = &listen {
            verdict.weigh_listening(&plan.thresholds, listen);
        }
        Self {
            verdict,
            plan,
            manifest,
            totals,
            response,
            service,
            lag,
            response_distribution: distribution(total.latencies.response()),
            service_distribution: distribution(total.latencies.service()),
            listen,
            generator,
            server,
            openings,
            readers,
            drift,
            programs: finding.programs,
            seconds: finding.seconds.clone(),
        }
    }
}

fn totals(finding: &Finding, span: Duration) -> Totals {
    let total = &finding.total;
    let outcomes = total.outcomes;
    let failures = Failure::ALL.into_iter().map(|kind| (kind, outcomes.failed(kind)));
    let failures = failures.filter(|(_, count)| *count > 0);
    Totals {
        span_s: span.as_secs_f64(),
        due: total.due,
        sent: total.sent,
        answered: outcomes.answered,
        rate: ratio(outcomes.answered, span),
        failures: failures.map(|(kind, count)| (kind.name().into(), count)).collect(),
        failure_ratio: if total.due == 0 { 0.0 } else { outcomes.failure_ratio() },
        unasked: outcomes.unasked,
        notices: outcomes.notices,
        streamed: outcomes.streamed,
        opened: finding.opened,
        opening_s: finding.opening.as_secs_f64(),
        lost: total.lost,
        refused: total.refused.clone(),
        stolen_ratio: finding.stolen,
    }
}

fn cost(cpu: Duration, span: Duration, outcomes: Outcomes) -> Cost {
    let per_answer = match outcomes.answered {
        0 => 0.0,
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        answered => cpu.as_secs_f64() * 1e6 / answered as f64,
    };
    let cores = cpu.as_secs_f64() / span.as_secs_f64().max(f64::MIN_POSITIVE);
    Cost { cpu_us_per_answer: per_answer, cores, ..Cost::default() }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(count: u64, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
