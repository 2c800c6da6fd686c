//! Limits of messages, the protocol errors of a peer, and the close codes that report them (RFC
//! 6455, section 7.4).
//!
//! Only codes that may be sent are represented; 1005, 1006 and 1015 are not.

use std::fmt;

/// Limits of received messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameLimits {
    /// Bytes of a message as received, over all its frames. An incomplete message is buffered up to
    /// this size. Default 4 MiB.
    pub message_bytes_max: usize,
    /// Whether binary messages are accepted. Default false, since MCP uses text; the Autobahn echo
    /// server accepts them.
    pub is_binary_allowed: bool,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { message_bytes_max: 4 << 20, is_binary_allowed: false }
    }
}

/// A protocol error of the peer. Each kind is a constant, so that kinds can be compared and
/// counted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ProtocolError {
    /// The code of the close frame.
    pub code: CloseCode,
    /// The reason of the close frame, without any data of the peer.
    pub reason: &'static str,
}

/// Declares the protocol errors and the list of them.
macro_rules! protocol_errors {
    ($($(#[doc = $what:literal])+ $name:ident $code:ident $reason:literal,)+) => {
        impl ProtocolError {
            $($(#[doc = $what])+
            pub const $name: Self = Self { code: CloseCode::$code, reason: $reason };)+

            /// All kinds.
            pub const ALL: [Self; [$($reason),+].len()] = [$(Self::$name),+];
        }
    };
}

protocol_errors! {
    /// A reserved bit is set that no extension defines (RFC 6455, section 5.2).
    RESERVED_BIT PROTOCOL "a reserved bit is set",
    /// A reserved opcode (section 5.2).
    RESERVED_OPCODE PROTOCOL "the opcode is reserved",
    /// An unmasked frame of a client (section 5.1).
    UNMASKED PROTOCOL "the frame is not masked",
    /// A masked frame of a server (section 5.1).
    MASKED PROTOCOL "the frame of a server is masked",
    /// A fragmented control frame (section 5.5).
    FRAGMENTED_CONTROL PROTOCOL "a control frame is fragmented",
    /// A control frame of more than 125 bytes (section 5.5).
    OVERSIZED_CONTROL PROTOCOL "a control frame is too long",
    /// A continuation frame without a message (section 5.4).
    UNEXPECTED_CONTINUATION PROTOCOL "unexpected continuation frame",
    /// A message inside a fragmented message (section 5.4).
    INTERLEAVED PROTOCOL "a message begins inside another",
    /// A length that is not minimally encoded (section 5.2).
    NON_MINIMAL_LENGTH PROTOCOL "the length is not in its shortest form",
    /// A 64-bit length with the most significant bit set (section 5.2).
    LENGTH_OVERFLOW PROTOCOL "the length has more than 63 bits",
    /// A close frame of one byte (section 5.5.1).
    TRUNCATED_CLOSE_CODE PROTOCOL "the close frame has a truncated code",
    /// A code that must not be sent (section 7.4).
    INVALID_CLOSE_CODE PROTOCOL "the close code is invalid",
    /// A close reason that is not UTF-8 (section 5.5.1).
    INVALID_CLOSE_REASON INVALID "the close reason is not UTF-8",
    /// Text that is not UTF-8 (section 8.1).
    INVALID_UTF8 INVALID "the text is not UTF-8",
    /// A binary message where only text is accepted.
    UNSUPPORTED_BINARY UNSUPPORTED "binary messages are not supported",
    /// A message over `message_bytes_max`.
    MESSAGE_TOO_BIG TOO_BIG "the message is too big",
    /// Compressed data that cannot be inflated (RFC 7692, section 7.2.2).
    INVALID_DEFLATE INVALID "the compressed message is invalid",
    /// A message that exceeds the inflate ratio.
    INFLATE_RATIO POLICY "the message exceeds the compression ratio limit",
    /// A message without a final line feed, where the delimiter is strict.
    MISSING_DELIMITER PROTOCOL "the message does not end in a line feed",
}

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
