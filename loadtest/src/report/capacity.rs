//! Text output of `corelane-load capacity`: the points, the model, and the computation of the
//! requirement.

use super::model_plot;
use crate::figure::digits;
use crate::forecast::linear_fit::LinearFit;
use crate::forecast::requirement::{
    Basis, CapacityTarget, LimitingResource, Requirement, RequirementError,
};
use crate::forecast::{CapacityModel, Extrapolation, MeasuredPoint, RESIDUAL_MAX, SizeUnit};
use crate::scalability::UslFit;

/// Formats the points and the model. `threshold` is the latency threshold of the rates, and
/// `has_sessions` whether each connection is a session.
pub fn model(model: &CapacityModel, threshold: &str, has_sessions: bool) -> String {
    let mut lines = vec![
        format!("capacity over {} · rates within {threshold}", unit(model.size_unit)),
        format!(
            "{:>12}{:>10}{:>10}{:>10}{:>10}{:>12}{:>13}{:>9}  result",
            unit(model.size_unit),
            "rate/s",
            "model/s",
            "residual",
            "CPU cores",
            "per core/s",
            "connections",
            "RSS MiB"
        ),
    ];
    for (place, point) in model.points.iter().enumerate() {
        lines.push(row(model, place, point));
    }
    lines.push(String::new());
    match (&model.fit, &model.fit_error) {
        (Some(fit), _) => lines.extend(law(model, fit)),
        (None, why) => {
            lines.push(format!("fitted   none: {}", why.as_deref().unwrap_or("unknown")));
        }
    }
    lines.extend(core(model, has_sessions));
    lines.push(memory(model));
    lines.join("\n") + "\n"
}

/// Formats the requirement of a target, or why it is unknown.
pub fn requirement(
    model: &CapacityModel,
    target: &CapacityTarget,
    requirement: &Result<Requirement, RequirementError>,
) -> String {
    let CapacityTarget { rate, connections, headroom, .. } = target;
    let mut lines = vec![
        String::new(),
        format!("target   {rate}/s over {connections} connections, {headroom} headroom"),
    ];
    match requirement {
        Ok(requirement) => lines.extend(arithmetic(model, target, requirement)),
        Err(why) => lines.push(format!("unknown  {why}")),
    }
    lines.join("\n") + "\n"
}

const fn unit(size_of: SizeUnit) -> &'static str {
    match size_of {
        SizeUnit::Cores => "cores",
        SizeUnit::Connections => "connections",
        SizeUnit::Threads => "threads",
    }
}

fn row(model: &CapacityModel, place: usize, point: &MeasuredPoint) -> String {
    let known = |value: Option<f64>| value.map_or_else(|| "-".into(), digits);
    let fit = model.fit.as_ref();
    let residual = fit.and_then(|fit| fit.residuals.get(place));
    let core = model.cores_of(point).map(|cores| point.rate / cores);
    format!(
        "{:>12}{:>10.1}{:>10}{:>10}{:>10}{:>12}{:>13}{:>9}  {}",
        point.size,
        point.rate,
        known(fit.map(|fit| fit.throughput(point.size))),
        residual.map_or_else(|| "-".into(), |residual| percent(*residual)),
        known(point.cores_used),
        known(core),
        point.connections,
        known(point.resident_bytes.map(super::mebibytes)),
        point.name
    )
}

