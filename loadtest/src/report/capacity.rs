//! Capacity as people read it: the points with their law, what a core bears, and what a target
//! needs, one line of arithmetic each.

use super::curve;
use super::sweep::short;
use crate::forecast::line::Line;
use crate::forecast::need::{Basis, Need, Resource, Unknown, Wanted};
use crate::forecast::{Measured, RESIDUAL_MAX, Reach, SizeOf, Survey};
use crate::scalability::Fit;

/// A law whose largest residual is below this follows its points closely.
const RESIDUAL_CLOSE: f64 = 0.05;

/// The points of a survey, their law, its worth, and what a core bears. `threshold` says what the
/// rates keep, and `has_sessions` whether a connection is a session.
pub fn survey(survey: &Survey, threshold: &str, has_sessions: bool) -> String {
    let mut lines = vec![
        format!("capacity over {} · rates keep {threshold}", unit(survey.size_of)),
        format!(
            "{:>12}{:>14}{:>14}{:>10}{:>12}{:>12}{:>14}{:>10}  from",
            unit(survey.size_of),
            "rate/s",
            "law/s",
            "residual",
            "CPU cores",
            "a core/s",
            "connections",
            "RSS MiB"
        ),
    ];
    for (place, point) in survey.points.iter().enumerate() {
        lines.push(row(survey, place, point));
    }
    lines.push(String::new());
    match (&survey.fit, &survey.unfit) {
        (Some(fit), _) => lines.extend(law(survey, fit)),
        (None, why) => {
            lines.push(format!("law      none: {}", why.as_deref().unwrap_or("unknown")));
        }
    }
    lines.extend(core(survey, has_sessions));
    lines.push(memory(survey));
    lines.join("\n") + "\n"
}

/// What a target needs, or why that is not known.
pub fn need(survey: &Survey, wanted: &Wanted, need: &Result<Need, Unknown>) -> String {
    let Wanted { rate, connections, headroom, .. } = wanted;
    let mut lines = vec![
        String::new(),
        format!("target   {rate}/s over {connections} connections, {headroom} left free"),
    ];
    match need {
        Ok(need) => lines.extend(arithmetic(survey, wanted, need)),
        Err(why) => lines.push(format!("unknown  {why}")),
    }
    lines.join("\n") + "\n"
}

const fn unit(size_of: SizeOf) -> &'static str {
    match size_of {
        SizeOf::Cores => "cores",
        SizeOf::Connections => "connections",
        SizeOf::Workers => "workers",
    }
}

fn row(survey: &Survey, place: usize, point: &Measured) -> String {
    let known = |value: Option<f64>| value.map_or_else(|| "-".into(), short);
    let fit = survey.fit.as_ref();
    let residual = fit.and_then(|fit| fit.residuals.get(place));
    let core = survey.cores_of(point).map(|cores| point.rate / cores);
    format!(
        "{:>12}{:>14.1}{:>14}{:>10}{:>12}{:>12}{:>14}{:>10}  {}",
        point.size,
        point.rate,
        known(fit.map(|fit| fit.throughput(point.size))),
        residual.map_or_else(|| "-".into(), |residual| percent(*residual)),
        known(point.cores_used),
        known(core),
        point.connections,
        known(point.resident_bytes.map(mebibytes)),
        point.name
    )
}

fn law(survey: &Survey, fit: &Fit) -> Vec<String> {
    let Fit { rate, contention, coherence, .. } = fit;
    let unit = unit(survey.size_of);
    let peak = match fit.peak_size() {
        Some(peak) => format!("at {peak:.1} {unit}: {:.1}/s", fit.throughput(peak)),
        None if *contention >= 1.0 => "none: more does not help from the first on".into(),
        None => "none: more does more, each a little less".into(),
    };
    let worst = fit.residual_max();
    let is_exact = survey.points.len() <= 3;
    let follows = match worst {
        worst if worst > RESIDUAL_MAX => {
            "the law does not follow its points: it is not counted with"
        }
        _ if is_exact => "as many points as unknowns: the residuals say little, measure more sizes",
        worst if worst <= RESIDUAL_CLOSE => "the law follows its points closely",
        _ => "the law follows its points roughly",
    };
    let largest = survey.size_max();
    let points: Vec<(f64, f64)> = survey.points.iter().map(|it| (it.size, it.rate)).collect();
    let drawn = curve::draw(&points, |size| fit.throughput(size));
    vec![
        format!(
            "law      X(n) = {rate:.1}·n / (1 + {contention:.6}·(n − 1) + \
             {coherence:.3e}·n·(n − 1))"
        ),
        format!("peak     {peak}"),
        format!(
            "trust    {} points, largest residual {}: {follows}",
            survey.points.len(),
            percent(worst)
        ),
        format!(
            "         measured up to {largest} {unit}; behind {} it is EXTRAPOLATION",
            largest * 2.0
        ),
        String::new(),
        drawn,
    ]
}

