//! Plots of a run over time. A plot exists only if it has data.

use super::axis::Axis;
use super::history::{History, Point};
use super::latencies::{Extent, duration_axis, run_threshold_lines, scale_remark};
use super::plot::{HoverRegion, Plot, PlotLine, Table};
use crate::figure;
use crate::result::{ProcessCost, RunResult};

/// Smallest maximum of a CPU axis: labels have two decimals.
const CORES_SHOWN_MIN: f64 = 0.05;

/// Returns the plot of latencies.
pub(super) fn latencies(result: &RunResult, history: &History) -> Option<Plot> {
    let known = history.points.iter().filter_map(|point| point.latencies);
    let range = Extent::of(known.flat_map(|latencies| [latencies.p50, latencies.max]))?;
    let bounds = run_threshold_lines(result);
    let axis_range = range.extended_by(&bounds);
    let columns: [Column; 3] = [
        ("median", "one", |point| point.latencies.map(|latencies| latencies.p50)),
        ("99th percentile", "two dashed", |point| point.latencies.map(|latencies| latencies.p99)),
        ("longest", "three dotted", |point| point.latencies.map(|latencies| latencies.max)),
    ];
    let p99 = history.highest(|point| point.latencies.map(|latencies| latencies.p99));
    Some(Plot {
        id: "latency",
        title: "Latency over time",
        caption: format!(
            "Response times of each {}{}.",
            point_description(history, "the highest"),
            scale_remark(axis_range)
        ),
        description: format!(
            "The 99th percentile was at most {}, the longest response {}.",
            figure::duration(p99),
            figure::duration(range.most)
        ),
        thresholds: bounds,
        ..over_time(result, history, duration_axis(axis_range), &columns, figure::duration)
    })
}

/// Returns the plot of request rates.
pub(super) fn throughput(result: &RunResult, history: &History) -> Option<Plot> {
    let most = history
        .highest(|point| point.rates.map(|rates| rates.due.max(rates.answered).max(rates.failed)));
    if most <= 0.0 {
        return None;
    }
    let columns: [Column; 3] = [
        ("due", "three dashed", |point| point.rates.map(|rates| rates.due)),
        ("answered", "one filled", |point| point.rates.map(|rates| rates.answered)),
        ("failed", "four", |point| point.rates.map(|rates| rates.failed)),
    ];
    Some(Plot {
        id: "throughput",
        title: "Throughput over time",
        caption: format!("Requests a second, of each {}.", point_description(history, "the mean")),
        description: format!(
            "{} successful responses a second on average; {} of all requests failed.",
            figure::rate(result.totals.rate),
            figure::percent_or_dash(result.totals.failure_ratio)
        ),
        ..over_time(result, history, Axis::linear(most, figure::rate), &columns, figure::rate)
    })
}

/// Returns the plot of open connections.
pub(super) fn connections(result: &RunResult, history: &History) -> Option<Plot> {
    history.points.first()?;
    let columns: [Column; 1] = [("open", "one filled", |point| Some(point.open))];
    Some(Plot {
        id: "connections",
        title: "Connections over time",
        caption: format!(
            "Connections open at the end of each {}.",
            point_description(history, "the last")
        ),
        description: format!(
            "{} of {} connections were open when the first request was sent; {} were lost.",
            figure::count(result.totals.opened),
            figure::count(result.plan.connections as u64),
            figure::count(result.totals.lost)
        ),
        ..over_time(
            result,
            history,
            Axis::linear(history.highest(|point| Some(point.open)), figure::rate),
            &columns,
            figure::rate,
        )
    })
}

/// Returns the plot of the lag of the load generator.
pub(super) fn lag(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 1] = [("99th percentile", "two", |point| point.lag_p99)];
    let range = Extent::of(history.points.iter().filter_map(|point| point.lag_p99))?;
    Some(Plot {
        id: "lag",
        title: "Lag of the generator over time",
        caption: format!(
            "Delay between the intended send time of a request and its processing by the load \
             generator, in each {}{}: part of the response time that the server did not cause.",
            point_description(history, "the highest"),
            scale_remark(range)
        ),
        description: format!(
            "The load generator's lag was {} at the 99th percentile, {} at most.",
            figure::latency(result.lag.p99_us),
            figure::latency(result.lag.max_us)
        ),
        ..over_time(result, history, duration_axis(range), &columns, figure::duration)
    })
}

/// Returns the plot of CPU usage.
pub(super) fn cores(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 2] = [
        ("server", "one", |point| point.server_cores),
        ("generator", "two dashed", |point| point.generator_cores),
    ];
    let columns = known_columns(history, &columns)?;
    let most = highest_value(history, &columns);
    let cores = |cores: f64| figure::without_zeros(&figure::digits(cores)).to_owned();
    Some(Plot {
        id: "cores",
        title: "CPU over time",
        caption: format!("Cores in use, of each {}.", point_description(history, "the mean")),
        description: costs(result, |cost| format!("{:.2} cores", cost.cores)),
        ..over_time(
            result,
            history,
            Axis::linear(most.max(CORES_SHOWN_MIN), cores),
            &columns,
            cores,
        )
    })
}