/// Formats the law in words, with its error, and its formula.
fn law(model: &CapacityModel, fit: &UslFit) -> Vec<String> {
    let UslFit { rate, contention, coherence, .. } = fit;
    let unit = unit(model.size_unit);
    let worst = fit.residual_max();
    let is_exact = model.points.len() <= 3;
    let error = match worst {
        worst if worst > RESIDUAL_MAX => {
            format!("error ±{}: it does not fit and is not used", percent(worst))
        }
        _ if is_exact => "error unknown: measure more sizes than three".into(),
        worst => format!("error ±{}", percent(worst)),
    };
    let largest = model.size_max();
    let points: Vec<(f64, f64)> = model.points.iter().map(|it| (it.size, it.rate)).collect();
    let drawn = model_plot::draw(&points, |size| fit.throughput(size));
    vec![
        format!("fitted   {}; {error}", growth(model, fit)),
        format!(
            "         X(n) = {rate:.1}·n / (1 + {contention:.6}·(n − 1) + \
             {coherence:.3e}·n·(n − 1))"
        ),
        format!(
            "         measured up to {largest} {unit}; beyond {} it is EXTRAPOLATION",
            largest * 2.0
        ),
        String::new(),
        drawn,
    ]
}

/// Formats how the throughput grows with the size.
fn growth(model: &CapacityModel, fit: &UslFit) -> String {
    /// Serial share below which growth counts as proportional.
    const CONTENTION_MIN: f64 = 0.001;
    let unit = unit(model.size_unit);
    match fit.peak_size() {
        Some(peak) => format!(
            "throughput grows to about {peak:.0} {unit} ({:.0}/s), then falls",
            fit.throughput(peak)
        ),
        None if fit.contention > 1.0 - CONTENTION_MIN => {
            format!("throughput does not grow with {unit}: {:.0}/s at one", fit.throughput(1.0))
        }
        None if fit.contention < CONTENTION_MIN => {
            format!("throughput grows in proportion to {unit}, {:.0}/s for each", fit.rate)
        }
        None => format!(
            "throughput grows ever more slowly with {unit}, to at most {:.0}/s",
            fit.rate / fit.contention
        ),
    }
}

/// Formats the rate and the connections of a core.
fn core(model: &CapacityModel, has_sessions: bool) -> Vec<String> {
    let Some((rate, slowest)) = model.core_rate_min() else {
        return vec!["a core   unknown: measure with --pid or --server".into()];
    };
    let mut lines = vec![format!(
        "a core   sustained {rate:.1}/s: {:.1} ÷ {}, the lowest measured ({})",
        slowest.rate,
        model.cores_of(slowest).unwrap_or(1.0),
        slowest.name
    )];
    if let Some((held, at)) = model.core_connections_max() {
        let sessions = if has_sessions {
            format!("as many sessions, {held:.0}")
        } else {
            "no sessions: the modern era is stateless".into()
        };
        lines.push(format!(
            "         held {held:.0} connections: {} ÷ {}, the most measured ({}); \
             {sessions}",
            at.connections,
            model.cores_of(at).unwrap_or(1.0),
            at.name
        ));
    }
    lines
}

fn memory(model: &CapacityModel) -> String {
    match &model.memory {
        Some(line) => format!(
            "memory   {} + {:.0} B a connection; largest residual {}",
            size(line.base),
            line.slope,
            percent(line.residual_max())
        ),
        None => "memory   unknown: it takes two results with different connections, and --pid or \
                 --server"
            .into(),
    }
}

