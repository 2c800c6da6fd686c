//! Which plots over time a result has.
//!
//! What it keeps true: a plot is there when there is something to plot; what it shows is said in
//! words as well, and stands in the table behind it.

use super::axis::Axis;
use super::history::{History, Point};
use super::latencies::{bounds_of, duration_axis, extent, scale, with_bounds};
use super::plot::{Line, Plot, Spot, Table};
use crate::report::figure;
use crate::result::{Cost, RunResult};

/// The least that an axis of cores has room for: their values have two digits behind the point.
const CORES_SHOWN_MIN: f64 = 0.05;

/// Latency over time, where there is any.
pub(super) fn latencies(result: &RunResult, history: &History) -> Option<Plot> {
    let known = history.points.iter().filter_map(|point| point.latencies);
    let range = extent(known.flat_map(|latencies| [latencies.p50, latencies.max]))?;
    let bounds = bounds_of(result);
    let (least, most) = with_bounds(range, &bounds);
    let columns: [Column; 3] = [
        ("median", "one", |point| point.latencies.map(|latencies| latencies.p50)),
        ("99th percentile", "two dashed", |point| point.latencies.map(|latencies| latencies.p99)),
        ("longest", "three dotted", |point| point.latencies.map(|latencies| latencies.max)),
    ];
    let p99 = history.most(|point| point.latencies.map(|latencies| latencies.p99));
    Some(Plot {
        caption: format!(
            "Response times of the answers of each {}{}.",
            each(history, "the highest"),
            scale(least, most)
        ),
        description: format!(
            "The 99th percentile was at most {}, the longest response {}.",
            figure::duration(p99),
            figure::duration(range.1)
        ),
        bounds,
        ..over_time(
            ("latency", "Latency over time"),
            (result, history),
            duration_axis(least, most),
            &columns,
            figure::duration,
        )
    })
}

/// Requests over time, where there were any.
pub(super) fn throughput(result: &RunResult, history: &History) -> Option<Plot> {
    let most = history
        .most(|point| point.rates.map(|rates| rates.due.max(rates.answered).max(rates.failed)));
    if most <= 0.0 {
        return None;
    }
    let columns: [Column; 3] = [
        ("due", "three dashed", |point| point.rates.map(|rates| rates.due)),
        ("answered", "one filled", |point| point.rates.map(|rates| rates.answered)),
        ("failed", "four", |point| point.rates.map(|rates| rates.failed)),
    ];
    Some(Plot {
        caption: format!("Requests a second, of each {}.", each(history, "the mean")),
        description: format!(
            "{} good answers a second on average; {} of all requests failed.",
            figure::rate(result.totals.rate),
            figure::part(result.totals.failure_ratio)
        ),
        ..over_time(
            ("throughput", "Throughput over time"),
            (result, history),
            Axis::linear(most, figure::rate),
            &columns,
            figure::rate,
        )
    })
}

/// Connections over time.
pub(super) fn connections(result: &RunResult, history: &History) -> Option<Plot> {
    history.points.first()?;
    let columns: [Column; 1] = [("open", "one filled", |point| Some(point.open))];
    Some(Plot {
        caption: format!("Connections open at the end of each {}.", each(history, "the last")),
        description: format!(
            "{} of {} connections were open when the first request left; {} ended before their \
             time.",
            figure::count(result.totals.opened),
            figure::count(result.plan.connections as u64),
            figure::count(result.totals.lost)
        ),
        ..over_time(
            ("connections", "Connections over time"),
            (result, history),
            Axis::linear(history.most(|point| Some(point.open)), figure::rate),
            &columns,
            figure::rate,
        )
    })
}

/// How late the generator was over time, where it had anything to send.
pub(super) fn lag(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 1] = [("99th percentile", "two", |point| point.lag_p99)];
    let (least, most) = extent(history.points.iter().filter_map(|point| point.lag_p99))?;
    Some(Plot {
        caption: format!(
            "From the moment at which a request was due to the moment at which the generator came \
             to it, in each {}{}: what of the response times is its own.",
            each(history, "the highest"),
            scale(least, most)
        ),
        description: format!(
            "The generator was {} late at the 99th percentile, {} at most.",
            figure::duration(result.lag.p99_us),
            figure::duration(result.lag.max_us)
        ),
        ..over_time(
            ("lag", "Lag of the generator over time"),
            (result, history),
            duration_axis(least, most),
            &columns,
            figure::duration,
        )
    })
}