/// Returns the plot of resident memory.
pub(super) fn memory(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 2] = [
        ("server", "one", |point| point.server_bytes),
        ("generator", "two dashed", |point| point.generator_bytes),
    ];
    let columns = known_columns(history, &columns)?;
    let most = highest_value(history, &columns);
    // Round marks in the displayed unit.
    let (unit, name) = if most < f64::from(1 << 30) {
        (f64::from(1 << 20), "MiB")
    } else {
        (f64::from(1 << 30), "GiB")
    };
    let shown = |amount: f64| format!("{} {name}", figure::without_zeros(&figure::digits(amount)));
    let scaled = History {
        points: history
            .points
            .iter()
            .map(|point| Point {
                server_bytes: point.server_bytes.map(|bytes| bytes / unit),
                generator_bytes: point.generator_bytes.map(|bytes| bytes / unit),
                ..*point
            })
            .collect(),
        ..*history
    };
    Some(Plot {
        id: "memory",
        title: "Memory over time",
        caption: format!(
            "Resident memory at the end of each {}.",
            point_description(history, "the highest")
        ),
        description: costs(result, |cost| {
            cost.resident_bytes_max
                .map_or_else(|| "–".into(), |bytes| format!("at most {}", figure::bytes(bytes)))
        }),
        ..over_time(result, &scaled, Axis::linear(most / unit, shown), &columns, shown)
    })
}

/// Name, CSS classes (`filled` for an area) and value of a line over time.
type Column = (&'static str, &'static str, fn(&Point) -> Option<f64>);

/// Returns a plot over time without id, title, caption and description.
fn over_time(
    result: &RunResult,
    history: &History,
    y: Axis,
    columns: &[Column],
    shown: impl Fn(f64) -> String,
) -> Plot {
    let points = &history.points;
    let lines = columns.iter().map(|&(name, stroke, of)| {
        PlotLine::new(name, stroke, points.iter().map(|point| (point.middle(), of(point))))
    });
    let value = |of: fn(&Point) -> Option<f64>, point: &Point| of(point).map(&shown);
    let spots = points.iter().filter_map(|point| {
        let values = columns
            .iter()
            .filter_map(|&(name, _, of)| value(of, point).map(|value| format!("{name} {value}")));
        let values: Vec<String> = values.collect();
        let until = figure::elapsed(point.until);
        (!values.is_empty()).then(|| HoverRegion {
            from: point.from,
            to: point.until,
            text: format!("until {until}: {}", values.join(" · ")),
        })
    });
    let rows = points.iter().map(|point| {
        let values = columns.iter();
        let values = values.map(|&(_, _, of)| value(of, point).unwrap_or_else(|| "–".into()));
        std::iter::once(figure::elapsed(point.until)).chain(values).collect()
    });
    let names = columns.iter().map(|&(name, _, _)| name.to_owned());
    let warm_up = result.plan.warm_up.get().as_secs_f64();
    Plot {
        id: "",
        title: "",
        caption: String::new(),
        description: String::new(),
        x: Axis::time(history.end(), figure::elapsed),
        y,
        warm_up: (warm_up > 0.0).then_some(warm_up),
        lines: lines.collect(),
        thresholds: Vec::new(),
        hover_regions: spots.collect(),
        table: Table {
            head: std::iter::once("until".into()).chain(names).collect(),
            rows: rows.collect(),
        },
    }
}

/// Returns the columns that have data, or `None`.
fn known_columns(history: &History, columns: &[Column]) -> Option<Vec<Column>> {
    let is_known = |column: &&Column| history.points.iter().any(|point| column.2(point).is_some());
    let columns: Vec<Column> = columns.iter().filter(is_known).copied().collect();
    (!columns.is_empty()).then_some(columns)
}

fn highest_value(history: &History, columns: &[Column]) -> f64 {
    columns.iter().map(|column| history.highest(column.2)).fold(0.0, f64::max)
}

/// Describes the costs of both processes.
fn costs(result: &RunResult, shown: impl Fn(&ProcessCost) -> String) -> String {
    let generator = format!("The generator: {}.", shown(&result.generator));
    match &result.server {
        Some(server) => format!("The server: {}. {generator}", shown(server)),
        None => generator,
    }
}

/// Describes a point of a plot and how its seconds are aggregated.
fn point_description(history: &History, what: &str) -> String {
    match history.seconds_each {
        1 => "second".into(),
        seconds => format!("{seconds} seconds ({what} of them; --csv has every second)"),
    }
}