/// What a core bears and holds.
fn core(survey: &Survey, has_sessions: bool) -> Vec<String> {
    let Some((rate, slowest)) = survey.core_rate_min() else {
        return vec!["a core   unknown: measure with --pid or --server".into()];
    };
    let mut lines = vec![format!(
        "a core   bears {rate:.1}/s: {:.1} ÷ {}, the lowest that was measured ({})",
        slowest.rate,
        survey.cores_of(slowest).unwrap_or(1.0),
        slowest.name
    )];
    if let Some((held, at)) = survey.core_connections_max() {
        let sessions = if has_sessions {
            format!("as many sessions, {held:.0}")
        } else {
            "no sessions: in the modern era a request stands alone".into()
        };
        lines.push(format!(
            "         held {held:.0} connections: {} ÷ {}, the most that was measured ({}); \
             {sessions}",
            at.connections,
            survey.cores_of(at).unwrap_or(1.0),
            at.name
        ));
    }
    lines
}

fn memory(survey: &Survey) -> String {
    match &survey.memory {
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

fn arithmetic(survey: &Survey, wanted: &Wanted, need: &Need) -> Vec<String> {
    let Need { rate, cores, .. } = need;
    let mut lines =
        vec![format!("rate     {} ÷ (1 − {}) = {rate:.1}/s to bear", wanted.rate, wanted.headroom)];
    let mark = mark(need.reach);
    lines.push(match need.basis {
        Basis::CoreLaw { size, rate: bears } => {
            format!("machine  {size} cores bear X({size}) = {bears:.1}/s by the law{mark}")
        }
        Basis::ConnectionLaw { size, server_cores, core_rate } => format!(
            "core     {core_rate:.1}/s: X({size:.1}) ÷ {server_cores} by the law, {size:.1} \
             connections for each {server_cores} cores{mark}"
        ),
        Basis::Sum { core_rate } => format!(
            "core     {core_rate:.1}/s, and cores add up: no law says how this scales{mark}"
        ),
    });
    let machines = need.machines_for_cores.zip(wanted.machine_cores);
    lines.push(match (need.basis, machines) {
        (Basis::CoreLaw { .. }, Some((1, _))) | (Basis::CoreLaw { .. }, None) => {
            format!("cores    {cores}, the fewest that bear {rate:.1}/s")
        }
        (Basis::CoreLaw { rate: bears, .. }, Some((machines, each))) => format!(
            "cores    {rate:.1} ÷ {bears:.1} = {:.2} → {} × {each} = {cores} cores",
            rate / bears,
            counted(machines, "machine")
        ),
        (Basis::ConnectionLaw { core_rate, .. } | Basis::Sum { core_rate }, machines) => {
            let spread = machines.map(|(machines, each)| {
                format!("; {cores} ÷ {each} a machine → {}", counted(machines, "machine"))
            });
            format!(
                "cores    {rate:.1} ÷ {core_rate:.1} = {:.2} → {}{}",
                rate / core_rate,
                counted(*cores, "core"),
                spread.unwrap_or_default()
            )
        }
    });
    if let (Some(line), Some(bytes)) = (&survey.memory, need.memory_bytes) {
        lines.extend(memory_needed(line, bytes, wanted, need));
    }
    lines.push(decision(wanted, need));
    lines
}

fn memory_needed(line: &Line, bytes: f64, wanted: &Wanted, need: &Need) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(machines), Some(all)) = (need.machines_for_memory, wanted.machine_bytes) {
        let usable = float(all) * (1.0 - wanted.headroom);
        lines.push(format!(
            "room     {} × {:.0} B ÷ ({} usable − {}) → {}",
            wanted.connections,
            line.slope,
            size(usable),
            size(line.base),
            counted(machines, "machine")
        ));
    }
    let machines = need.machines.unwrap_or(1);
    lines.push(format!(
        "memory   {} + {} ÷ {machines} × {:.0} B = {} a machine{}",
        size(line.base),
        wanted.connections,
        line.slope,
        size(bytes),
        mark(need.memory_reach)
    ));
    lines
}

