//! Status codes of responses (RFC 9110, section 15).
//!
//! Only final status codes exist here, 200 to 599; 1xx are not represented.
//!
//! Source: RFC 9110, section 15; RFC 6585 (429, 431).

use std::fmt;

/// A final status code: 200 to 599.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Status(u16);

impl Status {
    /// 200: a result, or a JSON-RPC error without a status of its own.
    pub const OK: Self = Self(200);
    /// 202: a notification or response was accepted; there is no body.
    pub const ACCEPTED: Self = Self(202);
    /// 204: success without a body.
    pub const NO_CONTENT: Self = Self(204);
    /// 304: the client has this version already.
    pub const NOT_MODIFIED: Self = Self(304);
    /// 400: malformed or inconsistent request.
    pub const BAD_REQUEST: Self = Self(400);
    /// 403: host or origin not allowed, or a scope is missing.
    pub const FORBIDDEN: Self = Self(403);
    /// 404: no such path, session or method.
    pub const NOT_FOUND: Self = Self(404);
    /// 405: the path does not support the method.
    pub const METHOD_NOT_ALLOWED: Self = Self(405);
    /// 406: the response type is not in `Accept`.
    pub const NOT_ACCEPTABLE: Self = Self(406);
    /// 409: conflicts with an existing stream.
    pub const CONFLICT: Self = Self(409);
    /// 413: the body is over the limit.
    pub const CONTENT_TOO_LARGE: Self = Self(413);
    /// 414: the target is over the limit.
    pub const URI_TOO_LONG: Self = Self(414);
    /// 415: unsupported content type or coding.
    pub const UNSUPPORTED_MEDIA_TYPE: Self = Self(415);
    /// 417: unsupported `Expect`.
    pub const EXPECTATION_FAILED: Self = Self(417);
    /// 426: the path requires the protocol named in `Upgrade`.
    pub const UPGRADE_REQUIRED: Self = Self(426);
    /// 429: too many requests in a time.
    pub const TOO_MANY_REQUESTS: Self = Self(429);
    /// 431: the head is over the limit, or has too many fields.
    pub const REQUEST_HEADER_FIELDS_TOO_LARGE: Self = Self(431);
    /// 500: internal error.
    pub const INTERNAL: Self = Self(500);
    /// 501: unsupported transfer coding or method.
    pub const NOT_IMPLEMENTED: Self = Self(501);
    /// 503: the server is overloaded or draining.
    pub const UNAVAILABLE: Self = Self(503);
    /// 505: unsupported HTTP version.
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);

    /// Returns the numeric code.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns the reason phrase, or an empty string for codes without a constant here.
    pub const fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            202 => "Accepted",
            204 => "No Content",
            304 => "Not Modified",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            409 => "Conflict",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            417 => "Expectation Failed",
            426 => "Upgrade Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            _ => "",
        }
    }

    /// Returns whether a response with this status has neither body nor length (RFC 9110, sections
    /// 8.6 and 15.4.5).
    pub const fn forbids_body(self) -> bool {
        matches!(self.0, 204 | 304)
    }

    /// Appends the status line (RFC 9112, section 4).
    pub(super) fn write_line(self, out: &mut Vec<u8>) {
        let digit = |place: u16| b"0123456789"[usize::from(self.0 / place % 10)];
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
        out.extend_from_slice(self.reason().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

impl From<u16> for Status {
    /// Converts `code`; codes outside 200 to 599 become 500.
    fn from(code: u16) -> Self {
        if matches!(code, 200..=599) { Self(code) } else { Self::INTERNAL }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.0, self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(status: Status) -> String {
        let mut out = Vec::new();
        status.write_line(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn status_line_has_code_and_reason() {
        assert_eq!(line(Status::NOT_FOUND), "HTTP/1.1 404 Not Found\r\n");
        assert_eq!(
            line(Status::VERSION_NOT_SUPPORTED),
            "HTTP/1.1 505 HTTP Version Not Supported\r\n"
        );
    }

    #[test]
    fn status_line_without_reason_ends_with_space() {
        assert_eq!(line(Status::from(299)), "HTTP/1.1 299 \r\n");
    }

    #[test]
    fn invalid_status_code_becomes_500() {
        for code in [0, 99, 100, 199, 600, 1000, u16::MAX] {
            assert_eq!(Status::from(code), Status::INTERNAL);
        }
        for code in 200..600 {
            assert_eq!(Status::from(code).code(), code);
        }
    }
}
