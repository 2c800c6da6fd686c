//! Session ids: unguessable, and each names the shard that owns its session.
//!
//! Invariants: an id is a version 4 UUID; all of its 122 free bits but the few that name the shard
//! are random; any shard computes the owner from the id alone, without a map. An id is a bearer
//! credential of its session: therefore it is never written to a log.
//!
//! Source: MCP 2025-11-25, basic/transports, "Session Management" (visible ASCII, globally unique,
//! cryptographically secure); RFC 9562, section 5.4.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use crate::engine::mesh::ShardId;
use crate::guard::secure_rng::SecureRng;

/// Id of one session.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::server) struct SessionId([u8; 16]);

impl SessionId {
    /// Bytes of an id as text.
    pub(in crate::server) const TEXT_BYTES: usize = 36;

    /// Returns the id whose free bits are those of `bits`.
    fn from_bits(bits: u128) -> Self {
        Self((bits & !UUID_V4_MASK | UUID_V4_BITS).to_be_bytes())
    }

    /// Parses an id; `None` unless it is a version 4 UUID in lower case: 32 digits in groups of 8,
    /// 4, 4, 4 and 12.
    pub(in crate::server) fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; Self::TEXT_BYTES] = text.try_into().ok()?;
        // Digits are looked up and checked together at the end: a branch on each random digit would
        // be mispredicted half the time.
        let mut halves = [0u64; 2];
        let mut seen = 0;
        for (half, places) in halves.iter_mut().zip(DIGIT_POSITIONS.as_chunks::<16>().0) {
            for place in places {
                let digit = DIGIT_VALUES[usize::from(text[*place])];
                seen |= digit;
                *half = *half << 4 | u64::from(digit & 0xF);
            }
        }
        if seen > 0xF || DASH_POSITIONS.iter().any(|place| text[*place] != b'-') {
            return None;
        }
        let bits = u128::from(halves[0]) << 64 | u128::from(halves[1]);
        (bits & UUID_V4_MASK == UUID_V4_BITS).then(|| Self(bits.to_be_bytes()))
    }

    /// Returns the id as text.
    pub(in crate::server) fn to_text(self) -> [u8; Self::TEXT_BYTES] {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let mut text = [b'-'; Self::TEXT_BYTES];
        let places = (0..Self::TEXT_BYTES).filter(|place| !DASH_POSITIONS.contains(place));
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        for (place, digit) in places.zip(digits) {
            text[place] = DIGITS[usize::from(digit)];
        }
        text
    }

    /// Returns the owner of the session among `shards` shards.
    ///
    /// The first 48 bits of the id, read as a fraction of one, fall into one of `shards` ranges of
    /// equal length.
    pub(in crate::server) fn owner_shard(self, shards: u16) -> ShardId {
        let place = (u128::from_be_bytes(self.0) >> REST_BITS) * u128::from(shards);
        // Below `shards`, because the fraction is below one.
        ShardId(u16::try_from(place >> OWNER_BITS).unwrap_or(u16::MAX))
    }
}

impl fmt::Debug for SessionId {
    /// Hides the id, which gives access to the session.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId(..)")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_text().into_iter().try_for_each(|byte| formatter.write_char(char::from(byte)))
    }
}

impl Hash for SessionId {
    /// One word of random bits, which needs no further hashing.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bits = u128::from_be_bytes(self.0);
        // Rotated, so that the fixed bits of one half meet free bits of the other.
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (upper, lower) = ((bits >> 64) as u64, bits as u64);
        state.write_u64(upper.rotate_left(32) ^ lower);
    }
}

/// Uses the hash of a [`SessionId`] unchanged. Tables with this hasher hold generated ids only; a
/// peer can look up an id of its choice but insert none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionIdHasher(u64);

impl Hasher for SessionIdHasher {
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

/// Generates the ids of the sessions of one shard.
#[derive(Debug)]
pub(in crate::server) struct SessionIds {
    /// Begin of this shard's range.
    range_start: u128,
    /// Length of the range.
    range_length: u128,
    rng: SecureRng,
}

impl SessionIds {
    /// Creates the generator of `shard`, one of `shards`. No other shard may have the same `draws`.
    pub(in crate::server) fn new(shard: ShardId, shards: u16, rng: SecureRng) -> Self {
        let begin =
            |shard: u16| (u128::from(shard) << OWNER_BITS).div_ceil(u128::from(shards.max(1)));
        let range_start = begin(shard.0);
        Self { range_start, range_length: begin(shard.0.saturating_add(1)) - range_start, rng }
    }

