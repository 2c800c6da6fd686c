//! Text of a request with random values in its arguments.
//!
//! | placeholder | value |
//! | --- | --- |
//! | `{{uuid}}` | a random UUID (RFC 9562, version 4) |
//! | `{{int FIRST LAST}}` | a random integer of this range |
//! | `{{line FILE}}` | a random line of the file |
//! | `{{id}}` | the id of the request |
//!
//! Invariants: values depend only on the seed and on the number of the request, which differs
//! between the requests of a run. A text that consists of `{{int …}}` alone becomes a number.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corelane_base::random::Random;

/// Placeholder of the id, which the request template inserts.
pub(super) const ID_PLACEHOLDER: &str = "{{id}}";

/// A part of the text.
#[derive(Clone, Debug)]
enum TextPart {
    Literal(String),
    Id,
    Uuid,
    Int {
        first: i64,
        /// Number of values.
        count: usize,
    },
    /// Lines, escaped for a JSON string.
    Line(Vec<String>),
}

/// JSON text with placeholders.
#[derive(Clone, Debug)]
pub(super) struct VaryingText {
    parts: Vec<TextPart>,
    seed: u64,
    /// Number of the next request, of all load threads.
    next: Arc<AtomicU64>,
}

impl VaryingText {
    /// Parses serialized JSON with placeholders in its strings.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if a placeholder is unknown or a file cannot be read.
    pub(super) fn parse(text: &str, seed: u64) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once("{{") {
            let (inner, behind) = behind
                .split_once("}}")
                .ok_or_else(|| "a placeholder has no end: write }} behind it".to_owned())?;
            let part = parse_placeholder(inner)?;
            let is_alone = before.ends_with('"')
                && behind.strip_prefix('"').is_some_and(|behind| !behind.starts_with(':'));
            let (before, behind) = match part {
                TextPart::Int { .. } if is_alone => (&before[..before.len() - 1], &behind[1..]),
                _ => (before, behind),
            };
            parts.extend([TextPart::Literal(before.into()), part]);
            rest = behind;
        }
        parts.push(TextPart::Literal(rest.into()));
        Ok(Self { parts, seed, next: Arc::default() })
    }

    /// Returns the text of the next request.
    pub(super) fn render(&self, id: u64) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::seeded(Random::seeded(self.seed ^ number).next_u64());
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Line(lines) => text.push_str(&lines[random.below(lines.len())]),
                // Writing to a string does not fail.
                TextPart::Id => write!(text, "{id}").unwrap_or(()),
                TextPart::Uuid => write_uuid(&mut text, &mut random),
                TextPart::Int { first, count } => {
                    let offset = i64::try_from(random.below(*count)).unwrap_or_default();
                    write!(text, "{}", first.saturating_add(offset)).unwrap_or(());
                }
            }
        }
        text
    }
}

/// Writes a UUID of version 4.
fn write_uuid(text: &mut String, random: &mut Random) {
    let value = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let value = value & !(0xF << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{value:032x}");
    for (place, digit) in digits.chars().enumerate() {
        if matches!(place, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
}

/// Parses what stands between the braces of a placeholder, escaped as in JSON.
fn parse_placeholder(inner: &str) -> Result<TextPart, String> {
    let unescaped: Result<String, _> = serde_json::from_str(&format!("\"{inner}\""));
    let inner = unescaped.unwrap_or_else(|_| inner.to_owned());
    let (name, value) = inner.trim().split_once(' ').unwrap_or_else(|| (inner.trim(), ""));
    match (name, value.trim()) {
        ("id", "") => Ok(TextPart::Id),
        ("uuid", "") => Ok(TextPart::Uuid),
        ("int", range) => parse_range(range)
            .ok_or_else(|| format!("invalid range in {{{{{inner}}}}}: write {{{{int 1 100}}}}")),
        ("line", path) if !path.is_empty() => read_lines(path).map(TextPart::Line),
        _ => Err(format!(
            "unknown placeholder {{{{{inner}}}}}: write {{{{uuid}}}}, {{{{int FIRST LAST}}}}, \
             {{{{line FILE}}}} or {{{{id}}}}"
        )),
    }
}

fn parse_range(range: &str) -> Option<TextPart> {
    let (first, last) = range.split_once(' ')?;
    let (first, last) = (first.parse::<i64>().ok()?, last.trim().parse::<i64>().ok()?);
    let count = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
    Some(TextPart::Int { first, count })
}

fn read_lines(path: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {path}: {error}; name a file of lines"))?;
    let escape = |line: &str| {
        let quoted = serde_json::Value::from(line).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(escape).collect();
    if lines.is_empty() { Err(format!("{path} has no lines")) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    fn rendered(value: &Value, count: u64) -> Vec<Value> {
        let text = VaryingText::parse(&value.to_string(), 7).unwrap();
        (0..count).map(|id| serde_json::from_str(&text.render(id)).unwrap()).collect()
    }

    #[test]
    fn uuid_placeholder_is_unique_and_valid() {
        let made = rendered(&json!({ "a": "x-{{uuid}}" }), 1_000);
        let texts: BTreeSet<&str> = made.iter().map(|made| made["a"].as_str().unwrap()).collect();
        assert_eq!(texts.len(), 1_000);
        for text in texts {
            let uuid: Vec<char> = text.strip_prefix("x-").unwrap().chars().collect();
            assert_eq!((uuid.len(), uuid[8], uuid[14]), (36, '-', '4'), "{text}");
            assert!("89ab".contains(uuid[19]), "{text}");
        }
    }

    #[test]
    fn int_placeholder_alone_is_number_in_range() {
        let made = rendered(&json!({ "a": "{{int -1 3}}", "b": "{{int 5 5}}!" }), 1_000);
        let numbers: BTreeSet<i64> = made.iter().map(|made| made["a"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (-1..=3).collect());
        assert!(made.iter().all(|made| made["b"] == "5!"));
    }

    #[test]
    fn line_placeholder_takes_lines_of_file() {
        let path = std::env::temp_dir().join(format!("lines-{}\"", std::process::id()));
        std::fs::write(&path, "one \"1\"\n\ntwo\n").unwrap();
        let made = rendered(&json!({ "a": format!("{{{{line {}}}}}", path.display()) }), 100);
        std::fs::remove_file(&path).unwrap();
        let lines: BTreeSet<&str> = made.iter().map(|made| made["a"].as_str().unwrap()).collect();
        assert_eq!(lines, ["one \"1\"", "two"].into());
    }

    #[test]
    fn invalid_placeholder_is_reported() {
        for (text, part) in [
            ("{{uid}}", "unknown placeholder {{uid}}"),
            ("{{int 5 1}}", "{{int 1 100}}"),
            ("{{int}}", "{{int 1 100}}"),
            ("{{line /nowhere}}", "cannot read /nowhere"),
            ("{{line}}", "{{line FILE}}"),
            ("{{uuid", "no end"),
        ] {
            let error = VaryingText::parse(&json!(text).to_string(), 1).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
