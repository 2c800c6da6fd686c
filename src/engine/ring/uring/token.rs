//! What a completion belongs to, in the 64 bits that the kernel carries for us.

use io_uring::cqueue;

/// The purpose of a submission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// Accept into cell `index`.
    Accept,
    /// Bind the socket of the attempt `index`.
    Bind,
    /// Cancel something; the answer is not looked at.
    Cancel,
    /// Close the socket `index`.
    Close,
    /// Connect the attempt `index`.
    Connect,
    /// Half-close; the answer is not looked at.
    Finish,
    /// Give the socket of the attempt `index`, which has a descriptor, a slot.
    Install,
    /// A message to the ring `index` of those that messages were sent to.
    Message,
    /// Receive on the socket `index`.
    Receive,
    /// The send `index`.
    Send,
    /// Open a socket for the attempt `index`.
    Open,
    /// An option set; the answer is not looked at.
    Option,
    /// The read of the event descriptor that wakers write to.
    Wake,
    /// A message from another ring: it only ends the wait, and answers no submission of ours.
    Woken,
}

const ALL: [Purpose; 14] = [
    Purpose::Accept,
    Purpose::Bind,
    Purpose::Cancel,
    Purpose::Close,
    Purpose::Connect,
    Purpose::Finish,
    Purpose::Install,
    Purpose::Message,
    Purpose::Receive,
    Purpose::Send,
    Purpose::Open,
    Purpose::Option,
    Purpose::Wake,
    Purpose::Woken,
];

/// The word of a submission: its purpose and the place it concerns.
pub(super) const fn token(purpose: Purpose, index: u32) -> u64 {
    ((purpose as u64) << 32) | index as u64
}

/// The inverse of [`token`]; `None` for a word that is not ours.
#[expect(clippy::cast_possible_truncation, reason = "the low half of the word is meant")]
pub(super) fn read(token: u64) -> Option<(Purpose, u32)> {
    let purpose = *ALL.get(usize::try_from(token >> 32).ok()?)?;
    Some((purpose, token as u32))
}

/// Whether a completion with this word and these flags is the last one of a submission that is
/// always answered. Messages are not: neither those of others to us, nor ours that were delivered.
pub(super) fn is_last(token: u64, flags: u32) -> bool {
    let purpose = token >> 32;
    !cqueue::more(flags) && purpose != Purpose::Woken as u64 && purpose != Purpose::Message as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_survives_the_way_through_the_kernel() {
        for purpose in ALL {
            assert_eq!(read(token(purpose, u32::MAX)), Some((purpose, u32::MAX)));
        }
        assert_eq!(read(u64::MAX), None);
    }
}
