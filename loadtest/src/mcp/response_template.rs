//! Response template: the last correct response, to compare later ones with byte by byte.
//!
//! Responses to one request template usually differ only in the id and, over HTTP, in `Date`.
//! Comparing instead of parsing costs a tenth and checks every byte.

use memchr::memmem;

use super::request_template::{ID_DIGITS, id_digits};

/// Length of an HTTP date (RFC 9110 section 5.6.7).
const DATE_BYTES: usize = 29;

/// A response and the positions of its variable parts.
#[derive(Clone, Debug)]
pub(super) struct ResponseTemplate {
    bytes: Vec<u8>,
    /// Position of `Date`; equal to `id_at` without one.
    date_at: usize,
    id_at: usize,
    is_stream: bool,
}

impl ResponseTemplate {
    /// Creates the template from a correct response to request `id`; returns `None` unless the id
    /// occurs exactly once in it.
    pub(super) fn from_response(bytes: &[u8], id: u64) -> Option<Self> {
        let digits = id_digits(id);
        let mut ids = memmem::find_iter(bytes, &digits);
        let (Some(id_at), None) = (ids.next(), ids.next()) else { return None };
        let head_end = memmem::find(bytes, b"\r\n\r\n").unwrap_or_default();
        let date_at = memmem::find(&bytes[..head_end], b"\r\nDate: ")
            .or_else(|| memmem::find(&bytes[..head_end], b"\r\ndate: "))
            .map(|at| at + b"\r\nDate: ".len())
            .filter(|at| at + DATE_BYTES <= id_at)
            .unwrap_or(id_at);
        let is_stream = memmem::find(&bytes[..head_end], b"text/event-stream").is_some();
        Some(Self { bytes: bytes.to_vec(), date_at, id_at, is_stream })
    }

    /// Returns whether it is an HTTP response with an SSE stream.
    #[inline]
    pub(super) const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns the length of the correct response to request `id` at the beginning of `arrived`, or
    /// `None` if it is incomplete or differs.
    #[inline]
    pub(super) fn match_length(&self, arrived: &[u8], id: u64) -> Option<usize> {
        let Self { bytes, date_at, id_at, .. } = self;
        let arrived = arrived.get(..bytes.len())?;
        let behind_date = (date_at + DATE_BYTES).min(*id_at);
        let behind_id = id_at + ID_DIGITS;
        let is_right = arrived[*id_at..behind_id] == id_digits(id)
            && arrived[..*date_at] == bytes[..*date_at]
            && arrived[behind_date..*id_at] == bytes[behind_date..*id_at]
            && arrived[behind_id..] == bytes[behind_id..];
        is_right.then_some(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1000000007,\"result\":{}}\n";

    #[test]
    fn response_template_accepts_other_id_only() {
        let template = ResponseTemplate::from_response(LINE, 1_000_000_007).unwrap();
        let next = String::from_utf8_lossy(LINE).replace("1000000007", "1000000008");
        let next = format!("{next}rest");
        assert_eq!(template.match_length(next.as_bytes(), 1_000_000_008), Some(LINE.len()));
        assert_eq!(template.match_length(next.as_bytes(), 1_000_000_009), None);
        assert_eq!(
            template.match_length(next.replace("result", "resolt").as_bytes(), 1_000_000_008),
            None
        );
        assert_eq!(template.match_length(&LINE[..LINE.len() - 1], 1_000_000_007), None);
    }

    #[test]
    fn response_template_accepts_other_date() {
        let response = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Content-Length: 17\r\n\r\n{\"id\":1000000007}";
        let template = ResponseTemplate::from_response(response.as_bytes(), 1_000_000_007).unwrap();
        let later = response.replace("08:49:37", "08:49:38");
        assert_eq!(template.match_length(later.as_bytes(), 1_000_000_007), Some(later.len()));
        let other = response.replace("200 OK", "500 NO");
        assert_eq!(template.match_length(other.as_bytes(), 1_000_000_007), None);
    }

    #[test]
    fn response_template_requires_unique_id() {
        assert!(
            ResponseTemplate::from_response(
                b"{\"id\":1000000007,\"x\":1000000007}\n",
                1_000_000_007
            )
            .is_none()
        );
        assert!(ResponseTemplate::from_response(b"{\"id\":7}\n", 1_000_000_007).is_none());
    }
}
