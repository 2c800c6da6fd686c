//! The 64-bit user data of submissions: the kind of the operation and an index.

use io_uring::cqueue;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OperationKind {
    /// Accept number `index`.
    Accept,
    /// Bind the socket of connect attempt `index`.
    Bind,
    /// Cancel an operation; the result is ignored.
    Cancel,
    /// Close socket `index`.
    Close,
    /// Connect attempt `index`.
    Connect,
    /// Shut down writing on socket `index`; the result is ignored.
    ShutdownWrite,
    /// Move the descriptor of connect attempt `index` into a slot.
    InstallSlot,
    /// A `MSG_RING` to known ring `index`.
    SendMessage,
    /// Receive on socket `index`.
    Receive,
    /// Send `index`.
    Send,
    /// Open a socket for connect attempt `index`.
    OpenSocket,
    /// Set a socket option; the result is ignored.
    SetOption,
    /// Read the eventfd that wakers write to.
    ReadEvent,
    /// A `MSG_RING` from another ring, which ends the wait; not one of our submissions.
    ReceiveMessage,
}

const KINDS: [OperationKind; 14] = [
    OperationKind::Accept,
    OperationKind::Bind,
    OperationKind::Cancel,
    OperationKind::Close,
    OperationKind::Connect,
    OperationKind::ShutdownWrite,
    OperationKind::InstallSlot,
    OperationKind::SendMessage,
    OperationKind::Receive,
    OperationKind::Send,
    OperationKind::OpenSocket,
    OperationKind::SetOption,
    OperationKind::ReadEvent,
    OperationKind::ReceiveMessage,
];

/// Encodes user data.
pub(super) const fn encode(purpose: OperationKind, index: u32) -> u64 {
    ((purpose as u64) << 32) | index as u64
}

/// Decodes user data; returns `None` for an unknown kind.
#[expect(clippy::cast_possible_truncation, reason = "the low half of the word is meant")]
pub(super) fn decode(token: u64) -> Option<(OperationKind, u32)> {
    let purpose = *KINDS.get(usize::try_from(token >> 32).ok()?)?;
    Some((purpose, token as u32))
}

/// Returns whether a completion is the last one of a submission that always completes. `MSG_RING`
/// does not: neither those received, nor those delivered.
pub(super) fn is_last(token: u64, flags: u32) -> bool {
    let purpose = token >> 32;
    !cqueue::more(flags)
        && purpose != OperationKind::ReceiveMessage as u64
        && purpose != OperationKind::SendMessage as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_round_trips_every_kind() {
        for purpose in KINDS {
            assert_eq!(decode(encode(purpose, u32::MAX)), Some((purpose, u32::MAX)));
        }
        assert_eq!(decode(u64::MAX), None);
    }
}
