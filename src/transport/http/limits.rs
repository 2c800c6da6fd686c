//! Size limits of a request, and the error of a rejected one.

use super::status::Status;

/// Hard limit on the fields of a head; their positions are stored on the stack.
pub const FIELDS_MAX: usize = 64;

/// Size limits of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestLimits {
    /// Bytes of a head including its final empty line. An incomplete head is buffered up to this
    /// size. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Fields of a head, at most [`FIELDS_MAX`]. Default 64.
    pub fields_max: usize,
    /// Bytes of a decoded body. An incomplete body is buffered up to this size. Default 4 MiB.
    pub body_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, fields_max: FIELDS_MAX, body_bytes_max: 4 << 20 }
    }
}

/// Why a request was rejected. The connection closes after the response, because the start of the
/// next request is unknown or cannot be trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestError {
    /// Status of the response.
    pub status: Status,
    /// Human-readable reason, without any data of the peer.
    pub reason: &'static str,
}

/// The reason for which a request with two `Authorization` fields is rejected.
pub const REPEATED_AUTHORIZATION: &str = "the header field Authorization is repeated";

impl RequestError {
    /// 400: malformed or ambiguous.
    pub(super) const fn bad_request(reason: &'static str) -> Self {
        Self { status: Status::BAD_REQUEST, reason }
    }

    /// 413: a body over `body_bytes_max`.
    pub(super) const fn body_too_large() -> Self {
        Self { status: Status::CONTENT_TOO_LARGE, reason: "the body is too large" }
    }

    /// 431: header or trailer fields too many or too long.
    pub(super) const fn fields_too_large(reason: &'static str) -> Self {
        Self { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason }
    }
}
