//! Progress of a run: one line a second, or a block that is redrawn each second.
//!
//! No line of a block is wider than the terminal, so that the number of lines to redraw is known.
//! This module only formats; the caller writes to the terminal.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::sparkline::draw_sparkline;
use crate::figure;
use crate::plan::Plan;
use crate::result::SecondResult;

/// Seconds shown by a sparkline.
const SECONDS_SHOWN: usize = 60;
/// Columns of the name and value before a sparkline.
const BEFORE_SPARK: usize = 23;

/// Formats the line of a second.
pub fn format_line(second: &SecondResult) -> String {
    let server = second
        .server_resident_bytes
        .map(|bytes| format!("  server {}", figure::bytes(bytes)))
        .unwrap_or_default();
    let rate = second.rate(second.answered).map_or_else(|| "–".into(), figure::rate);
    let users = users_text("  ", second);
    format!(
        "{:>8}  {rate:>10}/s  p50 {:>8}  p99 {:>8}  max {:>8}  failed {}  open {}{users}{server}",
        figure::elapsed(second.at_s),
        figure::latency(second.p50_us),
        figure::latency(second.p99_us),
        figure::latency(second.max_us),
        figure::count(second.failed),
        figure::count(second.open),
    )
}

/// Returns the number of users, if there are any, behind `before`.
fn users_text(before: &str, second: &SecondResult) -> String {
    match second.users {
        0 => String::new(),
        users => format!("{before}users {}", figure::count(users)),
    }
}

/// A block that is redrawn each second.
#[derive(Clone, Debug)]
pub struct ProgressBlock {
    target: String,
    /// How long the run takes.
    extent: String,
    is_coloured: bool,
    rates: VecDeque<Option<f64>>,
    p99s: VecDeque<Option<f64>>,
    failed: u64,
    /// The last second that was long enough for a rate.
    latest: SecondResult,
    lines: usize,
}

impl ProgressBlock {
    /// Returns a block for a run of this plan.
    pub fn new(plan: &Plan, is_coloured: bool) -> Self {
        // Control characters could be terminal escape sequences.
        let target = plan.target.replace(char::is_control, "�");
        let extent = match plan.requests {
            Some(requests) => format!("until {} requests", figure::count(requests)),
            None => format!("of {}", figure::elapsed(plan.profile().span().as_secs_f64())),
        };
        Self {
            target,
            extent,
            is_coloured,
            rates: VecDeque::new(),
            p99s: VecDeque::new(),
            failed: 0,
            latest: SecondResult::default(),
            lines: 0,
        }
    }

    /// Formats the block after a second, for a terminal of this width: an escape sequence that
    /// moves the cursor over the previous block, then the lines.
    pub fn draw(&mut self, second: &SecondResult, columns: usize) -> String {
        self.failed += second.failed;
        let rate = second.rate(second.answered);
        // The remainder after the last second is too short for a rate.
        if rate.is_some() || self.latest.span_s <= 0.0 {
            for (values, value) in [(&mut self.rates, rate), (&mut self.p99s, second.p99_us)] {
                values.push_back(value);
                values.drain(..values.len().saturating_sub(SECONDS_SHOWN));
            }
            self.latest = second.clone();
        }
        let lines = self.format_lines(second.at_s, columns.saturating_sub(1));
        let mut text = match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        };
        for line in &lines {
            text.push('\r');
            text.push_str(line);
            // Erases the rest of the previous line.
            text.push_str("\x1b[K\n");
        }
        self.lines = lines.len();
        text
    }

    fn format_lines(&mut self, at_s: f64, columns: usize) -> Vec<String> {
        let second = &self.latest;
        let rate = second.rate(second.answered);
        let rate =
            rate.map_or_else(|| "warm-up".into(), |rate| format!("{}/s", figure::rate(rate)));
        let spark_columns = columns.saturating_sub(BEFORE_SPARK);
        let rates = draw_sparkline(self.rates.make_contiguous(), spark_columns);
        let p99s = draw_sparkline(self.p99s.make_contiguous(), spark_columns);
        let cost = second.server_resident_bytes.map(|bytes| {
            let cores = second.server_cores.map(figure::digits);
            let cores = cores.map(|cores| format!(", {cores} cores")).unwrap_or_default();
            format!(" · server {}{cores}", figure::bytes(bytes))
        });
        let failed = if self.failed > 0 { TextStyle::Error } else { TextStyle::Plain };
        [
            vec![
                (TextStyle::Bold, self.target.clone()),
                (TextStyle::Dim, format!(" · {} {}", figure::elapsed(at_s), self.extent)),
            ],
            vec![
                (TextStyle::Dim, format!("{:<7}", "rate")),
                (TextStyle::Bold, format!("{rate:>14}  ")),
                (TextStyle::Rate, rates),
            ],
            vec![
                (TextStyle::Dim, format!("{:<7}", "p99")),
                (TextStyle::Bold, format!("{:>14}  ", figure::latency(second.p99_us))),
                (TextStyle::Latency, p99s),
            ],
            vec![
                (TextStyle::Dim, "p50 ".into()),
                (TextStyle::Plain, figure::latency(second.p50_us)),
                (TextStyle::Dim, " · max ".into()),
                (TextStyle::Plain, figure::latency(second.max_us)),
                (failed, format!(" · failed {}", figure::count(self.failed))),
                (TextStyle::Dim, " · open ".into()),
                (TextStyle::Plain, figure::count(second.open)),
                (TextStyle::Plain, users_text(" · ", second)),
                (TextStyle::Plain, cost.unwrap_or_default()),
            ],
        ]
        .map(|line| self.format_line(line, columns))
        .to_vec()
    }

    /// Formats a line, truncated to the width of the terminal.
    fn format_line(&self, line: Vec<(TextStyle, String)>, columns: usize) -> String {
        let (mut text, mut left) = (String::new(), columns);
        for (style, part) in line {
            let part: String = part.chars().take(left).collect();
            left -= part.chars().count();
            match style.code() {
                Some(code) if self.is_coloured && !part.is_empty() => {
                    // Writing to a string does not fail.
                    write!(text, "\x1b[{code}m{part}\x1b[0m").unwrap_or(());
                }
                _ => text.push_str(&part),
            }
        }
        text
    }
}

