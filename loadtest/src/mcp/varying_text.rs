//! Text of a request with values that differ between requests.
//!
//! | placeholder | value |
//! | --- | --- |
//! | `{{uuid}}` | a random UUID (RFC 9562, version 4) |
//! | `{{int FIRST LAST}}` | a random integer of this range |
//! | `{{line FILE}}` | a random line of the file |
//! | `{{id}}` | the id of the request |
//!
//! In a scenario also:
//!
//! | placeholder | value |
//! | --- | --- |
//! | `{{value NAME}}` | a value that a step has taken from a result |
//! | `{{user COLUMN}}` | a field of the user's row of the data |
//! | `{{user}}`, `{{iteration}}` | the number of the user and of its iteration, from 0 |
//!
//! Invariants: values depend only on the seed and on the number of the request, which differs
//! between the requests of a run, or on the step of a user. A text that consists of `{{int …}}`,
//! `{{user}}` or `{{iteration}}` alone becomes a number, one of `{{value …}}` alone the value with
//! its type. A member whose value was not taken is left out.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corelane_base::random::Random;

use super::user_values::{UserValues, ValueNames};

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
    /// A taken value inside a text.
    Taken(usize),
    /// A taken value alone in its text.
    TakenAlone {
        slot: usize,
        /// The name of its member with quotes and colon; `None` in an array.
        key: Option<String>,
    },
    /// A field of the user's row.
    Field(usize),
    User,
    Iteration,
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
    pub(super) fn parse(text: &str, seed: u64, names: Option<&ValueNames>) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once("{{") {
            let (inner, behind) = behind
                .split_once("}}")
                .ok_or_else(|| "a placeholder has no end: write }} behind it".to_owned())?;
            let part = parse_placeholder(inner, names)?;
            let is_alone = before.ends_with('"')
                && behind.strip_prefix('"').is_some_and(|behind| !behind.starts_with(':'));
            let (before, behind) = match part {
                TextPart::Int { .. }
                | TextPart::Taken(_)
                | TextPart::User
                | TextPart::Iteration
                    if is_alone =>
                {
                    (&before[..before.len() - 1], &behind[1..])
                }
                _ => (before, behind),
            };
            let (before, part) = match part {
                TextPart::Taken(slot) if is_alone => {
                    let (before, key) = split_key(before);
                    (before, TextPart::TakenAlone { slot, key: key.map(String::from) })
                }
                part => (before, part),
            };
            parts.extend([TextPart::Literal(before.into()), part]);
            rest = behind;
        }
        parts.push(TextPart::Literal(rest.into()));
        Ok(Self { parts, seed, next: Arc::default() })
    }

    /// Returns the text of the next request, with the values of `user`.
    pub(super) fn render(&self, id: u64, user: Option<&UserValues>) -> String {
        let number = match user {
            None => self.next.fetch_add(1, Ordering::Relaxed),
            Some(user) => user.step_seed(),
        };
        let mut random = Random::seeded(Random::seeded(self.seed ^ number).next_u64());
        let mut text = String::new();
        let mut skips_comma = false;
        for part in &self.parts {
            match part {
                TextPart::Literal(literal) if std::mem::take(&mut skips_comma) => {
                    text.push_str(literal.strip_prefix(',').unwrap_or(literal));
                }
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::TakenAlone { slot, key } => {
                    let value = user.and_then(|user| user.taken(*slot));
                    skips_comma = push_member(&mut text, key.as_deref(), value);
                }
                TextPart::Taken(slot) => {
                    let value = user.and_then(|user| user.taken(*slot));
                    push_inside(&mut text, value.unwrap_or_default());
                }
                TextPart::Field(column) => {
                    let field = user.and_then(|user| user.field(*column));
                    push_inside(&mut text, field.unwrap_or_default());
                }
                TextPart::User => {
                    let number = user.map_or(0, UserValues::number);
                    write!(text, "{number}").unwrap_or(());
                }
                TextPart::Iteration => {
                    let number = user.map_or(0, UserValues::iteration);
                    write!(text, "{number}").unwrap_or(());
                }
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

/// Splits the name of a member with quotes and colon off the end of a JSON text.
fn split_key(before: &str) -> (&str, Option<&str>) {
    let Some(name) = before.strip_suffix("\":") else { return (before, None) };
    let mut end = name.len();
    while let Some(at) = name[..end].rfind('"') {
        let escapes = name[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if escapes % 2 == 0 {
            return (&before[..at], Some(&before[at..]));
        }
        end = at;
    }
    (before, None)
}

/// Appends a value, with the name of its member. Without a value the member is left out, and its
/// comma; returns whether that is the one that follows.
fn push_member(text: &mut String, key: Option<&str>, value: Option<&str>) -> bool {
    match (key, value) {
        (key, Some(value)) => {
            text.push_str(key.unwrap_or_default());
            text.push_str(value);
            false
        }
        (None, None) => {
            text.push_str("null");
            false
        }
        (Some(_), None) if text.ends_with(',') => {
            text.pop();
            false
        }
        (Some(_), None) => true,
    }
}

/// Appends a JSON value inside a JSON string.
fn push_inside(text: &mut String, value: &str) {
    if let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        return text.push_str(inner);
    }
    let quoted = serde_json::Value::from(value).to_string();
    text.push_str(&quoted[1..quoted.len() - 1]);
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
fn parse_placeholder(inner: &str, names: Option<&ValueNames>) -> Result<TextPart, String> {
    let unescaped: Result<String, _> = serde_json::from_str(&format!("\"{inner}\""));
    let inner = unescaped.unwrap_or_else(|_| inner.to_owned());
    let (name, value) = inner.trim().split_once(' ').unwrap_or_else(|| (inner.trim(), ""));
    match (name, value.trim()) {
        ("value" | "user" | "iteration", value) => parse_user_value(name, value, names),
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

/// Parses a placeholder that stands for a value of a user.
fn parse_user_value(
    name: &str,
    value: &str,
    names: Option<&ValueNames>,
) -> Result<TextPart, String> {
    let Some(names) = names else {
        return Err(format!(
            "{{{{{name}}}}} is a value of a user: move the call to [[scenario.step]]"
        ));
    };
    let find = |known: &[String], what: &str, how: &str| {
        known.iter().position(|known| known == value).ok_or_else(|| {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("{{{{{name} {value}}}}}: no {what} has this name ({how}); there are {known}")
        })
    };
    match (name, value) {
        ("user", "") => Ok(TextPart::User),
        ("iteration", "") => Ok(TextPart::Iteration),
        ("user", _) => find(&names.columns, "column", "data = \"FILE.csv\"").map(TextPart::Field),
        ("value", _) => {
            find(&names.taken, "value", "take = { NAME = \"/POINTER\" }").map(TextPart::Taken)
        }
        _ => Err(format!("{{{{{name} {value}}}}}: write {{{{{name}}}}}")),
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
        let text = VaryingText::parse(&value.to_string(), 7, None).unwrap();
        (0..count).map(|id| serde_json::from_str(&text.render(id, None)).unwrap()).collect()
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
            let error = VaryingText::parse(&json!(text).to_string(), 1, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn taken_values_keep_their_types() {
        let mut names = ValueNames::default();
        for name in ["cursor", "page", "tags"] {
            names.slot(name);
        }
        let text = json!({
            "cursor": "{{value cursor}}", "a\"b": "{{value page}}",
            "text": "p{{value page}} {{value tags}}",
            "list": ["{{value cursor}}", "{{value page}}"],
            "user": "{{user}}-{{iteration}}", "n": "{{user}}",
        });
        let text = VaryingText::parse(&text.to_string(), 1, Some(&names)).unwrap();
        let mut user = UserValues::new(3, 3, None);
        let render = |user: &UserValues| -> Value {
            serde_json::from_str(&text.render(1, Some(user))).unwrap()
        };
        assert_eq!(
            render(&user),
            json!({ "text": "p ", "list": [null, null], "user": "3-0", "n": 3 })
        );
        user.set_taken(1, Some(&json!(7)));
        user.set_taken(2, Some(&json!(["x"])));
        let expected = json!({
            "a\"b": 7, "text": "p7 [\"x\"]", "list": [null, 7], "user": "3-0", "n": 3,
        });
        assert_eq!(render(&user), expected);
        user.set_taken(0, Some(&json!("c\"1")));
        assert_eq!(render(&user)["cursor"], "c\"1");
    }

    #[test]
    fn absent_members_leave_valid_json() {
        let mut names = ValueNames::default();
        for name in ["a", "b", "c"] {
            names.slot(name);
        }
        let text = json!({ "a": "{{value a}}", "b": "{{value b}}", "c": "{{value c}}" });
        let text = VaryingText::parse(&text.to_string(), 1, Some(&names)).unwrap();
        for present in 0..8_usize {
            let mut user = UserValues::new(0, 3, None);
            let mut expected = serde_json::Map::new();
            for (slot, name) in ["a", "b", "c"].into_iter().enumerate() {
                if present & (1 << slot) != 0 {
                    user.set_taken(slot, Some(&json!(slot)));
                    expected.insert(name.into(), json!(slot));
                }
            }
            let made: Value = serde_json::from_str(&text.render(1, Some(&user))).unwrap();
            assert_eq!(made, Value::from(expected));
        }
    }

    #[test]
    fn unknown_value_lists_known_ones() {
        let mut names = ValueNames::default();
        names.slot("cursor");
        let parse = |text: &str, names| VaryingText::parse(text, 1, names).unwrap_err();
        let unknown = parse("\"{{value page}}\"", Some(&names));
        assert!(unknown.ends_with("there are cursor"), "{unknown}");
        let column = parse("\"{{user name}}\"", Some(&names));
        assert!(column.contains("data = ") && column.ends_with("there are none"), "{column}");
        assert!(parse("\"{{user}}\"", None).contains("[[scenario.step]]"));
    }
}
