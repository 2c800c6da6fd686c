//! Why a WebSocket connection ends: the number in a close frame (RFC 6455, section 7.4).
//!
//! What it keeps true: a code may stand on the wire. 1005, 1006 and 1015 only stand for what is
//! missing there, so they are none. It does not say who closes when.

use std::fmt;

/// A code that may stand in a close frame.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// 1000: what the connection was for is done.
    pub const NORMAL: Self = Self(1000);
    /// 1001: the server goes down, or the page was left.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: the peer broke the protocol.
    pub const PROTOCOL: Self = Self(1002);
    /// 1003: data of a type that is not taken: binary messages.
    pub const UNSUPPORTED: Self = Self(1003);
    /// 1007: data that is not of its type: text that is not UTF-8.
    pub const INVALID: Self = Self(1007);
    /// 1008: against the rules of whoever says so.
    pub const POLICY: Self = Self(1008);
    /// 1009: a message longer than is taken.
    pub const TOO_BIG: Self = Self(1009);
    /// 1011: our fault.
    pub const INTERNAL: Self = Self(1011);

    /// The code of this number, where a close frame may have it: those of the protocol that are
    /// registered (1000 to 1003, 1007 to 1014), those of libraries and frameworks (3000 to 3999)
    /// and private ones (4000 to 4999).
    pub const fn read(number: u16) -> Option<Self> {
        match number {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