/// The style of a part of a line, if colours are enabled.
#[derive(Clone, Copy, Debug)]
enum TextStyle {
    Plain,
    Dim,
    Bold,
    Rate,
    Latency,
    Error,
}

impl TextStyle {
    /// Returns the SGR parameters (ECMA-48), using colours of the terminal's theme.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
            Self::Rate => Some("36"),
            Self::Latency => Some("33"),
            Self::Error => Some("1;31"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{HumanDuration, PhasePlan};

    fn second(at: u32) -> SecondResult {
        SecondResult {
            at_s: f64::from(at),
            span_s: 1.0,
            answered: 12_345,
            p99_us: Some(312.4),
            open: 1_000,
            users: 30,
            server_resident_bytes: Some(13_002_342),
            ..SecondResult::default()
        }
    }

    /// Returns a block for a run of 20 seconds, 2 of them of warm-up.
    fn block(target: &str, is_coloured: bool) -> ProgressBlock {
        let phases = vec![PhasePlan::constant(1.0, HumanDuration::from_secs(18))];
        ProgressBlock::new(&Plan { phases, ..Plan::new(target) }, is_coloured)
    }

    #[test]
    fn progress_line_shows_rate_latencies_and_memory() {
        let line = format_line(&second(12));
        for part in ["12 s", "12,345/s", "p99   312 µs", "open 1,000  users 30", "server 12.4 MiB"]
        {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn redrawn_block_moves_over_previous_lines() {
        let mut block = block("tcp://localhost:1", false);
        let first = block.draw(&second(1), 80);
        assert!(!first.contains("\x1b[4A") && first.lines().count() == 4, "{first:?}");
        let next = block.draw(&second(2), 80);
        assert!(next.starts_with("\x1b[4A\r") && next.contains("██"), "{next:?}");
        assert!(next.contains("2 s of 20 s"), "{next:?}");
        let mut plan = Plan::new("tcp://localhost:1");
        plan.requests = Some(5_000);
        let counted = ProgressBlock::new(&plan, false).draw(&second(1), 80);
        assert!(counted.contains("1 s until 5,000 requests"), "{counted:?}");
    }

    #[test]
    fn block_is_never_wider_than_terminal() {
        for columns in [0, 1, 20, 40, 80, 200] {
            let mut block = block("tcp://a-very-long-name.example:1", false);
            let drawn = (1..100).map(|at| block.draw(&second(at), columns)).last();
            let text = drawn.unwrap_or_default().replace("\x1b[K", "").replace("\x1b[4A", "");
            let widths = text.lines().map(|line| line.trim_matches('\r').chars().count());
            assert!(widths.max().unwrap_or_default() <= columns.saturating_sub(1), "{text}");
        }
    }

    #[test]
    fn plain_block_has_no_escape_sequences() {
        let (mut plain, mut painted) = (block("a\x1b[2Jb", false), block("a", true));
        assert!(
            !plain.draw(&second(1), 80).contains('m')
                || !plain.draw(&second(1), 80).contains("\x1b[1m")
        );
        assert!(!plain.draw(&second(1), 80).contains("\x1b[2J"));
        assert!(painted.draw(&second(1), 80).contains("\x1b[36m"));
    }
}
