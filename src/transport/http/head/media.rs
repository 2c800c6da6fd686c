//! Media types: what a request brings (`Content-Type`) and what it takes (`Accept`), as far as the
//! two types of MCP over HTTP are concerned (RFC 9110, sections 8.3 and 12.5.1); and whether what
//! it brings is compressed (`Content-Encoding`, section 8.4).
//!
//! Parameters other than the weight `q` are not looked at: a type with parameters counts as the
//! type.

/// The type of a body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentType {
    /// The field is missing.
    #[default]
    Missing,
    /// `application/json`, with or without parameters.
    Json,
    /// Any other type, or none that could be read.
    Other,
}

impl ContentType {
    /// Reads the value of `Content-Type`.
    pub fn read(value: &[u8]) -> Self {
        if value == JSON || essence(value).eq_ignore_ascii_case(JSON) {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// What was done to a body before it was sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentCoding {
    /// Nothing: it stands as its type has it.
    #[default]
    Identity,
    /// Something that would have to be undone, or a coding that nobody knows.
    Other,
}

impl ContentCoding {
    /// Reads the value of one line of `Content-Encoding`: a list of codings in the order in which
    /// they were applied. Nobody is to name `identity` there, and it does no harm.
    pub fn read(value: &[u8]) -> Self {
        let mut codings = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")) {
            Self::Identity
        } else {
            Self::Other
        }
    }
}

/// What may be answered with. Without the field nothing is listed: what that means is up to the
/// revision of MCP.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Accept {
    /// Whether the field is there.
    pub is_present: bool,
    /// `application/json` is taken, by its name or by a range such as `*/*`.
    pub json: bool,
    /// `text/event-stream` is taken, by its name or by a range.
    pub event_stream: bool,
}

/// Gathers [`Accept`] from any number of field lines: the most specific range decides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcceptReading {
    is_present: bool,
    json: Verdict,
    event_stream: Verdict,
}

/// What the most specific range so far says of one type.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    specificity: u8,
    is_taken: bool,
}

impl AcceptReading {
    /// Adds the value of one `Accept` line.
    pub(super) fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        // What the specification has clients send; most of them do.
        if value == USUAL {
            self.json.hear(3, true);
            self.event_stream.hear(3, true);
            return;
        }
        for element in elements(value) {
            let is_taken = !weighs_nothing(element);
            let range = essence(element);
            if range == b"*/*" {
                self.json.hear(1, is_taken);
                self.event_stream.hear(1, is_taken);
            } else if range.eq_ignore_ascii_case(b"application/*") {
                self.json.hear(2, is_taken);
            } else if range.eq_ignore_ascii_case(b"text/*") {
                self.event_stream.hear(2, is_taken);
            } else if range.eq_ignore_ascii_case(JSON) {
                self.json.hear(3, is_taken);
            } else if range.eq_ignore_ascii_case(EVENT_STREAM) {
                self.event_stream.hear(3, is_taken);
            }
        }
    }

    /// What all lines said together.
    pub(super) const fn finish(self) -> Accept {
        Accept {
            is_present: self.is_present,
            json: self.json.is_taken,
            event_stream: self.event_stream.is_taken,
        }
    }
}

impl Verdict {
    /// Among ranges equally specific, one that takes the type wins.
    const fn hear(&mut self, specificity: u8, is_taken: bool) {
        if specificity > self.specificity {
            *self = Self { specificity, is_taken };
        } else if specificity == self.specificity {
            self.is_taken |= is_taken;
        }
    }
}

/// The type and subtype of a media type, without its parameters.
fn essence(value: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    value[..end].trim_ascii()
}

/// The elements of a list: commas inside quotes part nothing (RFC 9110, section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
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

/// Whether an element of `Accept` says `q=0`: not acceptable (RFC 9110, section 12.4.2).
fn weighs_nothing(element: &[u8]) -> bool {
    let parameters = element.split(|&byte| byte == b';').skip(1);
    parameters.map(<[u8]>::trim_ascii).any(|parameter| match parameter {
        [b'q' | b'Q', b'=', b'0', rest @ ..] => rest.iter().all(|byte| matches!(byte, b'.' | b'0')),
        _ => false,
    })
}

const JSON: &[u8] = b"application/json";
const EVENT_STREAM: &[u8] = b"text/event-stream";
const USUAL: &[u8] = b"application/json, text/event-stream";

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether JSON and event streams are taken by these lines.
    fn taken(lines: &[&str]) -> (bool, bool) {
        let mut reading = AcceptReading::default();
        for line in lines {
            reading.add(line.as_bytes());
        }
        let accept = reading.finish();
        assert_eq!(accept.is_present, !lines.is_empty());
        (accept.json, accept.event_stream)
    }

    #[test]
    fn a_content_type_is_told_without_its_parameters_and_its_case() {
        for value in ["application/json", "Application/JSON ; charset=utf-8", "application/json;"] {
            assert_eq!(ContentType::read(value.as_bytes()), ContentType::Json, "{value}");
        }
        for value in ["", "text/plain", "application/json5", "text/plain; application/json"] {
            assert_eq!(ContentType::read(value.as_bytes()), ContentType::Other, "{value}");
        }
    }

    #[test]
    fn a_body_is_as_it_stands_where_no_coding_is_named_but_identity() {
        for value in ["", "identity", " Identity ,", "identity, identity"] {
            let coding = ContentCoding::read(value.as_bytes());
            assert_eq!(coding, ContentCoding::Identity, "{value}");
        }
        for value in ["gzip", "x-gzip", "identity, br", "zstd,identity", "identity;q=1", "*"] {
            let coding = ContentCoding::read(value.as_bytes());
            assert_eq!(coding, ContentCoding::Other, "{value}");
        }
    }

    #[test]
    fn both_types_are_found_in_any_order_case_and_number_of_lines() {
        assert_eq!(taken(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(taken(&["Text/Event-Stream;q=0.5,APPLICATION/json"]), (true, true));
        assert_eq!(taken(&["application/json", "text/event-stream"]), (true, true));
        assert_eq!(taken(&["application/json"]), (true, false));
        assert_eq!(taken(&["text/event-stream"]), (false, true));
        assert_eq!(taken(&["text/html"]), (false, false));
        assert_eq!(taken(&[""]), (false, false));
        assert_eq!(taken(&[]), (false, false));
    }

    #[test]
    fn ranges_take_the_types_that_they_cover() {
        assert_eq!(taken(&["*/*"]), (true, true));
        assert_eq!(taken(&["application/*"]), (true, false));
        assert_eq!(taken(&["text/*;q=0.1"]), (false, true));
    }

    #[test]
    fn a_weight_of_nothing_refuses_and_the_most_specific_range_decides() {
        assert_eq!(taken(&["*/*, text/event-stream;q=0"]), (true, false));
        assert_eq!(taken(&["text/event-stream; Q=0.000, */*"]), (true, false));
        assert_eq!(taken(&["*/*;q=0, application/json"]), (true, false));
        assert_eq!(taken(&["application/json;q=0.001"]), (true, false));
    }

    #[test]
    fn a_comma_inside_quotes_parts_nothing() {
        assert_eq!(taken(&[r#"text/html;a="\", application/json,""#]), (false, false));
        assert_eq!(taken(&[r#"text/html;a="b,c", application/json"#]), (true, false));
    }
}
