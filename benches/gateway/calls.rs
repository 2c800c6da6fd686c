//! Calls of an echo tool: rate, response time and CPU time, of all products in turn.

use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use corelane_bench_support::client_group::ClientGroup;
use corelane_engine::clock::Clock;
use hdrhistogram::Histogram;

use crate::caller::{Caller, Method, Plan, Shared};
use crate::product_process::ProductProcess;
use crate::products::{self, Product};

const WARM_UP: Duration = Duration::from_millis(500);
/// Goals: CPU time of the gateway for a call in microseconds, calls a second with its child on one
/// core, added median in microseconds, and the lead over the best rival.
const TCP_CPU_MAX: f64 = 5.0;
const HTTP_CPU_MAX: f64 = 10.0;
const HTTP_RATE_MIN: f64 = 100_000.0;
const ADDED_MAX: f64 = 40.0;
const LEAD_MIN: f64 = 5.0;

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    rate: f64,
    p50: f64,
    p99: f64,
    /// CPU time for a call in microseconds: of the product, and of the server behind it.
    product_cpu: f64,
    server_cpu: f64,
}

/// A product, and its measurements for each number of connections.
#[derive(Debug)]
struct Row {
    product: Product,
    outcomes: Vec<Vec<Outcome>>,
}

/// Measures all products, `rounds` times in turn, and prints a table for each number of
/// connections.
pub(crate) fn measure(
    products: Vec<Product>,
    connections: &[usize],
    rounds: usize,
    span: Duration,
) -> io::Result<()> {
    let outcomes = || vec![Vec::new(); connections.len()];
    let row = |product| Row { product, outcomes: outcomes() };
    let mut rows: Vec<Row> = products.into_iter().map(row).collect();
    for round in 0..rounds {
        rows.retain_mut(|row| match measure_one(row, connections, span) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("left out in round {round}: {error}");
                false
            }
        });
    }
    for (index, connections) in connections.iter().enumerate() {
        print(&rows, index, *connections)?;
    }
    Ok(())
}

fn measure_one(row: &mut Row, connections: &[usize], span: Duration) -> io::Result<()> {
    let process = ProductProcess::start(&row.product)?;
    for (connections, outcomes) in connections.iter().zip(&mut row.outcomes) {
        let outcome = run(&row.product, &process, *connections, span);
        outcomes.push(outcome.map_err(|error| process.describe(&row.product, error))?);
    }
    Ok(())
}

fn run(
    product: &Product,
    process: &ProductProcess,
    connections: usize,
    span: Duration,
) -> io::Result<Outcome> {
    let Product { transport, era, tool, .. } = *product;
    let plan = Plan { transport, era, tool, method: Method::Call, host: process.address() };
    let clock = Clock::start();
    let mut load = Load::open(plan, connections)?;
    load.group.run_for(WARM_UP)?;
    load.shared.latency.borrow_mut().reset();
    let (answered, cpu, time) = (load.shared.answered.get(), process.cpu_times()?, clock.now());
    load.group.run_for(span)?;
    let (seconds, after) = (clock.now().since(time).as_secs_f64(), process.cpu_times()?);
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are small")]
    let calls = (load.shared.answered.get() - answered) as f64;
    let cpu = |index: usize| after[index].saturating_sub(cpu[index]).as_secs_f64() * 1e6 / calls;
    let shared = Rc::clone(&load.shared);
    load.end()?;
    let latency = shared.latency.borrow();
    Ok(Outcome {
        rate: calls / seconds,
        p50: microseconds(&latency, 0.5),
        p99: microseconds(&latency, 0.99),
        product_cpu: cpu(0),
        server_cpu: cpu(1),
    })
}

/// Clients with one request in flight each.
pub(crate) struct Load {
    pub(crate) group: ClientGroup<Caller>,
    pub(crate) shared: Rc<Shared>,
    connections: usize,
}

