//! Close codes of WebSocket (RFC 6455, section 7.4).
//!
//! Only codes that may be sent are represented; 1005, 1006 and 1015 are not.

use std::fmt;

/// A code that may occur in a close frame.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// 1000: normal closure.
    pub const NORMAL: Self = Self(1000);
    /// 1001: the server is shutting down, or the page was left.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: protocol error.
    pub const PROTOCOL: Self = Self(1002);
    /// 1003: unsupported data: binary messages.
    pub const UNSUPPORTED: Self = Self(1003);
    /// 1007: invalid payload: text that is not UTF-8.
    pub const INVALID: Self = Self(1007);
    /// 1008: policy violation.
    pub const POLICY: Self = Self(1008);
    /// 1009: message too big.
    pub const TOO_BIG: Self = Self(1009);
    /// 1011: internal error.
    pub const INTERNAL: Self = Self(1011);

    /// Returns the code for `number` if it may occur in a close frame: registered codes (1000 to
    /// 1003, 1007 to 1014), codes of libraries (3000 to 3999) and private codes (4000 to 4999).
    pub const fn from_u16(number: u16) -> Option<Self> {
        match number {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the numeric code.
    pub const fn as_u16(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
