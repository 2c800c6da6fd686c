//! How much one message may be, and how a peer can break the protocol.

use super::code::CloseCode;

/// Bounds on what a peer sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameLimits {
    /// Bytes of a message, as they stand on the wire, over all its frames. Default 4 MiB. A message
    /// that is not whole is held in memory up to here.
    pub message_bytes_max: usize,
    /// Whether binary messages are taken. Default no: MCP is text. The echo that is tested against
    /// the whole of RFC 6455 takes them.
    pub is_binary_allowed: bool,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { message_bytes_max: 4 << 20, is_binary_allowed: false }
    }
}

/// How the peer broke the protocol. Each kind is a constant, so that kinds can be told apart and
/// counted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Fault {
    /// What the close frame says.
    pub code: CloseCode,
    /// The same for people, without anything that the peer wrote: short enough for a close frame.
    pub reason: &'static str,
}

/// Makes the faults and the list of them.
macro_rules! faults {
    ($($(#[doc = $what:literal])+ $name:ident $code:ident $reason:literal,)+) => {
        impl Fault {
            $($(#[doc = $what])+
            pub const $name: Self = Self { code: CloseCode::$code, reason: $reason };)+

            /// Every kind.
            pub const ALL: [Self; [$($reason),+].len()] = [$(Self::$name),+];
        }
    };
}

faults! {
    /// A bit that no extension has given a meaning is set (RFC 6455, section 5.2).
    RESERVED_BIT PROTOCOL "a reserved bit is set",
    /// An opcode that means nothing (section 5.2).
    RESERVED_OPCODE PROTOCOL "the opcode is reserved",
    /// A frame of a client that is not masked (section 5.1).
    UNMASKED PROTOCOL "the frame is not masked",
    /// A control frame in fragments (section 5.5).
    FRAGMENTED_CONTROL PROTOCOL "a control frame is fragmented",
    /// A control frame of more than 125 bytes (section 5.5).
    LONG_CONTROL PROTOCOL "a control frame is too long",
    /// A continuation of nothing (section 5.4).
    LONE_CONTINUATION PROTOCOL "there is no message to continue",
    /// A message inside the fragments of another (section 5.4).
    INTERLEAVED PROTOCOL "a message begins inside another",
    /// A length that fits into fewer bytes (section 5.2).
    LONG_LENGTH PROTOCOL "the length is not in its shortest form",
    /// A length with the highest of its 64 bits set (section 5.2).
    HUGE_LENGTH PROTOCOL "the length has more than 63 bits",
    /// A close frame of one byte: half a code (section 5.5.1).
    HALF_CODE PROTOCOL "the close frame has half a code",
    /// A code that may not stand in a close frame (section 7.4).
    BAD_CODE PROTOCOL "the close code is none",
    /// The reason of a close frame is not UTF-8 (section 5.5.1).
    BAD_REASON INVALID "the close reason is not UTF-8",
    /// Text that is not UTF-8 (section 8.1).
    NOT_UTF8 INVALID "the text is not UTF-8",
    /// Binary data, where only text is taken.
    BINARY UNSUPPORTED "binary messages are not taken",
    /// A message longer than `message_bytes_max`.
    TOO_BIG TOO_BIG "the message is too big",
    /// What was compressed cannot be decompressed (RFC 7692, section 7.2.2).
    NOT_DEFLATED INVALID "the message is not well compressed",
    /// A message that inflates to far more than was sent.
    INFLATES_FAR POLICY "the message inflates too far",
    /// A message without its line feed, where the delimiter is strict (seed 001, section 4).
    NO_DELIMITER PROTOCOL "the message does not end in a line feed",
}
