//! The status of an answer: three digits and their name.
//!
//! What it keeps true: a status ends its exchange (no 1xx is one) and has three digits, so that a
//! status line is always well formed. It does not say when an answer has which status.
//!
//! Source: RFC 9110, section 15; RFC 6585 (429, 431).

use std::fmt;

/// The status of a final answer: 200 to 599.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Status(u16);

impl Status {
    /// 200: a result, or an error of JSON-RPC that HTTP has no word for.
    pub const OK: Self = Self(200);
    /// 202: what was sent asks for no answer and was taken.
    pub const ACCEPTED: Self = Self(202);
    /// 204: done, and there is nothing to say; the answer has no body.
    pub const NO_CONTENT: Self = Self(204);
    /// 400: the request is malformed or contradicts itself.
    pub const BAD_REQUEST: Self = Self(400);
    /// 401: who asks has to say who it is.
    pub const UNAUTHORIZED: Self = Self(401);
    /// 403: refused to whoever asks from there.
    pub const FORBIDDEN: Self = Self(403);
    /// 404: no such path, session or method.
    pub const NOT_FOUND: Self = Self(404);
    /// 405: the path does not know the verb.
    pub const METHOD_NOT_ALLOWED: Self = Self(405);
    /// 406: the answer cannot be given in a type that was asked for.
    pub const NOT_ACCEPTABLE: Self = Self(406);
    /// 408: the request took too long to arrive.
    pub const REQUEST_TIMEOUT: Self = Self(408);
    /// 409: there is one already.
    pub const CONFLICT: Self = Self(409);
    /// 413: the body is longer than is read.
    pub const CONTENT_TOO_LARGE: Self = Self(413);
    /// 414: the target is longer than is read.
    pub const URI_TOO_LONG: Self = Self(414);
    /// 415: the body is of a type that is not read.
    pub const UNSUPPORTED_MEDIA_TYPE: Self = Self(415);
    /// 417: an expectation that is not known.
    pub const EXPECTATION_FAILED: Self = Self(417);
    /// 421: the request was meant for another host.
    pub const MISDIRECTED_REQUEST: Self = Self(421);
    /// 426: the path is spoken with in another protocol, which the answer names.
    pub const UPGRADE_REQUIRED: Self = Self(426);
    /// 429: more requests than are allowed.
    pub const TOO_MANY_REQUESTS: Self = Self(429);
    /// 431: the head is longer than is read, or has too many fields.
    pub const REQUEST_HEADER_FIELDS_TOO_LARGE: Self = Self(431);
    /// 500: our fault.
    pub const INTERNAL: Self = Self(500);
    /// 501: a transfer coding that is not known.
    pub const NOT_IMPLEMENTED: Self = Self(501);
    /// 503: full for the moment.
    pub const UNAVAILABLE: Self = Self(503);
    /// 505: a version of HTTP that is not spoken.
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);

    /// The three digits as a number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The name that RFC 9110 gives the code; empty for one that has no constant here.
    pub const fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            202 => "Accepted",
            204 => "No Content",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            408 => "Request Timeout",
            409 => "Conflict",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
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

    /// Whether an answer with this status has no body, and no field that tells its length
    /// (RFC 9110, sections 8.6 and 15.4.5).
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
    /// The status of `code`; 500 where `code` is not one of a final answer.
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
    fn a_status_line_has_three_digits_and_the_name_of_the_code() {
        assert_eq!(line(Status::NOT_FOUND), "HTTP/1.1 404 Not Found\r\n");
        assert_eq!(
            line(Status::VERSION_NOT_SUPPORTED),
            "HTTP/1.1 505 HTTP Version Not Supported\r\n"
        );
    }

    #[test]
    fn the_space_before_a_missing_name_stays() {
        assert_eq!(line(Status::from(299)), "HTTP/1.1 299 \r\n");
    }

    #[test]
    fn what_is_no_final_status_becomes_500() {
        for code in [0, 99, 100, 199, 600, 1000, u16::MAX] {
            assert_eq!(Status::from(code), Status::INTERNAL);
        }
        for code in 200..600 {
            assert_eq!(Status::from(code).code(), code);
        }
    }
}
