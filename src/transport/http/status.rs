//! Status codes of responses (RFC 9110, section 15), those that are said here.

/// One status code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(u16);

impl Status {
    /// The request is not one, or could be read in two ways.
    pub const BAD_REQUEST: Self = Self(400);
    /// The body is longer than this server takes.
    pub const CONTENT_TOO_LARGE: Self = Self(413);
    /// The target does not fit into what a head may be long.
    pub const URI_TOO_LONG: Self = Self(414);
    /// `Expect` asks for something other than `100-continue`.
    pub const EXPECTATION_FAILED: Self = Self(417);
    /// The head is too long, or has too many fields.
    pub const REQUEST_HEADER_FIELDS_TOO_LARGE: Self = Self(431);
    /// A transfer coding that this server does not decode.
    pub const NOT_IMPLEMENTED: Self = Self(501);
    /// A version of HTTP other than 1.0 and 1.1.
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);

    /// The three digits.
    pub const fn code(self) -> u16 {
        self.0
    }
}
