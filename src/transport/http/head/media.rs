//! Parsing of `Content-Type` (RFC 9110, section 8.3), `Content-Encoding` (section 8.4) and `Accept`
//! (section 12.5.1), for the two media types of MCP over HTTP.
//!
//! Parameters other than the weight `q` are ignored.

/// The value of `Content-Type`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentType {
    /// The field is missing.
    #[default]
    Missing,
    /// `application/json`, with or without parameters.
    Json,
    /// Any other value.
    Other,
}

impl ContentType {
    /// Parses the value of `Content-Type`.
    pub fn parse(value: &[u8]) -> Self {
        if value == JSON || essence(value).eq_ignore_ascii_case(JSON) {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// The value of `Content-Encoding`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentCoding {
    /// No coding.
    #[default]
    Identity,
    /// Any other coding.
    Other,
}

impl ContentCoding {
    /// Parses one line of `Content-Encoding`, a list of codings in the order of application. The
    /// reserved coding `identity` is accepted.
    pub fn parse(value: &[u8]) -> Self {
        let mut codings = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")) {
            Self::Identity
        } else {
            Self::Other
        }
    }
}

/// The media types accepted in a response. What a missing field means depends on the MCP revision.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Accept {
    /// Whether the field is present.
    pub is_present: bool,
    /// Whether `application/json` is accepted, by name or by a range such as `*/*`.
    pub json: bool,
    /// Whether `text/event-stream` is accepted, by name or by a range.
    pub event_stream: bool,
}

/// Parses [`Accept`] from any number of field lines; the most specific range wins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcceptParser {
    is_present: bool,
    json: RangeMatch,
    event_stream: RangeMatch,
}

/// The most specific range found so far for one media type.
#[derive(Clone, Copy, Debug, Default)]
struct RangeMatch {
    specificity: u8,
    is_accepted: bool,
}

impl AcceptParser {
    /// Parses one `Accept` line.
    pub(super) fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        // Fast path: the value given in the MCP specification.
        if value == JSON_AND_EVENT_STREAM {
            self.json.apply_range(3, true);
            self.event_stream.apply_range(3, true);
            return;
        }
        for element in list_elements(value) {
            let is_taken = !has_zero_weight(element);
            let range = essence(element);
            if range == b"*/*" {
                self.json.apply_range(1, is_taken);
                self.event_stream.apply_range(1, is_taken);
            } else if range.eq_ignore_ascii_case(b"application/*") {
                self.json.apply_range(2, is_taken);
            } else if range.eq_ignore_ascii_case(b"text/*") {
                self.event_stream.apply_range(2, is_taken);
            } else if range.eq_ignore_ascii_case(JSON) {
                self.json.apply_range(3, is_taken);
            } else if range.eq_ignore_ascii_case(EVENT_STREAM) {
                self.event_stream.apply_range(3, is_taken);
            }
        }
    }

    /// Returns the result of all lines.
    pub(super) const fn finish(self) -> Accept {
        Accept {
            is_present: self.is_present,
            json: self.json.is_accepted,
            event_stream: self.event_stream.is_accepted,
        }
    }
}

impl RangeMatch {
    /// Applies a range. Among equally specific ranges, one that accepts wins.
    const fn apply_range(&mut self, specificity: u8, is_taken: bool) {
        if specificity > self.specificity {
            *self = Self { specificity, is_accepted: is_taken };
        } else if specificity == self.specificity {
            self.is_accepted |= is_taken;
        }
    }
}

/// Returns the type and subtype of a media type, without parameters.
fn essence(value: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    value[..end].trim_ascii()
}

/// Splits a list at commas outside quoted strings (RFC 9110, section 5.6.1).
fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    value.split(move |&byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        byte == b',' && !is_quoted
    })
}

/// Returns whether an element of `Accept` has `q=0`: not acceptable (RFC 9110, section 12.4.2).
fn has_zero_weight(element: &[u8]) -> bool {
    let parameters = element.split(|&byte| byte == b';').skip(1);
    parameters.map(<[u8]>::trim_ascii).any(|parameter| match parameter {
        [b'q' | b'Q', b'=', b'0', rest @ ..] => rest.iter().all(|byte| matches!(byte, b'.' | b'0')),
        _ => false,
    })
}

const JSON: &[u8] = b"application/json";
const EVENT_STREAM: &[u8] = b"text/event-stream";
const JSON_AND_EVENT_STREAM: &[u8] = b"application/json, text/event-stream";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether JSON and event streams are accepted by these lines.
    fn accepted_types(lines: &[&str]) -> (bool, bool) {
        let mut parser = AcceptParser::default();
        for line in lines {
            parser.add(line.as_bytes());
        }
        let accept = parser.finish();
        assert_eq!(accept.is_present, !lines.is_empty());
        (accept.json, accept.event_stream)
    }

    #[test]
    fn content_type_ignores_parameters_and_case() {
        for value in ["application/json", "Application/JSON ; charset=utf-8", "application/json;"] {
            assert_eq!(ContentType::parse(value.as_bytes()), ContentType::Json, "{value}");
        }
        for value in ["", "text/plain", "application/json5", "text/plain; application/json"] {
            assert_eq!(ContentType::parse(value.as_bytes()), ContentType::Other, "{value}");
        }
    }

    #[test]
    fn content_encoding_accepts_only_identity() {
        for value in ["", "identity", " Identity ,", "identity, identity"] {
            let coding = ContentCoding::parse(value.as_bytes());
            assert_eq!(coding, ContentCoding::Identity, "{value}");
        }
        for value in ["gzip", "x-gzip", "identity, br", "zstd,identity", "identity;q=1", "*"] {
            let coding = ContentCoding::parse(value.as_bytes());
            assert_eq!(coding, ContentCoding::Other, "{value}");
        }
    }

    #[test]
    fn accept_finds_both_types_in_any_form() {
        assert_eq!(accepted_types(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(accepted_types(&["Text/Event-Stream;q=0.5,APPLICATION/json"]), (true, true));
        assert_eq!(accepted_types(&["application/json", "text/event-stream"]), (true, true));
        assert_eq!(accepted_types(&["application/json"]), (true, false));
        assert_eq!(accepted_types(&["text/event-stream"]), (false, true));
        assert_eq!(accepted_types(&["text/html"]), (false, false));
        assert_eq!(accepted_types(&[""]), (false, false));
        assert_eq!(accepted_types(&[]), (false, false));
    }

    #[test]
    fn accept_ranges_match_their_types() {
        assert_eq!(accepted_types(&["*/*"]), (true, true));
        assert_eq!(accepted_types(&["application/*"]), (true, false));
        assert_eq!(accepted_types(&["text/*;q=0.1"]), (false, true));
    }

    #[test]
    fn accept_weight_zero_refuses_most_specific_range_wins() {
        assert_eq!(accepted_types(&["*/*, text/event-stream;q=0"]), (true, false));
        assert_eq!(accepted_types(&["text/event-stream; Q=0.000, */*"]), (true, false));
        assert_eq!(accepted_types(&["*/*;q=0, application/json"]), (true, false));
        assert_eq!(accepted_types(&["application/json;q=0.001"]), (true, false));
    }

    #[test]
    fn accept_ignores_commas_inside_quotes() {
        assert_eq!(accepted_types(&[r#"text/html;a="\", application/json,""#]), (false, false));
        assert_eq!(accepted_types(&[r#"text/html;a="b,c", application/json"#]), (true, false));
    }
}