impl Load {
    /// Opens the connections, and begins.
    pub(crate) fn open(plan: Plan, connections: usize) -> io::Result<Self> {
        let shared = Shared::new()?;
        let clients = (0..connections).map(|_| Caller::new(plan, &shared)).collect();
        let mut group = ClientGroup::open(plan.host, Clock::start(), clients)?;
        shared.is_looping.set(true);
        group.send(0, 1, Caller::request);
        Ok(Self { group, shared, connections })
    }

    /// Waits for the last response of each connection.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.shared.is_looping.set(false);
        self.group.wait_for_responses(self.connections)
    }
}

/// Returns a quantile in microseconds.
pub(crate) fn microseconds(latency: &Histogram<u64>, quantile: f64) -> f64 {
    Duration::from_nanos(latency.value_at_quantile(quantile)).as_secs_f64() * 1e6
}

fn median(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    let mut values: Vec<f64> = outcomes.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn range(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64 + Copy) -> String {
    let values = outcomes.iter().map(value);
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    format!("{:.1} ({low:.1}–{high:.1})", median(outcomes, value))
}

fn print(rows: &[Row], index: usize, connections: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n### Calls, {connections} connections with one call in flight\n")?;
    writeln!(
        out,
        "| gateway | calls/s | p50 µs | p99 µs | CPU µs a call of the gateway (min–max) | of its \
         server | calls a CPU second of both |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for Row { product, outcomes } in rows {
        let outcomes = &outcomes[index];
        writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.0} | {} | {:.1} | {:.0} |",
            product.name,
            median(outcomes, |it| it.rate),
            median(outcomes, |it| it.p50),
            median(outcomes, |it| it.p99),
            range(outcomes, |it| it.product_cpu),
            median(outcomes, |it| it.server_cpu),
            median(outcomes, per_cpu_second),
        )?;
    }
    writeln!(out)?;
    print_goals(&mut out, rows, index, connections)
}

fn per_cpu_second(outcome: &Outcome) -> f64 {
    1e6 / (outcome.product_cpu + outcome.server_cpu)
}

/// Prints which goals are reached with this number of connections.
fn print_goals(
    out: &mut impl Write,
    rows: &[Row],
    index: usize,
    connections: usize,
) -> io::Result<()> {
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.product.name == name);
        row.map(|row| row.outcomes[index].as_slice())
    };
    if let (1, Some(gateway), Some(direct)) =
        (connections, of(products::TCP), of(products::DIRECT_TCP))
    {
        let added = median(gateway, |it| it.p50) - median(direct, |it| it.p50);
        let verdict = verdict(added <= ADDED_MAX);
        writeln!(out, "{verdict}: added p50 over TCP {added:.0} µs (at most {ADDED_MAX:.0})")?;
    }
    for (name, max) in [(products::TCP, TCP_CPU_MAX), (products::HTTP, HTTP_CPU_MAX)] {
        let Some(outcomes) = of(name).filter(|_| connections > 1) else { continue };
        let cpu = median(outcomes, |it| it.product_cpu);
        let verdict = verdict(cpu <= max);
        writeln!(out, "{verdict}: {name}: {cpu:.1} µs of CPU a call (at most {max:.0})")?;
    }
    let Some(http) = of(products::HTTP).filter(|_| connections > 1) else { return Ok(()) };
    let rate = median(http, |it| it.rate);
    let reached = verdict(rate >= HTTP_RATE_MIN);
    writeln!(out, "{reached}: {rate:.0} calls/s over HTTP (at least {HTTP_RATE_MIN:.0})")?;
    let is_rival = |row: &&Row| !row.product.command[0].ends_with("/corelane");
    let rivals = rows.iter().filter(is_rival);
    let best =
        rivals.map(|row| median(&row.outcomes[index], per_cpu_second)).max_by(f64::total_cmp);
    let Some(best) = best else { return Ok(()) };
    let lead = median(http, per_cpu_second) / best;
    let reached = verdict(lead >= LEAD_MIN);
    writeln!(
        out,
        "{reached}: calls a CPU second {lead:.1} × those of the best rival (at least {LEAD_MIN:.0})"
    )
}

pub(crate) const fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}