fn arithmetic(
    model: &CapacityModel,
    target: &CapacityTarget,
    requirement: &Requirement,
) -> Vec<String> {
    let Requirement { rate, cores, .. } = requirement;
    let mut lines =
        vec![format!("rate     {} ÷ (1 − {}) = {rate:.1}/s", target.rate, target.headroom)];
    let mark = extrapolation_note(requirement.extrapolation);
    lines.push(match requirement.basis {
        Basis::CoreLaw { size, rate: throughput } => {
            format!(
                "machine  {size} cores sustain X({size}) = {throughput:.1}/s by the model{mark}"
            )
        }
        Basis::ConnectionLaw { size, server_cores, core_rate } => format!(
            "core     {core_rate:.1}/s: X({size:.1}) ÷ {server_cores} by the model, {size:.1} \
             connections for each {server_cores} cores{mark}"
        ),
        Basis::Linear { core_rate } => {
            format!("core     {core_rate:.1}/s, scaled linearly without a model{mark}")
        }
    });
    let machines = requirement.machines_for_cores.zip(target.machine_cores);
    lines.push(match (requirement.basis, machines) {
        (Basis::CoreLaw { .. }, Some((1, _))) | (Basis::CoreLaw { .. }, None) => {
            format!("cores    {cores}, the fewest for {rate:.1}/s")
        }
        (Basis::CoreLaw { rate: throughput, .. }, Some((machines, each))) => format!(
            "cores    {rate:.1} ÷ {throughput:.1} = {:.2} → {} × {each} = {cores} cores",
            rate / throughput,
            with_plural(machines, "machine")
        ),
        (Basis::ConnectionLaw { core_rate, .. } | Basis::Linear { core_rate }, machines) => {
            let spread = machines.map(|(machines, each)| {
                format!("; {cores} ÷ {each} a machine → {}", with_plural(machines, "machine"))
            });
            format!(
                "cores    {rate:.1} ÷ {core_rate:.1} = {:.2} → {}{}",
                rate / core_rate,
                with_plural(*cores, "core"),
                spread.unwrap_or_default()
            )
        }
    });
    if let (Some(line), Some(bytes)) = (&model.memory, requirement.memory_bytes) {
        lines.extend(memory_needed(line, bytes, target, requirement));
    }
    lines.push(decision(target, requirement));
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
    let machines = requirement.machines.unwrap_or(1);
    lines.push(format!(
        "memory   {} + {} ÷ {machines} × {:.0} B = {} a machine{}",
        size(line.base),
        target.connections,
        line.slope,
        size(bytes),
        extrapolation_note(requirement.memory_extrapolation)
    ));
    lines
}

fn decision(target: &CapacityTarget, requirement: &Requirement) -> String {
    let decides = match requirement.limited_by {
        LimitingResource::Cores => "limited by CPU",
        LimitingResource::Memory => "limited by memory",
    };
    let cores = with_plural(requirement.cores, "core");
    let each = target.rate / float(target.connections);
    match requirement.machines {
        Some(machines) => format!(
            "answer   {cores}, {}; {decides}; each core serves {} connections at {each:.3}/s \
             each",
            with_plural(machines, "machine"),
            digits(float(target.connections) / float(requirement.cores))
        ),
        None => format!("answer   {cores}; {decides}"),
    }
}

/// Marks an extrapolated number.
fn extrapolation_note(reach: Extrapolation) -> String {
    match reach {
        Extrapolation::Within => String::new(),
        Extrapolation::Near => " (above the measured range)".into(),
        Extrapolation::Far(factor) => {
            format!(" (EXTRAPOLATION: {factor:.1} times the largest measured)")
        }
    }
}

