//! Plots as inline SVG, with their values as a table.
//!
//! A plot fills its column while text and strokes keep their sizes: lines are drawn in a stretched
//! 1,000 by 1,000 viewBox, text and marks are placed in percent. Lines differ by colour and dash
//! pattern, as CSS classes. Values are shown on hover by `<title>`, without a script.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::axis::Axis;

/// A line of a plot.
#[derive(Clone, Debug)]
pub(super) struct PlotLine {
    /// Name in the legend.
    pub(super) name: &'static str,
    /// CSS classes.
    pub(super) stroke: &'static str,
    /// The points; `None` is a gap.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

impl PlotLine {
    /// Returns a line. The class `filled` tints the area below, `dots` draws the points of a line
    /// with gaps between them.
    pub(super) fn new(
        name: &'static str,
        stroke: &'static str,
        points: impl Iterator<Item = (f64, Option<f64>)>,
    ) -> Self {
        Self { name, stroke, points: points.collect() }
    }

    fn is_filled(&self) -> bool {
        self.stroke.ends_with("filled")
    }

    fn is_dots(&self) -> bool {
        self.stroke.starts_with("dots")
    }
}

/// A horizontal threshold line.
#[derive(Clone, Debug)]
pub(super) struct ThresholdLine {
    pub(super) at: f64,
    pub(super) label: String,
}

/// A region that shows its values on hover.
#[derive(Clone, Debug)]
pub(super) struct HoverRegion {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) text: String,
}

/// The values of a plot.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Element id.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Text below the title.
    pub(super) caption: String,
    /// Description for screen readers.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// End of the warm-up.
    pub(super) warm_up: Option<f64>,
    pub(super) lines: Vec<PlotLine>,
    pub(super) thresholds: Vec<ThresholdLine>,
    pub(super) hover_regions: Vec<HoverRegion>,
    pub(super) table: Table,
}

/// Returns the sections of plots in two columns; an odd last one is wide.
pub(super) fn pairs(plots: &[Plot]) -> Markup {
    html! {
        @for (index, plot) in plots.iter().enumerate() {
            (plot.section(index + 1 == plots.len() && index % 2 == 0))
        }
    }
}