    /// Generates an id that this shard owns; `None` if no random bits are available.
    pub(in crate::server) fn generate(&mut self) -> Option<SessionId> {
        self.rng.next_u128().map(|bits| self.id_from_bits(bits))
    }

    /// Maps random bits to an id in the range of this shard.
    fn id_from_bits(&self, bits: u128) -> SessionId {
        let (fraction, rest) = (bits >> REST_BITS, bits & ((1 << REST_BITS) - 1));
        // The product of two fractions, the second one below `length`.
        let fraction = self.range_start + ((fraction * self.range_length) >> OWNER_BITS);
        SessionId::from_bits(fraction << REST_BITS | rest)
    }
}

/// Bits of an id that name its shard: those before the version.
const OWNER_BITS: u32 = 48;
const REST_BITS: u32 = u128::BITS - OWNER_BITS;

/// Fixed bits of a UUID: version 4 and the variant of RFC 9562.
const UUID_V4_BITS: u128 = 4 << 76 | 0b10 << 62;
const UUID_V4_MASK: u128 = 0xF << 76 | 0b11 << 62;

/// Values of hexadecimal digits in lower case; `u8::MAX` for other bytes.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit as usize] as usize] = digit;
        digit += 1;
    }
    values
};

/// Positions of the digits of an id.
const DIGIT_POSITIONS: [usize; 32] = {
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

/// Positions of the dashes of an id.
const DASH_POSITIONS: [usize; 4] = [8, 13, 18, 23];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    use super::*;
    use crate::guard::state_cipher::KEY_BYTES;

    fn id_generator(shard: u16, shards: u16) -> SessionIds {
        let draws = SecureRng::new(&[7; KEY_BYTES], 1 + u32::from(shard));
        SessionIds::new(ShardId(shard), shards, draws)
    }

    #[test]
    fn generated_ids_name_their_owner_shard() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for shard in [0, 1, shards / 2, shards - 1] {
                let shard = shard.min(shards - 1);
                let mut ids = id_generator(shard, shards);
                for _ in 0..100 {
                    let id = ids.generate().unwrap();
                    assert_eq!(id.owner_shard(shards), ShardId(shard), "{id} of {shards}");
                }
            }
        }
    }

    #[test]
    fn extreme_random_bits_stay_in_range() {
        for shards in [1, 2, 3, 5, 4096, u16::MAX] {
            for shard in [0, shards - 1] {
                for bits in [0, u128::MAX] {
                    let id = id_generator(shard, shards).id_from_bits(bits);
                    assert_eq!(id.owner_shard(shards), ShardId(shard));
                }
            }
        }
    }

    #[test]
    fn session_id_is_version_4_uuid_and_parses() {
        let mut ids = id_generator(1, 3);
        for _ in 0..100 {
            let id = ids.generate().unwrap();
            let text = id.to_text();
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
    fn session_id_digits_keep_their_order() {
        let text = "00112233-4455-4677-8899-aabbccddeeff";
        assert_eq!(SessionId::parse(text.as_bytes()).unwrap().to_string(), text);
    }

    #[test]
    fn malformed_session_ids_are_rejected() {
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
            let other = if DASH_POSITIONS.contains(&place) { b'0' } else { b'-' };
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
    fn session_id_hashes_are_uniform() {
        let mut ids = id_generator(200, 256);
        let build = BuildHasherDefault::<SessionIdHasher>::default();
        let hashes: Vec<u64> = (0..4096).map(|_| build.hash_one(ids.generate().unwrap())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for bit in (0..64).filter(|bit| !(44..48).contains(bit)) {
            let ones = hashes.iter().filter(|hash| **hash >> bit & 1 == 1).count();
            assert!((1800..2300).contains(&ones), "bit {bit}: {ones} of 4096");
        }
    }

    #[test]
    fn debug_output_hides_session_id() {
        let id = id_generator(0, 1).generate().unwrap();
        assert!(!format!("{id:?}").contains(&id.to_string()[..4]));
    }

    #[test]
    fn exhausted_random_stream_generates_no_session_id() {
        // Stream 0 is that of the cipher and cannot be drawn from.
        let draws = SecureRng::new(&[7; KEY_BYTES], 0);
        assert_eq!(SessionIds::new(ShardId(0), 1, draws).generate(), None);
    }
}
