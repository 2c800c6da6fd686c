//! What a run has come to so far: a line a second, or a block that is drawn anew each second.
//!
//! What it keeps true: no line of a block is wider than the terminal, so that as many lines are
//! taken back as were written; without colours it says the same.
//!
//! What it does not do: write. Whoever has the terminal does, and knows how wide it is.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::figure;
use super::spark::spark;
use crate::result::SecondResult;

/// Seconds that a sparkline shows.
const SECONDS_SHOWN: usize = 60;
/// Columns for the name of a value and the value, before its sparkline.
const BEFORE_SPARK: usize = 23;

/// The line of a second.
pub fn line(second: &SecondResult) -> String {
    let server = second
        .server_resident_bytes
        .map(|bytes| format!("  server {}", figure::bytes(bytes)))
        .unwrap_or_default();
    let duration = |us| if second.answered > 0 { figure::duration(us) } else { "–".into() };
    let rate = second.rate(second.answered).map_or_else(|| "–".into(), figure::rate);
    format!(
        "{:>8}  {rate:>10}/s  p50 {:>8}  p99 {:>8}  max {:>8}  failed {}  open {}{server}",
        figure::moment(second.at_s),
        duration(second.p50_us),
        duration(second.p99_us),
        duration(second.max_us),
        figure::count(second.failed),
        figure::count(second.open),
    )
}

/// A block that is drawn anew each second.
#[derive(Clone, Debug)]
pub struct Block {
    target: String,
    span_s: f64,
    is_coloured: bool,
    rates: VecDeque<Option<f64>>,
    p99s: VecDeque<Option<f64>>,
    failed: u64,
    /// The last second that was long enough to say anything.
    latest: SecondResult,
    lines: usize,
}

impl Block {
    /// Nothing drawn yet of a run of so many seconds, warm-up included.
    pub fn new(target: impl Into<String>, span_s: f64, is_coloured: bool) -> Self {
        // What a terminal would take for an order is no part of a name.
        let target = target.into().replace(char::is_control, "�");
        Self {
            target,
            span_s,
            is_coloured,
            rates: VecDeque::new(),
            p99s: VecDeque::new(),
            failed: 0,
            latest: SecondResult::default(),
            lines: 0,
        }
    }