impl Plot {
    /// Returns the section of the plot, in one column or both.
    pub(super) fn section(&self, is_wide: bool) -> Markup {
        let Self { id, title, caption, table, .. } = self;
        html! {
            section class={ "card plot" (if is_wide { " wide" } else { "" }) } id=(id) {
                h2 { (title) }
                p class="caption" { (caption) }
                (self.legend())
                div class="frame" { (self.drawing()) }
                details {
                    summary { "These figures as a table" }
                    div class="scroll" { (table.markup(title)) }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul class="legend" {
                @for line in &self.lines { li { (swatch(line)) (line.name) } }
                @if self.warm_up.is_some() {
                    li {
                        svg class="swatch" aria-hidden="true" width="28" height="14" {
                            rect class="warm-up" width="100%" height="100%" {}
                        }
                        "warm-up"
                    }
                }
            }
        }
    }

    fn drawing(&self) -> Markup {
        let Self { id, title, description, x, y, .. } = self;
        let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
        html! {
            svg class="drawing" role="img" aria-labelledby={ (title_id) " " (text_id) } {
                title id=(title_id) { (title) }
                desc id=(text_id) { (description) }
                @if let Some(end) = self.warm_up {
                    rect class="warm-up" x="0" y="0" width=(percent(x.place(end))) height="100%" {}
                }
                g class="grid" {
                    @for mark in &y.marks {
                        line x1="0" x2="100%" y1=(percent(1.0 - mark.at))
                            y2=(percent(1.0 - mark.at)) {}
                        text x="-8" y=(percent(1.0 - mark.at)) dy="0.32em" text-anchor="end" {
                            (mark.label)
                        }
                    }
                    line class="base" x1="0" x2="100%" y1="100%" y2="100%" {}
                    @for mark in &x.marks {
                        text x=(percent(mark.at)) y="100%" dy="1.6em" text-anchor="middle" {
                            (mark.label)
                        }
                    }
                }
                svg class="lines" width="100%" height="100%" viewBox="0 0 1000 1000"
                    preserveAspectRatio="none" {
                    @for line in &self.lines {
                        @if line.is_filled() {
                            path class={ "fill " (line.stroke) } d=(self.area(line)) {}
                        }
                    }
                    @for line in &self.lines {
                        path class={ "line " (line.stroke) } d=(self.path_data(line)) {}
                    }
                }
                (self.thresholds())
                g class="spots" {
                    @for spot in &self.hover_regions {
                        rect x=(percent(x.place(spot.from))) y="0" height="100%"
                            width=(percent(x.place(spot.to) - x.place(spot.from))) {
                            title { (spot.text) }
                        }
                    }
                }
            }
        }
    }

    fn thresholds(&self) -> Markup {
        html! {
            @for bound in &self.thresholds {
                @let y = percent(1.0 - self.y.place(bound.at));
                g class="bound" {
                    line x1="0" x2="100%" y1=(y) y2=(y) {}
                    text x="0" dx="6" y=(y) dy="-0.45em" { (bound.label) }
                }
            }
        }
    }

    /// Returns the SVG path of a line. A single point is a dot.
    fn path_data(&self, line: &PlotLine) -> String {
        let mut path = String::new();
        let mut follows = false;
        for (index, (x, value)) in line.points.iter().enumerate() {
            let Some(value) = value else {
                follows = false;
                continue;
            };
            let (x, y) = self.position(*x, *value);
            let verb = if follows { 'L' } else { 'M' };
            // Writing to a string does not fail.
            write!(path, "{verb}{x:.1} {y:.1}").unwrap_or(());
            let goes_on = matches!(line.points.get(index + 1), Some((_, Some(_))));
            if !follows && !goes_on {
                path.push_str("h0.1");
            }
            follows = true;
        }
        path
    }

    /// Returns the SVG path of the area below a line.
    fn area(&self, line: &PlotLine) -> String {
        let mut area = String::new();
        for stretch in line.points.split(|(_, value)| value.is_none()) {
            let [(first, _), .., (last, _)] = stretch else { continue };
            let (first, last) = (self.x.place(*first) * 1e3, self.x.place(*last) * 1e3);
            write!(area, "M{first:.1} 1000").unwrap_or(());
            for (x, value) in stretch {
                let (x, y) = self.position(*x, value.unwrap_or_default());
                write!(area, "L{x:.1} {y:.1}").unwrap_or(());
            }
            write!(area, "L{last:.1} 1000Z").unwrap_or(());
        }
        area
    }

    fn position(&self, x: f64, value: f64) -> (f64, f64) {
        (self.x.place(x) * 1e3, (1.0 - self.y.place(value)) * 1e3)
    }
}

impl Table {
    /// Returns the table as HTML. The first column contains row headers.
    pub(super) fn markup(&self, caption: &str) -> Markup {
        html! {
            table {
                caption class="unseen" { (caption) }
                thead { tr { @for name in &self.head { th scope="col" { (name) } } } }
                tbody {
                    @for row in &self.rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @if index == 0 { th scope="row" { (cell) } }
                                @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the sample of a line in the legend.
fn swatch(line: &PlotLine) -> Markup {
    let path = if line.is_dots() { "M14 5h0.1" } else { "M1 5H27" };
    html! {
        svg class="swatch" aria-hidden="true" viewBox="0 0 28 10" width="28" height="10" {
            path class={ "line " (line.stroke) } d=(path) {}
        }
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}%", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, Option<f64>)>) -> Plot {
        Plot {
            id: "plot",
            title: "A <plot>",
            caption: String::new(),
            description: "& more".into(),
            x: Axis::time(10.0, |value| format!("{value}")),
            y: Axis::linear(98.0, |value| format!("{value}")),
            warm_up: Some(1.0),
            lines: vec![PlotLine { name: "line", stroke: "one filled", points }],
            thresholds: vec![ThresholdLine { at: 50.0, label: "half".into() }],
            hover_regions: vec![HoverRegion { from: 0.0, to: 5.0, text: "0 s: <5>".into() }],
            table: Table { head: vec!["x".into()], rows: vec![vec!["<1>".into()]] },
        }
    }

    #[test]
    fn line_gaps_split_path_into_segments() {
        let plot =
            plot(vec![(0.0, Some(0.0)), (5.0, Some(100.0)), (6.0, None), (10.0, Some(50.0))]);
        assert_eq!(plot.path_data(&plot.lines[0]), "M0.0 1000.0L500.0 0.0M1000.0 500.0h0.1");
        assert_eq!(plot.area(&plot.lines[0]), "M0.0 1000L0.0 1000.0L500.0 0.0L500.0 1000Z");
    }

    #[test]
    fn plot_has_title_description_and_table() {
        let text = plot(vec![(0.0, Some(1.0))]).section(false).into_string();
        for part in [
            r#"<svg class="drawing" role="img" aria-labelledby="plot-title plot-text">"#,
            r#"<title id="plot-title">A &lt;plot&gt;</title>"#,
            r#"<desc id="plot-text">&amp; more</desc>"#,
            "<title>0 s: &lt;5&gt;</title>",
            r#"<th scope="row">&lt;1&gt;</th>"#,
            "half",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
