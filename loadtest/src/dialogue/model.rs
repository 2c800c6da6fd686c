//! What a right answer looks like to the byte: the last one that was read in full.
//!
//! Answers of one kind mostly differ in nothing but their id and, over HTTP, in the date. So most
//! of them are compared and not read, which costs a tenth, and says more: every byte is checked.

use memchr::memmem;

use super::call::{ID_DIGITS, digits};

/// Bytes of a date of HTTP (RFC 9110 section 5.6.7).
const DATE_BYTES: usize = 29;

/// One answer, with what may differ in the next.
#[derive(Clone, Debug)]
pub(super) struct Model {
    bytes: Vec<u8>,
    /// Where a date begins; at the end where there is none.
    date_at: usize,
    id_at: usize,
    is_stream: bool,
}

impl Model {
    /// The model that this right answer to the request `id` is; none where its id does not stand in
    /// it exactly once, so that nobody could tell what may differ.
    pub(super) fn of(bytes: &[u8], id: u64) -> Option<Self> {
        let digits = digits(id);
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

    /// Whether it is a response of HTTP whose body is a stream of events.
    #[inline]
    pub(super) const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The length of the right answer to the request `id` at the beginning of `arrived`; none where
    /// it is not all there, or differs.
    #[inline]
    pub(super) fn accept(&self, arrived: &[u8], id: u64) -> Option<usize> {
        let Self { bytes, date_at, id_at, .. } = self;
        let arrived = arrived.get(..bytes.len())?;
        let behind_date = (date_at + DATE_BYTES).min(*id_at);
        let behind_id = id_at + ID_DIGITS;
        let is_right = arrived[*id_at..behind_id] == digits(id)
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
    fn the_next_answer_may_differ_in_its_id_only() {
        let model = Model::of(LINE, 1_000_000_007).unwrap();
        let next = String::from_utf8_lossy(LINE).replace("1000000007", "1000000008");
        let next = format!("{next}rest");
        assert_eq!(model.accept(next.as_bytes(), 1_000_000_008), Some(LINE.len()));
        assert_eq!(model.accept(next.as_bytes(), 1_000_000_009), None);
        assert_eq!(model.accept(next.replace("result", "resolt").as_bytes(), 1_000_000_008), None);
        assert_eq!(model.accept(&LINE[..LINE.len() - 1], 1_000_000_007), None);
    }

    #[test]
    fn a_response_may_be_of_another_second() {
        let response = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Content-Length: 17\r\n\r\n{\"id\":1000000007}";
        let model = Model::of(response.as_bytes(), 1_000_000_007).unwrap();
        let later = response.replace("08:49:37", "08:49:38");
        assert_eq!(model.accept(later.as_bytes(), 1_000_000_007), Some(later.len()));
        let other = response.replace("200 OK", "500 NO");
        assert_eq!(model.accept(other.as_bytes(), 1_000_000_007), None);
    }

    #[test]
    fn an_answer_in_which_the_id_stands_twice_is_no_model() {
        assert!(Model::of(b"{\"id\":1000000007,\"x\":1000000007}\n", 1_000_000_007).is_none());
        assert!(Model::of(b"{\"id\":7}\n", 1_000_000_007).is_none());
    }
}