/// CPU time over time, where it is known.
pub(super) fn cores(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 2] = [
        ("server", "one", |point| point.server_cores),
        ("generator", "two dashed", |point| point.generator_cores),
    ];
    let columns = known(history, &columns)?;
    let most = most_of(history, &columns);
    let cores = |cores: f64| figure::without_zeros(&figure::digits(cores)).to_owned();
    Some(Plot {
        caption: format!("Cores in use, of each {}.", each(history, "the mean")),
        description: costs(result, |cost| format!("{:.2} cores", cost.cores)),
        ..over_time(
            ("cores", "CPU over time"),
            (result, history),
            Axis::linear(most.max(CORES_SHOWN_MIN), cores),
            &columns,
            cores,
        )
    })
}

/// Resident memory over time, where it is known.
pub(super) fn memory(result: &RunResult, history: &History) -> Option<Plot> {
    let columns: [Column; 2] = [
        ("server", "one", |point| point.server_bytes),
        ("generator", "two dashed", |point| point.generator_bytes),
    ];
    let columns = known(history, &columns)?;
    let most = most_of(history, &columns);
    // Marks are round in the unit that they are shown in.
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
        caption: format!("Resident memory at the end of each {}.", each(history, "the highest")),
        description: costs(result, |cost| {
            format!("at most {}", figure::bytes(cost.resident_bytes_max))
        }),
        ..over_time(
            ("memory", "Memory over time"),
            (result, &scaled),
            Axis::linear(most / unit, shown),
            &columns,
            shown,
        )
    })
}

/// A line over time: its name, its stroke (`filled` where it is tinted below), its value.
type Column = (&'static str, &'static str, fn(&Point) -> Option<f64>);

/// A plot over time, without its words.
fn over_time(
    (id, title): (&'static str, &'static str),
    (result, history): (&RunResult, &History),
    y: Axis,
    columns: &[Column],
    shown: impl Fn(f64) -> String,
) -> Plot {
    let points = &history.points;
    let lines = columns.iter().map(|&(name, stroke, of)| {
        Line::new(name, stroke, points.iter().map(|point| (point.middle(), of(point))))
    });
    let value = |of: fn(&Point) -> Option<f64>, point: &Point| of(point).map(&shown);
    let spots = points.iter().filter_map(|point| {
        let values = columns
            .iter()
            .filter_map(|&(name, _, of)| value(of, point).map(|value| format!("{name} {value}")));
        let values: Vec<String> = values.collect();
        let until = figure::moment(point.until);
        (!values.is_empty()).then(|| Spot {
            from: point.from,
            to: point.until,
            text: format!("until {until}: {}", values.join(" · ")),
        })
    });
    let rows = points.iter().map(|point| {
        let values = columns.iter();
        let values = values.map(|&(_, _, of)| value(of, point).unwrap_or_else(|| "–".into()));
        std::iter::once(figure::moment(point.until)).chain(values).collect()
    });
    let names = columns.iter().map(|&(name, _, _)| name.to_owned());
    let warm_up = result.plan.warm_up.duration().as_secs_f64();
    Plot {
        id,
        title,
        caption: String::new(),
        description: String::new(),
        x: Axis::time(history.end(), figure::moment),
        y,
        warm_up: (warm_up > 0.0).then_some(warm_up),
        lines: lines.collect(),
        bounds: Vec::new(),
        spots: spots.collect(),
        table: Table {
            head: std::iter::once("until".into()).chain(names).collect(),
            rows: rows.collect(),
        },
    }
}

/// The columns of which anything is known; none where nothing is.
fn known(history: &History, columns: &[Column]) -> Option<Vec<Column>> {
    let is_known = |column: &&Column| history.points.iter().any(|point| column.2(point).is_some());
    let columns: Vec<Column> = columns.iter().filter(is_known).copied().collect();
    (!columns.is_empty()).then_some(columns)
}

fn most_of(history: &History, columns: &[Column]) -> f64 {
    columns.iter().map(|column| history.most(column.2)).fold(0.0, f64::max)
}

/// What both processes cost, in words.
fn costs(result: &RunResult, shown: impl Fn(&Cost) -> String) -> String {
    let generator = format!("The generator: {}.", shown(&result.generator));
    match &result.server {
        Some(server) => format!("The server: {}. {generator}", shown(server)),
        None => generator,
    }
}

/// How a point of a plot is called, and what of its seconds it shows.
fn each(history: &History, what: &str) -> String {
    match history.seconds_each {
        1 => "second".into(),
        seconds => format!("{seconds} seconds ({what} of them; --csv has every second)"),
    }
}
