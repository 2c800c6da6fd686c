//! The result table: median, minimum and maximum of the rounds, and the ratio to the first server.

use std::io::{self, Write};

use crate::load::Outcome;

/// The rounds of one server.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Row {
    /// Returns the median CPU time of the server per response, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu().median
    }

    fn cpu(&self) -> Spread {
        Spread::over(self.outcomes.iter().map(|outcome| outcome.cpu_us))
    }
}

/// Distribution of a value over the rounds.
#[derive(Clone, Copy, Debug)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self { min: at(0), median: at(values.len() / 2), max: at(values.len().saturating_sub(1)) }
    }
}

/// Prints the rows of one condition; the first is the reference of the ratios.
pub(crate) fn print(title: &str, rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n### {title}\n")?;
    writeln!(
        out,
        "| server | req/s (min–max) | of the floor | CPU µs/req (min–max) | of the floor | \
         p50 µs | p99 µs | p99.9 µs | core |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
    let mut floor = None;
    for row in rows {
        let rate = Spread::over(row.outcomes.iter().map(|outcome| outcome.rate));
        let cpu = row.cpu();
        let share = Spread::over(row.outcomes.iter().map(|outcome| outcome.server_share));
        let (floor_rate, floor_cpu) = *floor.get_or_insert((rate.median, cpu.median));
        let latency = |quantile: f64| {
            let values = row.outcomes.iter().map(|outcome| {
                let nanoseconds = outcome.latency.value_at_quantile(quantile);
                std::time::Duration::from_nanos(nanoseconds).as_secs_f64() * 1e6
            });
            Spread::over(values).median
        };
        writeln!(
            out,
            "| {} | {:.0} ({:.0}–{:.0}) | {:.2} | {:.2} ({:.2}–{:.2}) | {:.2} | {:.0} | {:.0} | \
             {:.0} | {:.0} % |",
            row.name,
            rate.median,
            rate.min,
            rate.max,
            rate.median / floor_rate,
            cpu.median,
            cpu.min,
            cpu.max,
            cpu.median / floor_cpu,
            latency(0.5),
            latency(0.99),
            latency(0.999),
            share.median * 100.0,
        )?;
    }
    out.flush()
}
