//! Axes of plots: scaling and tick marks.
//!
//! A position is a fraction of the axis from 0 to 1. There are at most eight marks, at round
//! numbers; an axis is never empty, whatever its values.

use std::ops::Range;

/// A tick mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    /// Position on the axis.
    pub(super) at: f64,
    /// Label.
    pub(super) label: String,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms.
    Logarithmic,
    /// Percentiles by their number of nines: 0, 90, 99, 99.9, …
    Nines,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    pub(super) marks: Vec<Mark>,
}

/// Intervals between marks, as multiples of a power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];
/// Intervals between marks of time, in seconds.
const TIME_STEPS: [f64; 16] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
    21_600.0, 86_400.0,
];
/// Highest number of intervals.
const SPACES_MAX: f64 = 6.0;

impl Axis {
    /// Returns an axis from zero to a round number of at least `most`.
    pub(super) fn linear(most: f64, label: impl Fn(f64) -> String) -> Self {
        let most = if most > 0.0 { most * 1.02 } else { 1.0 };
        let step = round_step(most / (SPACES_MAX - 1.0));
        let to = (most / step).ceil() * step;
        Self::marked(Scale::Linear, 0.0..to, multiples(step, to), label)
    }

    /// Returns an axis from zero to exactly `to` seconds.
    pub(super) fn time(to: f64, label: impl Fn(f64) -> String) -> Self {
        let to = to.max(1e-3);
        let step = TIME_STEPS.into_iter().find(|step| to / step <= SPACES_MAX);
        let step = step.unwrap_or_else(|| round_step(to / SPACES_MAX));
        Self::marked(Scale::Linear, 0.0..to, multiples(step, to), label)
    }

    /// Returns a logarithmic axis between round numbers.
    pub(super) fn logarithmic(least: f64, most: f64, label: impl Fn(f64) -> String) -> Self {
        let (least, most) = (least.max(f64::MIN_POSITIVE), most.max(f64::MIN_POSITIVE));
        let mut marks = vec![floor_125(least.min(most))];
        while let [.., last] = marks[..]
            && (last < most || marks.len() < 2)
        {
            marks.push(next_125(last));
        }
        let range = marks[0]..marks[marks.len() - 1];
        if marks.len() > 8 {
            marks.retain(|value| is_power_of_ten(*value));
        }
        Self::marked(Scale::Logarithmic, range, marks, label)
    }

    /// Returns an axis of percentiles for `count` values.
    pub(super) fn nines(count: f64) -> Self {
        let to = count.max(100.0).log10();
        let marks = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999];
        // Closer marks would overlap the last label on a narrow page.
        let marks = marks.into_iter().filter(|mark| nines(*mark) < to * 0.89).chain([100.0]);
        let label = |mark: f64| if mark < 100.0 { format!("{mark}") } else { "max".into() };
        Self::marked(Scale::Nines, 0.0..to, marks.collect(), label)
    }

    /// Returns the position of a value, clamped to the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic if value <= 0.0 => 0.0,
            Scale::Logarithmic => (value / self.from).log10() / (self.to / self.from).log10(),
            Scale::Nines => nines(value) / self.to,
        };
        part.clamp(0.0, 1.0)
    }

    fn marked(
        scale: Scale,
        range: Range<f64>,
        marks: Vec<f64>,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let mut axis = Self { scale, from: range.start, to: range.end, marks: Vec::new() };
        let mark = |value| Mark { at: axis.place(value), label: label(value) };
        axis.marks = marks.into_iter().map(mark).collect();
        axis
    }
}

/// Returns the number of nines of a percentile: none at 0, one at 90, infinite at 100.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(0.0).log10()
}

/// Returns the multiples of `step` up to `to`.
fn multiples(step: f64, to: f64) -> Vec<f64> {
    let all = (0..).map(|number| f64::from(number) * step);
    all.take_while(|value| *value <= to * (1.0 + 1e-9)).take(16).collect()
}

/// Returns the smallest round number of at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let step = STEPS.into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// Returns the largest of 1, 2, 5, 10, … of at most `value`.
fn floor_125(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().find(|step| step * power <= value * (1.0 + 1e-9));
    step.unwrap_or(1.0) * power
}

/// Returns the successor of one of 1, 2, 5, 10, …
fn next_125(value: f64) -> f64 {
    let power = 10_f64.powf((value * (1.0 + 1e-9)).log10().floor());
    match value / power {
        first if first < 1.5 => 2.0 * power,
        first if first < 3.0 => 5.0 * power,
        _ => 10.0 * power,
    }
}

fn is_power_of_ten(value: f64) -> bool {
    let power = value.log10();
    (power - power.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|mark| mark.label.as_str()).collect()
    }

    fn shown(value: f64) -> String {
        format!("{value}")
    }

    #[test]
    fn linear_axis_has_round_marks() {
        let axis = Axis::linear(9_500.0, shown);
        assert_eq!(labels(&axis), ["0", "2000", "4000", "6000", "8000", "10000"]);
        assert!((axis.place(5_000.0) - 0.5).abs() < 1e-9);
        assert_eq!(labels(&Axis::linear(1.0, shown)), ["0", "0.25", "0.5", "0.75", "1", "1.25"]);
    }

    #[test]
    fn time_axis_ends_exactly_at_last_second() {
        let axis = Axis::time(62.0, shown);
        assert_eq!(labels(&axis), ["0", "15", "30", "45", "60"]);
        assert!((axis.place(62.0) - 1.0).abs() < 1e-9);
        assert_eq!(labels(&Axis::time(7_200.0, shown)).len(), 5);
    }

    #[test]
    fn logarithmic_axis_encloses_its_values() {
        assert_eq!(
            labels(&Axis::logarithmic(30.0, 400.0, shown)),
            ["20", "50", "100", "200", "500"]
        );
        let wide = Axis::logarithmic(3.0, 2e6, shown);
        assert_eq!(labels(&wide), ["10", "100", "1000", "10000", "100000", "1000000"]);
        assert!(wide.place(3.0) > 0.0 && wide.place(1.9e6) < 1.0);
        let single = Axis::logarithmic(100.0, 100.0, shown);
        assert!(single.marks.len() >= 2 && single.place(100.0).abs() < 1e-9);
    }

    #[test]
    fn every_nine_has_equal_width() {
        let axis = Axis::nines(1e5);
        assert_eq!(labels(&axis), ["50", "90", "99", "99.9", "99.99", "max"]);
        let width = |one: f64, other: f64| axis.place(other) - axis.place(one);
        assert!((width(0.0, 90.0) - width(99.0, 99.9)).abs() < 1e-9);
        assert!((axis.place(100.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn axis_without_values_has_length() {
        for axis in [
            Axis::linear(0.0, shown),
            Axis::time(0.0, shown),
            Axis::logarithmic(0.0, 0.0, shown),
            Axis::nines(0.0),
        ] {
            let places = axis.marks.iter().map(|mark| mark.at);
            assert!(places.clone().all(f64::is_finite) && places.count() >= 1, "{axis:?}");
        }
    }
}
