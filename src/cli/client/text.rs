//! Text for a terminal: that of a server, clipped, without control characters, in columns; and the
//! progress of a call, as one line that is overwritten.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use corelane_client::Progress;

/// Longest line of a table, in characters.
pub(crate) const LINE_WIDTH: usize = 100;
/// Widest column but the last; a longer first cell has a line of its own, others are clipped.
const COLUMN_WIDTH_MAX: usize = 36;
/// Spaces between two columns.
const GAP: usize = 2;
/// What is shown instead of a character that is harmful on a terminal.
const REPLACEMENT: &str = "\u{fffd}";

/// Returns `text` on one line of `width` characters at most.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut clipped: String = text.chars().take(width.saturating_sub(1)).collect();
    clipped.truncate(clipped.trim_end().len());
    clipped.push('…');
    clipped
}

/// Returns whether a terminal interprets `character`, or shows the text around it in another order
/// or not at all: control characters of C0 and C1, line separators, characters that change the
/// direction of text (Unicode Standard Annex 9), and tags (Unicode, section 23.9).
pub(crate) const fn is_harmful(character: char) -> bool {
    matches!(
        character,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Returns `text` with each run of white space and control characters as one space. Other
/// characters that are harmful on a terminal are replaced.
pub(crate) fn one_line(text: &str) -> String {
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.contains(is_harmful) { line.replace(is_harmful, REPLACEMENT) } else { line }
}

/// Returns the words of `text` in lines of `width` characters at most; a longer word is not broken.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in one_line(text).split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Replaces the characters that are harmful on a terminal, but tabs and line breaks.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_replaced = |character: char| is_harmful(character) && !matches!(character, '\n' | '\t');
    if text.contains(is_replaced) {
        text.replace(is_replaced, REPLACEMENT).into()
    } else {
        text.into()
    }
}

/// Returns a JSON text of the same value without characters that are harmful on a terminal: in
/// strings they are escaped (RFC 8259, section 7), between values they are spaces.
pub(crate) fn printable_json(text: &str) -> Cow<'_, str> {
    let is_replaced = |character: char| is_harmful(character) && !matches!(character, '\n' | '\t');
    if !text.contains(is_replaced) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        match character {
            // No string contains it unescaped.
            '\r' => out.push(' '),
            _ if is_replaced(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    write!(out, "\\u{unit:04x}").unwrap_or(());
                }
            }
            _ => out.push(character),
        }
    }
    out.into()
}

/// Writes rows of aligned columns. The last column is clipped at [`LINE_WIDTH`].
pub(crate) fn write_rows(
    out: &mut impl Write,
    indent: usize,
    rows: &[Vec<String>],
) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| one_line(cell).chars().count());
        widths.filter(|width| *width <= COLUMN_WIDTH_MAX).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (column, cell) in row.iter().enumerate() {
            let start = indent + widths[..column].iter().map(|width| width + GAP).sum::<usize>();
            if column > 0 && line.chars().count() + GAP > start {
                writeln!(out, "{}", line.trim_end())?;
                line.clear();
            }
            let padding = start.saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', padding));
            match column {
                0 => line.push_str(&one_line(cell)),
                _ if column + 1 < columns => line.push_str(&clip(cell, widths[column])),
                _ => line.push_str(&clip(cell, LINE_WIDTH.saturating_sub(start).max(20))),
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Characters of the bar.
const BAR_WIDTH: usize = 20;
/// Longest line of progress, below the width of the usual terminal.
const PROGRESS_WIDTH: usize = 79;

/// The line on standard error.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    is_shown: AtomicBool,
}

impl ProgressLine {
    /// Returns whether progress can be shown.
    pub(crate) fn is_supported() -> bool {
        io::stderr().is_terminal()
    }

    /// Replaces the line. Write errors are ignored.
    pub(crate) fn show(&self, progress: &Progress) {
        self.is_shown.store(true, Ordering::Relaxed);
        let mut out = io::stderr().lock();
        write!(out, "\r\x1b[K{}", format_progress(progress)).and_then(|()| out.flush()).ok();
    }

    /// Removes the line, if there is one.
    pub(crate) fn clear(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            let mut out = io::stderr().lock();
            write!(out, "\r\x1b[K").and_then(|()| out.flush()).ok();
        }
    }
}

