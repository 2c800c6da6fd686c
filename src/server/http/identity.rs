//! The names of sessions: unguessable, and each tells which shard keeps its session.
//!
//! What it keeps true: a name is a UUID of version 4 by its shape; of its 122 free bits all but the
//! few that say the shard are drawn from the source that the server was given; any shard finds the
//! owner in the name alone, without a map and without asking. Who knows a name may use its session:
//! that is why nobody can guess it and why it is never written to a log.
//!
//! Source: 2025-11-25, basic/transports, "Session Management" (visible ASCII, globally unique,
//! cryptographically secure); RFC 9562, section 5.4.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use crate::engine::mesh::ShardId;
use crate::guard::draws::Draws;

/// Names one session.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::server) struct SessionId([u8; 16]);

impl SessionId {
    /// Bytes of a name as it is told.
    pub(in crate::server) const TEXT_BYTES: usize = 36;

    /// The name whose free bits are those of `bits`.
    fn shaped(bits: u128) -> Self {
        Self((bits & !SHAPE_MASK | SHAPE).to_be_bytes())
    }

    /// Reads a name as a peer sent it; `None` where it is none of ours: 32 digits, lower case, in
    /// groups of 8, 4, 4, 4 and 12, with the version and the variant of a random UUID.
    pub(in crate::server) fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; Self::TEXT_BYTES] = text.try_into().ok()?;
        // Digits are looked up, and judged together at the end: a branch on each, of bits that
        // chance has drawn, would be guessed wrong half the time.
        let mut halves = [0u64; 2];
        let mut seen = 0;
        for (half, places) in halves.iter_mut().zip(DIGITS_AT.as_chunks::<16>().0) {
            for place in places {
                let digit = DIGIT_VALUES[usize::from(text[*place])];
                seen |= digit;
                *half = *half << 4 | u64::from(digit & 0xF);
            }
        }
        if seen > 0xF || DASHES.iter().any(|place| text[*place] != b'-') {
            return None;
        }
        let bits = u128::from(halves[0]) << 64 | u128::from(halves[1]);
        (bits & SHAPE_MASK == SHAPE).then(|| Self(bits.to_be_bytes()))
    }

    /// The name as it is told.
    pub(in crate::server) fn text(self) -> [u8; Self::TEXT_BYTES] {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let mut text = [b'-'; Self::TEXT_BYTES];
        let places = (0..Self::TEXT_BYTES).filter(|place| !DASHES.contains(place));
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        for (place, digit) in places.zip(digits) {
            text[place] = DIGITS[usize::from(digit)];
        }
        text
    }

    /// The shard that keeps the session, of as many as there are.
    ///
    /// The first 48 bits of the name, read as a fraction of one, fall into one of `shards`
    /// stretches of equal length.
    pub(in crate::server) fn owner(self, shards: u16) -> ShardId {
        let place = (u128::from_be_bytes(self.0) >> BITS_BELOW) * u128::from(shards);
        // Below `shards`, because the fraction is below one.
        ShardId(u16::try_from(place >> FRACTION_BITS).unwrap_or(u16::MAX))
    }
}

impl fmt::Debug for SessionId {
    /// Says nothing of the name: it opens the session.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId(..)")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().into_iter().try_for_each(|byte| formatter.write_char(char::from(byte)))
    }
}

impl Hash for SessionId {
    /// One word, of bits that chance has drawn: nothing is left to be scattered.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bits = u128::from_be_bytes(self.0);
        // Turned, so that the bits of the shape fall on bits that are free.
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the name are meant")]
        let (upper, lower) = ((bits >> 64) as u64, bits as u64);
        state.write_u64(upper.rotate_left(32) ^ lower);
    }
}

/// Takes the word of a [`SessionId`] as it is. A table that hashes so holds only names that we have
/// drawn; a peer can look for a name of its choice and place none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrawnHasher(u64);

impl Hasher for DrawnHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let add = |word: u64, byte: &u8| word.rotate_left(8) ^ u64::from(*byte);
        self.0 = bytes.iter().fold(self.0, add);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// Draws the names of the sessions of one shard.
#[derive(Debug)]
pub(in crate::server) struct SessionIds {
    /// Where the stretch of this shard begins.
    first: u128,
    /// How long it is.
    length: u128,
    draws: Draws,
}

impl SessionIds {
    /// The names of `shard`, one of `shards`. No other shard may have the same `draws`.
    pub(in crate::server) fn new(shard: ShardId, shards: u16, draws: Draws) -> Self {
        let begin =
            |shard: u16| (u128::from(shard) << FRACTION_BITS).div_ceil(u128::from(shards.max(1)));
        let first = begin(shard.0);
        Self { first, length: begin(shard.0.saturating_add(1)) - first, draws }
    }

    /// Draws a name that this shard owns; `None` where chance has run dry.
    pub(in crate::server) fn draw(&mut self) -> Option<SessionId> {
        self.draws.draw().map(|bits| self.place(bits))
    }

    /// The name in the stretch of this shard that `bits` mean.
    fn place(&self, bits: u128) -> SessionId {
        let (fraction, rest) = (bits >> BITS_BELOW, bits & ((1 << BITS_BELOW) - 1));
        // The product of two fractions, the second one below `length`.
        let fraction = self.first + ((fraction * self.length) >> FRACTION_BITS);
        SessionId::shaped(fraction << BITS_BELOW | rest)
    }
}