    /// The block after a second, for a terminal of so many columns: first what takes the one before
    /// back, then its lines.
    pub fn draw(&mut self, second: &SecondResult, columns: usize) -> String {
        self.failed += second.failed;
        let rate = second.rate(second.answered);
        // The short rest of a run says nothing new.
        if rate.is_some() || self.latest.span_s <= 0.0 {
            for (values, value) in [
                (&mut self.rates, rate),
                (&mut self.p99s, (second.answered > 0).then_some(second.p99_us)),
            ] {
                values.push_back(value);
                values.drain(..values.len().saturating_sub(SECONDS_SHOWN));
            }
            self.latest = second.clone();
        }
        let lines = self.shown(second.at_s, columns.saturating_sub(1));
        let mut text = match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        };
        for line in &lines {
            text.push('\r');
            text.push_str(line);
            // What is left of the line before.
            text.push_str("\x1b[K\n");
        }
        self.lines = lines.len();
        text
    }

    fn shown(&mut self, at_s: f64, columns: usize) -> Vec<String> {
        let second = &self.latest;
        let known = second.answered > 0;
        let duration = |us| if known { figure::duration(us) } else { "–".into() };
        let rate = second.rate(second.answered);
        let rate =
            rate.map_or_else(|| "warm-up".into(), |rate| format!("{}/s", figure::rate(rate)));
        let spark_columns = columns.saturating_sub(BEFORE_SPARK);
        let rates = spark(self.rates.make_contiguous(), spark_columns);
        let p99s = spark(self.p99s.make_contiguous(), spark_columns);
        let cost = second.server_resident_bytes.map(|bytes| {
            let cores = second.server_cores.map(figure::digits);
            let cores = cores.map(|cores| format!(", {cores} cores")).unwrap_or_default();
            format!(" · server {}{cores}", figure::bytes(bytes))
        });
        let failed = if self.failed > 0 { Style::Alarm } else { Style::Plain };
        let of = figure::moment(self.span_s);
        [
            vec![
                (Style::Strong, self.target.clone()),
                (Style::Soft, format!(" · {} of {of}", figure::moment(at_s))),
            ],
            vec![
                (Style::Soft, format!("{:<7}", "rate")),
                (Style::Strong, format!("{rate:>14}  ")),
                (Style::Rate, rates),
            ],
            vec![
                (Style::Soft, format!("{:<7}", "p99")),
                (Style::Strong, format!("{:>14}  ", duration(second.p99_us))),
                (Style::Latency, p99s),
            ],
            vec![
                (Style::Soft, "p50 ".into()),
                (Style::Plain, duration(second.p50_us)),
                (Style::Soft, " · max ".into()),
                (Style::Plain, duration(second.max_us)),
                (failed, format!(" · failed {}", figure::count(self.failed))),
                (Style::Soft, " · open ".into()),
                (Style::Plain, figure::count(second.open)),
                (Style::Plain, cost.unwrap_or_default()),
            ],
        ]
        .map(|line| self.painted(line, columns))
        .to_vec()
    }

    /// The parts of a line, cut at the edge of the terminal.
    fn painted(&self, line: Vec<(Style, String)>, columns: usize) -> String {
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

/// How a part of a line looks where colours are wanted.
#[derive(Clone, Copy, Debug)]
enum Style {
    Plain,
    Soft,
    Strong,
    Rate,
    Latency,
    Alarm,
}

impl Style {
    /// What a terminal is told (ECMA-48, SGR): its own colours, which fit its background.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Soft => Some("2"),
            Self::Strong => Some("1"),
            Self::Rate => Some("36"),
            Self::Latency => Some("33"),
            Self::Alarm => Some("1;31"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u32) -> SecondResult {
        SecondResult {
            at_s: f64::from(at),
            span_s: 1.0,
            answered: 12_345,
            p99_us: 312.4,
            open: 1_000,
            server_resident_bytes: Some(13_002_342),
            ..SecondResult::default()
        }
    }

    #[test]
    fn a_line_says_rate_latencies_and_what_the_server_takes() {
        let line = line(&second(12));
        for part in ["12 s", "12,345/s", "p99   312 µs", "open 1,000", "server 12.4 MiB"] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn a_block_takes_back_as_many_lines_as_it_wrote() {
        let mut block = Block::new("tcp://localhost:1", 20.0, false);
        let first = block.draw(&second(1), 80);
        assert!(!first.contains("\x1b[4A") && first.lines().count() == 4, "{first:?}");
        let next = block.draw(&second(2), 80);
        assert!(next.starts_with("\x1b[4A\r") && next.contains("██"), "{next:?}");
        assert!(next.contains("2 s of 20 s"), "{next:?}");
    }

    #[test]
    fn a_block_is_never_wider_than_its_terminal() {
        for columns in [0, 1, 20, 40, 80, 200] {
            let mut block = Block::new("tcp://a-very-long-name.example:1", 1e4, false);
            let drawn = (1..100).map(|at| block.draw(&second(at), columns)).last();
            let text = drawn.unwrap_or_default().replace("\x1b[K", "").replace("\x1b[4A", "");
            let widths = text.lines().map(|line| line.trim_matches('\r').chars().count());
            assert!(widths.max().unwrap_or_default() <= columns.saturating_sub(1), "{text}");
        }
    }

    #[test]
    fn without_colours_there_are_none_and_no_name_gives_orders() {
        let (mut plain, mut painted) =
            (Block::new("a\x1b[2Jb", 1.0, false), Block::new("a", 1.0, true));
        assert!(
            !plain.draw(&second(1), 80).contains('m')
                || !plain.draw(&second(1), 80).contains("\x1b[1m")
        );
        assert!(!plain.draw(&second(1), 80).contains("\x1b[2J"));
        assert!(painted.draw(&second(1), 80).contains("\x1b[36m"));
    }
}