fn format_progress(progress: &Progress) -> String {
    let message = progress.message.as_deref().unwrap_or_default();
    let amount = progress.progress;
    let line = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let share = (amount / total).clamp(0.0, 1.0);
            let cells = (1..=BAR_WIDTH).map(|cell| cells_done(share, cell));
            let bar: String = cells.collect();
            format!("[{bar}] {:.0} % ({amount}/{total}) {message}", share * 100.0)
        }
        None => format!("{amount} {message}"),
    };
    clip(&line, PROGRESS_WIDTH)
}

/// Returns the character of a cell of the bar, counted from 1.
fn cells_done(share: f64, cell: usize) -> char {
    #[expect(clippy::cast_precision_loss, reason = "a few cells")]
    let end = cell as f64 / BAR_WIDTH as f64;
    if end <= share { '#' } else { '-' }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[&[&str]]) -> String {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect();
        let mut out = Vec::new();
        write_rows(&mut out, 2, &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_clipped() {
        let long = "word ".repeat(40);
        let text = written(&[&["a", "number", ""], &["longer", "string", &long]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  a       number");
        assert!(lines[1].starts_with("  longer  string  word word"), "{text}");
        assert!(lines[1].ends_with('…') && lines[1].chars().count() <= LINE_WIDTH, "{text}");
    }

    #[test]
    fn long_first_cell_has_its_own_line() {
        let uri = "x".repeat(90);
        let text = written(&[&["a", "first"], &[&uri, "second"]]);
        assert_eq!(text, format!("  a  first\n  {uri}\n     second\n"));
    }

    #[test]
    fn words_are_wrapped_at_width() {
        assert_eq!(wrap("a bc def gh", 4), ["a bc", "def", "gh"]);
        assert_eq!(wrap("abcdef g", 4), ["abcdef", "g"]);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\x1b[2Jb\n\tc"), "a\u{fffd}[2Jb\n\tc");
        assert_eq!(clip(" a\x1b\n b  c ", 9), "a b c");
        assert_eq!(clip("abcdef", 4), "abc…");
    }

    #[test]
    fn invisible_characters_are_replaced() {
        for harmful in ['\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{e0041}'] {
            let text = format!("a{harmful}b");
            assert_eq!(printable(&text), "a\u{fffd}b", "{harmful:?}");
            assert!(!one_line(&text).contains(harmful), "{harmful:?}");
        }
        // Joiners are part of words and of emoji.
        assert_eq!(printable("می\u{200c}خواهم"), "می\u{200c}خواهم");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value =
            serde_json::json!({ "a\u{202e}": ["\u{7f}\u{9b}2J", "\u{e0041}", "é\n\u{1b}"] });
        let text = format!("{value}\r\n");
        let escaped = printable_json(&text);
        assert!(!escaped.contains(|it| is_harmful(it) && it != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(escaped.contains(r"\udb40\udc41"), "{escaped}");
        assert_eq!(printable_json("{\"a\":1}"), "{\"a\":1}");
    }

    fn progress(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
        let mut shown = Progress::default();
        (shown.progress, shown.total) = (progress, total);
        shown.message = message.map(str::to_owned);
        format_progress(&shown)
    }

    #[test]
    fn bar_shows_share_of_total() {
        let half = progress(5.0, Some(10.0), Some("half\x1b"));
        assert_eq!(half, "[##########----------] 50 % (5/10) half");
        assert!(progress(20.0, Some(10.0), None).starts_with("[####################] 100 %"));
        assert_eq!(progress(3.0, None, Some("steps")), "3 steps");
        assert_eq!(progress(3.0, Some(0.0), None), "3");
    }

    #[test]
    fn long_message_is_clipped() {
        assert_eq!(progress(1.0, None, Some(&"x".repeat(200))).chars().count(), PROGRESS_WIDTH);
    }
}
