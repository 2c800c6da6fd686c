//! Text output of `corelane-load capacity`: what was measured, and the computation of a
//! requirement.

use crate::capacity::linear_fit::LinearFit;
use crate::capacity::{
    Capacity, CapacityTarget, MeasuredPoint, Requirement, RequirementError, float,
};
use crate::figure::digits;

/// Formats what was measured. `threshold` is the latency threshold of the rates.
pub fn measured(capacity: &Capacity, threshold: &str) -> String {
    let mut lines = vec![
        format!("rates within {threshold}"),
        format!(
            "{:>11}{:>12}{:>11}{:>13}{:>10}  result",
            "connections", "rate/s", "CPU cores", "per core/s", "RSS MiB"
        ),
    ];
    lines.extend(capacity.points.iter().map(row));
    lines.push(String::new());
    lines.push(match capacity.core_rate_min() {
        Some((rate, slowest)) => {
            format!("a core   {}/s, the lowest measured ({})", digits(rate), slowest.name)
        }
        None => "a core   unknown: measure with --pid or --server".into(),
    });
    lines.push(match &capacity.memory {
        Some(line) => format!(
            "memory   {} + {:.0} B a connection; largest residual {:.1} %",
            size(line.base),
            line.slope,
            line.residual_max() * 100.0
        ),
        None => "memory   unknown: it takes two results with different connections, and --pid or \
                 --server"
            .into(),
    });
    lines.join("\n") + "\n"
}

/// Formats the requirement of a target, or why it is unknown.
pub fn requirement(
    capacity: &Capacity,
    target: &CapacityTarget,
    requirement: &Result<Requirement, RequirementError>,
) -> String {
    let CapacityTarget { rate, connections, headroom, .. } = target;
    let mut lines = vec![
        String::new(),
        format!("target   {rate}/s over {connections} connections, {headroom} headroom"),
    ];
    match requirement {
        Ok(requirement) => lines.extend(computation(capacity, target, requirement)),
        Err(why) => lines.push(format!("unknown  {why}")),
    }
    lines.join("\n") + "\n"
}

fn row(point: &MeasuredPoint) -> String {
    let known = |value: Option<f64>| value.map_or_else(|| "–".into(), digits);
    format!(
        "{:>11}{:>12}{:>11}{:>13}{:>10}  {}",
        point.connections,
        digits(point.rate),
        known(point.cores_used),
        known(point.core_rate()),
        known(point.resident_bytes.map(super::mebibytes)),
        point.name
    )
}

fn computation(
    capacity: &Capacity,
    target: &CapacityTarget,
    requirement: &Requirement,
) -> Vec<String> {
    let Requirement { rate, core_rate, cores, .. } = requirement;
    let machines = requirement.machines_for_cores.zip(target.machine_cores);
    let machines = machines.map(|(machines, each)| {
        format!("; {cores} ÷ {each} a machine → {}", with_plural(machines, "machine"))
    });
    let mut lines = vec![
        format!("rate     {} ÷ (1 − {}) = {rate:.1}/s", target.rate, target.headroom),
        format!(
            "cores    {rate:.1} ÷ {core_rate:.1} = {:.2} → {}{}{}",
            rate / core_rate,
            with_plural(*cores, "core"),
            machines.unwrap_or_default(),
            beyond_measured(requirement.cores_factor)
        ),
    ];
    if let (Some(line), Some(bytes)) = (&capacity.memory, requirement.memory_bytes) {
        lines.extend(memory_needed(line, bytes, target, requirement));
    }
    lines.push(answer(requirement));
    lines
}

fn memory_needed(
    line: &LinearFit,
    bytes: f64,
    target: &CapacityTarget,
    requirement: &Requirement,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(machines), Some(all)) = (requirement.machines_for_memory, target.machine_bytes) {
        let usable = float(all) * (1.0 - target.headroom);
        lines.push(format!(
            "machines {} × {:.0} B ÷ ({} usable − {}) → {}",
            target.connections,
            line.slope,
            size(usable),
            size(line.base),
            with_plural(machines, "machine")
        ));
    }
    let machines = requirement.machines().unwrap_or(1);
    lines.push(format!(
        "memory   {} + {} ÷ {machines} × {:.0} B = {} a machine{}",
        size(line.base),
        target.connections,
        line.slope,
        size(bytes),
        beyond_measured(requirement.connections_factor)
    ));
    lines
}

fn answer(requirement: &Requirement) -> String {
    let limit =
        if requirement.is_limited_by_memory() { "limited by memory" } else { "limited by CPU" };
    let cores = with_plural(requirement.cores, "core");
    match requirement.machines() {
        Some(machines) => {
            format!("answer   {cores}, {}; {limit}", with_plural(machines, "machine"))
        }
        None => format!("answer   {cores}; {limit}"),
    }
}

/// Marks a figure beyond the measured ones: it is right if the server grows in proportion.
fn beyond_measured(factor: f64) -> String {
    match factor {
        factor if factor <= 1.0 => String::new(),
        factor => format!(" (in proportion: {} times what was measured)", digits(factor)),
    }
}

/// Formats a count with its noun.
fn with_plural(count: u64, thing: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{end}")
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes.abs() < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        bytes if bytes.abs() < 1024.0 * 1024.0 * 1024.0 => {
            format!("{:.1} MiB", bytes / 1024.0 / 1024.0)
        }
        bytes => format!("{:.2} GiB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(connections: u64, rate: f64, cores: f64) -> MeasuredPoint {
        MeasuredPoint {
            name: format!("{connections}.json"),
            connections,
            rate,
            cores_used: Some(cores),
            resident_bytes: Some((10 << 20) + connections * 1_024),
        }
    }

    fn assert_contains_all(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "'{part}' is not in:\n{text}");
        }
    }

    #[test]
    fn report_shows_measurements_and_computation() {
        let all = Capacity::of(vec![point(1_000, 1_000.0, 1.0), point(4_000, 3_000.0, 3.95)]);
        let text = measured(&all, "p99 ≤ 1ms");
        assert_contains_all(
            &text,
            &[
                "rates within p99 ≤ 1ms",
                "a core   750/s, the lowest measured (4000.json)",
                "memory   10.0 MiB + 1024 B a connection",
            ],
        );
        let target = CapacityTarget {
            rate: 7_000.0,
            connections: 40_000,
            headroom: 0.3,
            machine_cores: Some(12),
            machine_bytes: Some(1 << 30),
        };
        let text = requirement(&all, &target, &Requirement::of(&all, &target));
        assert_contains_all(
            &text,
            &[
                "7000 ÷ (1 − 0.3) = 10000.0/s",
                "10000.0 ÷ 750.0 = 13.33 → 14 cores; 14 ÷ 12 a machine → 2 machines",
                "(in proportion: 1.75 times what was measured)",
                "40000 × 1024 B ÷ (716.8 MiB usable − 10.0 MiB) → 1 machine",
                "10.0 MiB + 40000 ÷ 2 × 1024 B = 29.5 MiB a machine (in proportion: 5.00 times",
                "14 cores, 2 machines; limited by CPU",
            ],
        );
    }

    #[test]
    fn missing_measurements_are_named() {
        let unwatched =
            MeasuredPoint { cores_used: None, resident_bytes: None, ..point(1, 10.0, 1.0) };
        let text = measured(&Capacity::of(vec![unwatched]), "no latency threshold");
        assert_contains_all(&text, &["a core   unknown", "memory   unknown", "–"]);
    }
}