/// Bits of a name that say its shard: those before the version.
const FRACTION_BITS: u32 = 48;
const BITS_BELOW: u32 = u128::BITS - FRACTION_BITS;

/// Version 4 and the variant of RFC 9562.
const SHAPE: u128 = 4 << 76 | 0b10 << 62;
const SHAPE_MASK: u128 = 0xF << 76 | 0b11 << 62;

/// What each byte is worth as a hexadecimal digit in lower case; more than any of them where it is
/// none.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit as usize] as usize] = digit;
        digit += 1;
    }
    values
};

/// Where the digits of a name stand.
const DIGITS_AT: [usize; 32] = {
    let mut places = [0; 32];
    let (mut place, mut digit) = (0, 0);
    while place < SessionId::TEXT_BYTES {
        if !matches!(place, 8 | 13 | 18 | 23) {
            places[digit] = place;
            digit += 1;
        }
        place += 1;
    }
    places
};

/// Where the groups of a name are parted.
const DASHES: [usize; 4] = [8, 13, 18, 23];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    use super::*;
    use crate::guard::seal::KEY_BYTES;

    fn ids(shard: u16, shards: u16) -> SessionIds {
        let draws = Draws::new(&[7; KEY_BYTES], 1 + u32::from(shard));
        SessionIds::new(ShardId(shard), shards, draws)
    }

    #[test]
    fn every_name_leads_to_the_shard_that_drew_it() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for shard in [0, 1, shards / 2, shards - 1] {
                let shard = shard.min(shards - 1);
                let mut ids = ids(shard, shards);
                for _ in 0..100 {
                    let id = ids.draw().unwrap();
                    assert_eq!(id.owner(shards), ShardId(shard), "{id} of {shards}");
                }
            }
        }
    }

    #[test]
    fn the_ends_of_chance_stay_within_the_stretch() {
        for shards in [1, 2, 3, 5, 4096, u16::MAX] {
            for shard in [0, shards - 1] {
                for bits in [0, u128::MAX] {
                    let id = ids(shard, shards).place(bits);
                    assert_eq!(id.owner(shards), ShardId(shard));
                }
            }
        }
    }

    #[test]
    fn a_name_has_the_shape_of_a_random_uuid_and_reads_back() {
        let mut ids = ids(1, 3);
        for _ in 0..100 {
            let id = ids.draw().unwrap();
            let text = id.text();
            assert!(text.iter().all(u8::is_ascii_graphic));
            let dashes: Vec<usize> = (0..36).filter(|place| text[*place] == b'-').collect();
            assert_eq!(dashes, [8, 13, 18, 23]);
            assert_eq!(text[14], b'4');
            assert!(b"89ab".contains(&text[19]));
            assert_eq!(id.to_string().as_bytes(), text);
            assert_eq!(SessionId::parse(&text), Some(id));
        }
    }

    #[test]
    fn the_digits_of_a_name_stand_in_their_order() {
        let text = "00112233-4455-4677-8899-aabbccddeeff";
        assert_eq!(SessionId::parse(text.as_bytes()).unwrap().to_string(), text);
    }

    #[test]
    fn no_text_but_a_name_reads_as_one() {
        let text = "00112233-4455-4677-8899-aabbccddeeff";
        let changed = |place: usize, byte: u8| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[place] = byte;
            bytes
        };
        for place in 0..text.len() {
            for byte in [b' ', b'g', b'A', b'+', b'_', 0, 0x80] {
                assert_eq!(SessionId::parse(&changed(place, byte)), None, "{byte} at {place}");
            }
            let other = if DASHES.contains(&place) { b'0' } else { b'-' };
            assert_eq!(SessionId::parse(&changed(place, other)), None, "{other} at {place}");
        }
        // Another version, other variants, another length.
        for (place, byte) in [(14, b'1'), (14, b'5'), (19, b'7'), (19, b'c')] {
            assert_eq!(SessionId::parse(&changed(place, byte)), None);
        }
        for wrong in [&text[1..], &format!("{text}0"), "", "é"] {
            assert_eq!(SessionId::parse(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn names_are_scattered_over_a_table_by_every_bit_of_their_hash() {
        let mut ids = ids(200, 256);
        let build = BuildHasherDefault::<DrawnHasher>::default();
        let hashes: Vec<u64> = (0..4096).map(|_| build.hash_one(ids.draw().unwrap())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for bit in (0..64).filter(|bit| !(44..48).contains(bit)) {
            let ones = hashes.iter().filter(|hash| **hash >> bit & 1 == 1).count();
            assert!((1800..2300).contains(&ones), "bit {bit}: {ones} of 4096");
        }
    }

    #[test]
    fn what_is_written_for_people_who_debug_does_not_tell_a_name() {
        let id = ids(0, 1).draw().unwrap();
        assert!(!format!("{id:?}").contains(&id.to_string()[..4]));
    }

    #[test]
    fn where_chance_runs_dry_there_is_no_name() {
        // The stream of seals has no numbers to give.
        let draws = Draws::new(&[7; KEY_BYTES], 0);
        assert_eq!(SessionIds::new(ShardId(0), 1, draws).draw(), None);
    }
}