/// Formats a count with its noun.
fn with_plural(count: u64, thing: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{end}")
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
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

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(size: f64, rate: f64, connections: u64) -> MeasuredPoint {
        MeasuredPoint {
            name: format!("{size}.json"),
            size,
            connections,
            rate,
            cores_used: Some(size),
            resident_bytes: Some((10 << 20) + connections * 1_024),
        }
    }

    fn three() -> CapacityModel {
        // 1,000·n / (1 + 0.1·(n − 1)).
        let points = [(1.0, 1_000.0, 64), (2.0, 2_000.0 / 1.1, 1_000), (4.0, 4_000.0 / 1.3, 4_000)];
        let points = points.map(|(size, rate, connections)| measured(size, rate, connections));
        CapacityModel::fit_points(SizeUnit::Cores, points.into())
    }

    const WANTED: CapacityTarget = CapacityTarget {
        rate: 7_000.0,
        connections: 40_000,
        headroom: 0.3,
        machine_cores: Some(12),
        machine_bytes: Some(1 << 30),
    };

    fn assert_says(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "'{part}' is not in:\n{text}");
        }
    }

    #[test]
    fn report_shows_model_and_rate_of_core() {
        let text = model(&three(), "p99 ≤ 1ms", true);
        assert_says(
            &text,
            &[
                "rates within p99 ≤ 1ms",
                "X(n) = 1000.0·n / (1 + 0.100000·(n − 1)",
                "fitted   throughput grows ever more slowly with cores, to at most 10000/s",
                "error unknown: measure more sizes than three",
                "beyond 8 it is EXTRAPOLATION",
                "a core   sustained 769.2/s: 3076.9 ÷ 4",
                "held 1000 connections: 4000 ÷ 4",
                "as many sessions, 1000",
                "memory   10.0 MiB + 1024 B a connection",
            ],
        );
        assert!(text.lines().any(|line| line.contains('o') && line.contains('|')), "{text}");
    }

    #[test]
    fn report_shows_computation_of_requirement() {
        let three = three();
        let text = requirement(&three, &WANTED, &Requirement::of(&three, &WANTED));
        assert_says(
            &text,
            &[
                "7000 ÷ (1 − 0.3) = 10000.0/s",
                "12 cores sustain X(12) = 5714.3/s by the model (EXTRAPOLATION: 3.0 times",
                "10000.0 ÷ 5714.3 = 1.75 → 2 machines × 12 = 24 cores",
                "40000 × 1024 B ÷ (716.8 MiB usable − 10.0 MiB) → 1 machine",
                "10.0 MiB + 40000 ÷ 2 × 1024 B = 29.5 MiB a machine (EXTRAPOLATION: 5.0 times",
                "24 cores, 2 machines; limited by CPU",
            ],
        );
    }

    #[test]
    fn law_has_words_and_its_error() {
        let worded = |law: fn(f64) -> f64| {
            let points = [1.0, 2.0, 4.0, 8.0].map(|size| measured(size, law(size), 64));
            let all = CapacityModel::fit_points(SizeUnit::Cores, points.into());
            let text = model(&all, "p99 ≤ 1ms", false);
            text.lines().find(|line| line.starts_with("fitted")).unwrap().to_owned()
        };
        let peaked = worded(|n| 1_000.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.01 * n * (n - 1.0)));
        let expected = "grows to about 10 cores (4808/s), then falls; error ±0.0 %";
        assert!(peaked.contains(expected), "{peaked}");
        let linear = worded(|n| 1_000.0 * n);
        assert!(linear.contains("in proportion to cores, 1000/s for each"), "{linear}");
        let flat = worded(|_| 1_000.0);
        assert!(flat.contains("does not grow with cores: 1000/s"), "{flat}");
        let rough = worded(|n| if n > 3.0 { 900.0 * n } else { 1_000.0 * n });
        assert!(rough.contains("error ±") && !rough.contains("±0.0"), "{rough}");
    }

    #[test]
    fn two_sizes_scale_linearly_without_model() {
        let two = CapacityModel::fit_points(
            SizeUnit::Cores,
            vec![measured(1.0, 1_000.0, 64), measured(2.0, 1_800.0, 64)],
        );
        let text = model(&two, "no threshold", false);
        assert_says(&text, &["fitted   none", "three", "memory   unknown", "stateless"]);
        let text = requirement(&two, &WANTED, &Requirement::of(&two, &WANTED));
        assert_says(&text, &["900.0/s, scaled linearly", "→ 12 cores; 12 ÷ 12 a machine"]);
    }

    #[test]
    fn unknown_values_are_reported_as_unknown() {
        let mut unwatched = three();
        unwatched.size_unit = SizeUnit::Threads;
        unwatched.points.iter_mut().for_each(|point| point.cores_used = None);
        let text = model(&unwatched, "p99 ≤ 1ms", false);
        assert_says(&text, &["a core   unknown: measure with --pid"]);
        let text = requirement(&unwatched, &WANTED, &Requirement::of(&unwatched, &WANTED));
        assert_says(&text, &["unknown  no result has the CPU"]);
    }
}