fn decision(wanted: &Wanted, need: &Need) -> String {
    let decides = match need.decides {
        Resource::Cores => "the rate, by CPU",
        Resource::Memory => "the connections, by memory",
    };
    let cores = counted(need.cores, "core");
    let each = wanted.rate / float(wanted.connections);
    match need.machines {
        Some(machines) => format!(
            "answer   {cores}, {}; {decides}, decides; a core then serves \
             {} connections at {each:.3}/s each",
            counted(machines, "machine"),
            short(float(wanted.connections) / float(need.cores))
        ),
        None => format!("answer   {cores}; {decides}, decides"),
    }
}

/// What is said of a number that lies beyond what was measured.
fn mark(reach: Reach) -> String {
    match reach {
        Reach::Measured => String::new(),
        Reach::Near => " (beyond what was measured)".into(),
        Reach::Far(factor) => {
            format!(" (EXTRAPOLATION: {factor:.1} times the largest that was measured)")
        }
    }
}

/// So many of a thing.
fn counted(count: u64, thing: &str) -> String {
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

fn mebibytes(bytes: u64) -> f64 {
    super::mebibytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(size: f64, rate: f64, connections: u64) -> Measured {
        Measured {
            name: format!("{size}.json"),
            size,
            connections,
            rate,
            cores_used: Some(size),
            resident_bytes: Some((10 << 20) + connections * 1_024),
        }
    }

    fn three() -> Survey {
        // 1,000·n / (1 + 0.1·(n − 1)).
        let points = [(1.0, 1_000.0, 64), (2.0, 2_000.0 / 1.1, 1_000), (4.0, 4_000.0 / 1.3, 4_000)];
        let points = points.map(|(size, rate, connections)| measured(size, rate, connections));
        Survey::of(SizeOf::Cores, points.into())
    }

    const WANTED: Wanted = Wanted {
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
    fn a_survey_shows_its_law_with_its_worth_and_what_a_core_bears() {
        let text = survey(&three(), "p99 ≤ 1ms", true);
        assert_says(
            &text,
            &[
                "rates keep p99 ≤ 1ms",
                "X(n) = 1000.0·n / (1 + 0.100000·(n − 1)",
                "none: more does more",
                "as many points as unknowns",
                "behind 8 it is EXTRAPOLATION",
                "a core   bears 769.2/s: 3076.9 ÷ 4",
                "held 1000 connections: 4000 ÷ 4",
                "as many sessions, 1000",
                "memory   10.0 MiB + 1024 B a connection",
            ],
        );
        assert!(text.lines().any(|line| line.contains('o') && line.contains('|')), "{text}");
    }

    #[test]
    fn a_target_is_reckoned_line_by_line() {
        let three = three();
        let text = need(&three, &WANTED, &Need::of(&three, &WANTED));
        assert_says(
            &text,
            &[
                "7000 ÷ (1 − 0.3) = 10000.0/s to bear",
                "12 cores bear X(12) = 5714.3/s by the law (EXTRAPOLATION: 3.0 times",
                "10000.0 ÷ 5714.3 = 1.75 → 2 machines × 12 = 24 cores",
                "40000 × 1024 B ÷ (716.8 MiB usable − 10.0 MiB) → 1 machine",
                "10.0 MiB + 40000 ÷ 2 × 1024 B = 29.5 MiB a machine (EXTRAPOLATION: 5.0 times",
                "24 cores, 2 machines; the rate, by CPU, decides",
            ],
        );
    }

    #[test]
    fn too_few_sizes_are_told_and_cores_add_up() {
        let two =
            Survey::of(SizeOf::Cores, vec![measured(1.0, 1_000.0, 64), measured(2.0, 1_800.0, 64)]);
        let text = survey(&two, "no threshold", false);
        assert_says(&text, &["law      none", "three", "memory   unknown", "stands alone"]);
        let text = need(&two, &WANTED, &Need::of(&two, &WANTED));
        assert_says(&text, &["900.0/s, and cores add up", "→ 12 cores; 12 ÷ 12 a machine"]);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut unwatched = three();
        unwatched.size_of = SizeOf::Workers;
        unwatched.points.iter_mut().for_each(|point| point.cores_used = None);
        let text = survey(&unwatched, "p99 ≤ 1ms", false);
        assert_says(&text, &["a core   unknown: measure with --pid"]);
        let text = need(&unwatched, &WANTED, &Need::of(&unwatched, &WANTED));
        assert_says(&text, &["unknown  no result says what CPU"]);
    }
}
