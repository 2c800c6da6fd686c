//! The text of a file: JSON with comments, and lines of an `envFile`.

/// The message of `error` without its line and column.
pub fn error_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// `text` with spaces in place of comments, commas before `]` and `}`, and a byte order mark.
/// Every character keeps its line and column.
pub fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut comma = None;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => character.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        let is_comment = part.starts_with("//") || part.starts_with("/*");
        if is_comment || character == '\u{feff}' {
            for character in part.chars() {
                plain.push(if character == '\n' { '\n' } else { ' ' });
            }
        } else {
            if ["]", "}"].contains(&part)
                && let Some(comma) = comma
            {
                plain.replace_range(comma..=comma, " ");
            }
            if !part.trim().is_empty() {
                comma = (part == ",").then_some(plain.len());
            }
            plain.push_str(part);
        }
        rest = after;
    }
    plain
}

/// Bytes of the JSON string that `text` begins with, or of the whole text if it is not closed.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The value of a line of an `envFile`.
pub fn unquoted(written: &str) -> String {
    if let Some((text, _)) = written.strip_prefix('\'').and_then(|it| it.split_once('\'')) {
        return text.to_owned();
    }
    let length = string_length(written);
    if written.starts_with('"') && length > 1 && written[..length].ends_with('"') {
        let text = &written[1..length - 1];
        return text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
    }
    let end = written.find(" #").unwrap_or(written.len());
    written[..end].trim_end().to_owned()
}
