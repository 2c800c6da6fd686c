//! A plot as inline SVG, with what it shows as a table behind it.
//!
//! What it keeps true: a plot fills its column, however wide, and its text and strokes keep their
//! sizes: lines stand in a drawing of 1,000 by 1,000 that is stretched, text and marks in percent
//! around it. Lines differ by colour and by stroke; colours are classes of the page's style.
//!
//! What it does not do: need a script. Values show where the pointer rests, by `<title>`.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::axis::Axis;

/// A line of a plot.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What it is, as the legend says it.
    pub(super) name: &'static str,
    /// Its stroke: a class of the style.
    pub(super) stroke: &'static str,
    /// Its points; a gap is a point without a value.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

impl Line {
    /// A line with a stroke of the style; one that is `filled` is tinted below, one of `dots` has
    /// a gap behind each point.
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

/// A bound that is drawn across.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) at: f64,
    pub(super) label: String,
}

/// A part of the plot that tells its values where the pointer rests.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) text: String,
}

/// The same in words and numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Its name in the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What is plotted over what, below the title.
    pub(super) caption: String,
    /// What is to be seen, for those who do not see it.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Until where nothing was measured.
    pub(super) warm_up: Option<f64>,
    pub(super) lines: Vec<Line>,
    pub(super) bounds: Vec<Bound>,
    pub(super) spots: Vec<Spot>,
    pub(super) table: Table,
}

/// The sections of plots that stand in pairs; the last may stand alone.
pub(super) fn pairs(plots: &[Plot]) -> Markup {
    html! {
        @for (index, plot) in plots.iter().enumerate() {
            (plot.section(index + 1 == plots.len() && index % 2 == 0))
        }
    }
}

impl Plot {
    /// The section of the page that holds it, in a column of its own or across all.
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
                        path class={ "line " (line.stroke) } d=(self.path(line)) {}
                    }
                }
                (self.bounds())
                g class="spots" {
                    @for spot in &self.spots {
                        rect x=(percent(x.place(spot.from))) y="0" height="100%"
                            width=(percent(x.place(spot.to) - x.place(spot.from))) {
                            title { (spot.text) }
                        }
                    }
                }
            }
        }
    }

    fn bounds(&self) -> Markup {
        html! {
            @for bound in &self.bounds {
                @let y = percent(1.0 - self.y.place(bound.at));
                g class="bound" {
                    line x1="0" x2="100%" y1=(y) y2=(y) {}
                    text x="0" dx="6" y=(y) dy="-0.45em" { (bound.label) }
                }
            }
        }
    }

    /// A line, in the units of the stretched drawing. A point alone is a dot.
    fn path(&self, line: &Line) -> String {
        let mut path = String::new();
        let mut follows = false;
        for (index, (x, value)) in line.points.iter().enumerate() {
            let Some(value) = value else {
                follows = false;
                continue;
            };
            let (x, y) = self.spot(*x, *value);
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

    /// What is below a line.
    fn area(&self, line: &Line) -> String {
        let mut area = String::new();
        for stretch in line.points.split(|(_, value)| value.is_none()) {
            let [(first, _), .., (last, _)] = stretch else { continue };
            let (first, last) = (self.x.place(*first) * 1e3, self.x.place(*last) * 1e3);
            write!(area, "M{first:.1} 1000").unwrap_or(());
            for (x, value) in stretch {
                let (x, y) = self.spot(*x, value.unwrap_or_default());
                write!(area, "L{x:.1} {y:.1}").unwrap_or(());
            }
            write!(area, "L{last:.1} 1000Z").unwrap_or(());
        }
        area
    }

    fn spot(&self, x: f64, value: f64) -> (f64, f64) {
        (self.x.place(x) * 1e3, (1.0 - self.y.place(value)) * 1e3)
    }
}

impl Table {
    /// As a table of the page. The first column names the row.
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

/// A piece of a line, for the legend.
fn swatch(line: &Line) -> Markup {
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
            lines: vec![Line { name: "line", stroke: "one filled", points }],
            bounds: vec![Bound { at: 50.0, label: "half".into() }],
            spots: vec![Spot { from: 0.0, to: 5.0, text: "0 s: <5>".into() }],
            table: Table { head: vec!["x".into()], rows: vec![vec!["<1>".into()]] },
        }
    }

    #[test]
    fn a_line_is_drawn_in_stretches_and_a_point_alone_is_a_dot() {
        let plot =
            plot(vec![(0.0, Some(0.0)), (5.0, Some(100.0)), (6.0, None), (10.0, Some(50.0))]);
        assert_eq!(plot.path(&plot.lines[0]), "M0.0 1000.0L500.0 0.0M1000.0 500.0h0.1");
        assert_eq!(plot.area(&plot.lines[0]), "M0.0 1000L0.0 1000.0L500.0 0.0L500.0 1000Z");
    }

    #[test]
    fn a_plot_has_a_title_a_description_and_its_values_in_words() {
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
