//! How much one request may be, and what is said to one that is more, or that is none.

use super::status::Status;

/// Fields of one head, at most, whatever the options say: their places stand on the stack.
pub const FIELDS_MAX: usize = 64;

/// Bounds on one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of a head with its last empty line. Default 16 KiB. A head that is not whole is held
    /// in memory up to here.
    pub head_bytes_max: usize,
    /// Fields of a head. Default 64, which is also the most.
    pub fields_max: usize,
    /// Bytes of a body, decoded. Default 4 MiB. A body that is not whole is held in memory up to
    /// here.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, fields_max: FIELDS_MAX, body_bytes_max: 4 << 20 }
    }
}

/// Why bytes are not a request that is taken. The connection ends with the answer: where the next
/// request would begin is not known, or not to be trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// What the answer says.
    pub status: Status,
    /// The same for people, without anything that the peer wrote.
    pub reason: &'static str,
}

impl Refusal {
    /// What is not HTTP, or could be read in two ways.
    pub(super) const fn bad(reason: &'static str) -> Self {
        Self { status: Status::BAD_REQUEST, reason }
    }

    /// A body longer than `body_bytes_max`.
    pub(super) const fn large_body() -> Self {
        Self { status: Status::CONTENT_TOO_LARGE, reason: "the body is too large" }
    }

    /// Fields, before or behind the body, that are too many or too long.
    pub(super) const fn large_fields(reason: &'static str) -> Self {
        Self { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason }
    }
}
