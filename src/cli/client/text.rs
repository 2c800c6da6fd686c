//! Text of a server for a terminal: clipped, without control characters, in columns.

use std::borrow::Cow;
use std::io::{self, Write};

/// Longest line of a table, in characters.
pub(crate) const LINE_WIDTH: usize = 100;
/// Widest column but the last; a longer first cell has a line of its own, others are clipped.
const COLUMN_WIDTH_MAX: usize = 36;
/// Spaces between two columns.
const GAP: usize = 2;

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

/// Returns `text` with each run of white space and control characters as one space.
pub(crate) fn one_line(text: &str) -> String {
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
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

/// Replaces control characters but tabs and line breaks, which a terminal would interpret.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if text.contains(is_harmful) {
        text.replace(is_harmful, "\u{fffd}").into()
    } else {
        text.into()
    }
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
}
