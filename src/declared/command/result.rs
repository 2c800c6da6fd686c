//! What a command has written, as the output of a call or the text of a failure.

use bytes::Bytes;

use crate::declared::call::{Failure, Output};
use crate::declared::problem::Problem;

/// What standard output is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResultKind {
    /// Text in UTF-8.
    Text,
    /// One JSON value, the structured result.
    Json,
    /// Lines of progress, of which the last one is the result.
    Lines,
    /// Bytes of this media type.
    Media(String),
}

impl ResultKind {
    /// Parses the value of `result`; `None` is text.
    ///
    /// # Errors
    ///
    /// It is neither a kind nor a media type.
    pub fn parse(text: Option<&str>) -> Result<Self, Problem> {
        match text {
            None | Some("text") => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            Some("lines") => Ok(Self::Lines),
            Some(media) if is_media_type(media) => Ok(Self::Media(media.to_owned())),
            Some(other) => {
                let hint = "write text, json, lines or a media type such as image/png";
                Err(Problem::new("result", format!("{other:?} is no kind of result"), hint))
            }
        }
    }

    /// The output of `bytes`, which the program `name` has written.
    ///
    /// # Errors
    ///
    /// They are not what was declared.
    pub fn read(&self, name: &str, bytes: Vec<u8>) -> Result<Output, Failure> {
        match self {
            Self::Media(mime_type) => {
                Ok(Output::Media { mime_type: mime_type.clone(), data: Bytes::from(bytes) })
            }
            Self::Text => Ok(Output::Text(read_text(name, bytes)?)),
            Self::Lines => {
                let text = read_text(name, bytes)?;
                let last = text.trim_end_matches(['\n', '\r']).rsplit('\n').next();
                Ok(Output::Text(last.unwrap_or_default().trim_end_matches('\r').to_owned()))
            }
            Self::Json => serde_json::from_slice(&bytes).map(Output::Json).map_err(|error| {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
                Failure::failed(format_args!(
                    "{name} did not write the JSON that is its result ({error}); it begins with \
                     {start:?}"
                ))
            }),
        }
    }
}

/// Bytes of an output that a failure shows.
const SHOWN_BYTES: usize = 80;

fn is_media_type(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(is_token)
    };
    text.split_once('/').is_some_and(|(one, other)| is_part(one) && is_part(other))
}

fn read_text(name: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    let length = bytes.len();
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Failure::failed(format_args!(
            "{name} wrote {length} bytes that are not UTF-8 text from byte {offset} on; its result \
             cannot be shown"
        ))
    })
}

/// The last lines of standard error, as a part of a sentence.
pub fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(LINES_MAX);
    let text = lines[first..].join("\n");
    let text: String =
        text.chars().filter(|it| *it == '\n' || *it == '\t' || !it.is_control()).collect();
    let mut start = text.len().saturating_sub(LINES_BYTES_MAX);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    // The rest of a line may be that of a secret.
    let next_line = memchr::memchr(b'\n', &text.as_bytes()[start..]).filter(|_| start > 0);
    text[start + next_line.map_or(0, |end| end + 1)..].to_owned()
}

/// Lines of standard error in a failure.
const LINES_MAX: usize = 10;

/// Bytes of standard error in a failure.
const LINES_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_read_by_kind() {
        let read = |kind: Option<&str>, text: &str| {
            ResultKind::parse(kind).unwrap().read("x", text.as_bytes().to_vec()).unwrap()
        };
        assert_eq!(read(None, "a\n"), Output::Text("a\n".to_owned()));
        assert_eq!(read(Some("json"), "{\"a\":1}\n"), Output::Json(json!({ "a": 1 })));
        assert_eq!(read(Some("lines"), "1\r\n2\r\n"), Output::Text("2".to_owned()));
        assert_eq!(read(Some("lines"), ""), Output::Text(String::new()));
        let Output::Media { mime_type, .. } = read(Some("image/png"), "p") else { panic!() };
        assert_eq!(mime_type, "image/png");
        assert!(ResultKind::parse(Some("xml")).is_err());
    }

    #[test]
    fn output_of_another_kind_is_failure() {
        let text = ResultKind::Text.read("x", vec![b'a', 0xff]).unwrap_err().to_string();
        assert!(text.contains("2 bytes that are not UTF-8 text from byte 1"), "{text}");
        let text = ResultKind::Json.read("x", b"<html>".to_vec()).unwrap_err().to_string();
        assert!(text.contains("begins with \"<html>\""), "{text}");
    }

    #[test]
    fn last_lines_are_bounded() {
        let many: Vec<String> = (0..100).map(|index| format!("line {index}\n")).collect();
        let last = last_lines(many.join("\n").as_bytes());
        assert!(last.starts_with("line 90\n") && last.ends_with("line 99"), "{last}");
        assert!(last_lines(&vec![b'x'; 100_000]).len() <= LINES_BYTES_MAX);
        let long = format!("{}\nlast", "key ".repeat(1000));
        assert_eq!(last_lines(long.as_bytes()), "last");
        assert_eq!(last_lines(b"\x1b[31mred\x1b[0m\n"), "[31mred[0m");
    }
}
