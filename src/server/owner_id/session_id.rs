//! Session ids: version 4 UUIDs.
//!
//! Source: MCP 2025-11-25, basic/transports, "Session Management" (visible ASCII, globally unique,
//! cryptographically secure); RFC 9562, section 5.4.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use corelane_engine::mesh::ShardId;

use super::OwnerId;

/// Id of one session. The upper word contains the version and is never zero, so that an optional
/// id takes no more than an id.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct SessionId {
    upper: NonZeroU64,
    lower: u64,
}

impl SessionId {
    /// Bytes of an id as text.
    pub const TEXT_BYTES: usize = 36;

    /// Returns the id whose free bits are those of `id`.
    pub(super) fn from_owner_id(id: OwnerId) -> Self {
        let upper = VERSION | id.upper & !VERSION_MASK;
        Self { upper, lower: id.lower & !VARIANT_MASK | VARIANT }
    }

    #[inline]
    fn owner_id(self) -> OwnerId {
        OwnerId { upper: self.upper.get(), lower: self.lower }
    }

    /// Parses an id; `None` unless it is a version 4 UUID in lower case: 32 digits in groups of 8,
    /// 4, 4, 4 and 12.
    pub fn parse(text: &[u8]) -> Option<Self> {
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
        let [upper, lower] = halves;
        let is_v4 = upper & VERSION_MASK == VERSION.get() && lower & VARIANT_MASK == VARIANT;
        is_v4.then(|| Self { upper: VERSION | upper, lower })
    }

    /// Returns the id as text.
    pub fn to_text(self) -> [u8; Self::TEXT_BYTES] {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let mut text = [b'-'; Self::TEXT_BYTES];
        let places = (0..Self::TEXT_BYTES).filter(|place| !DASH_POSITIONS.contains(place));
        let bytes = self.owner_id().bits().to_be_bytes();
        let digits = bytes.into_iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        for (place, digit) in places.zip(digits) {
            text[place] = DIGITS[usize::from(digit)];
        }
        text
    }

    /// Returns the owner of the session among `shards` shards.
    pub fn owner(self, shards: u16) -> ShardId {
        self.owner_id().owner(shards)
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
        // Rotated, so that the fixed bits of one half meet free bits of the other.
        state.write_u64(self.upper.get().rotate_left(32) ^ self.lower);
    }
}

/// Uses the hash of a [`SessionId`] unchanged. Tables with this hasher hold generated ids only; a
/// peer can look up an id of its choice but insert none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionIdHasher(u64);

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

/// Fixed bits of a UUID: version 4 in the upper word, the variant of RFC 9562 in the lower one.
const VERSION: NonZeroU64 = match NonZeroU64::new(4 << 12) {
    Some(version) => version,
    None => unreachable!(),
};
const VERSION_MASK: u64 = 0xF << 12;
const VARIANT: u64 = 0b10 << 62;
const VARIANT_MASK: u64 = 0b11 << 62;

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
    use crate::guard::secure_rng::{Purpose, SecureRng};
    use crate::guard::state_cipher::KEY_BYTES;
    use crate::server::owner_id::OwnerIds;

    fn id_generator(shard: u16, shards: u16) -> OwnerIds {
        let mut rng = SecureRng::of_shard(&[7; KEY_BYTES], Purpose::SessionIds, shard);
        OwnerIds::new(ShardId(shard), shards, Box::new(move || rng.next_u128()))
    }

    #[test]
    fn session_id_is_version_4_uuid_and_parses() {
        let mut ids = id_generator(1, 3);
        for _ in 0..100 {
            let id = ids.session_id().unwrap();
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

    /// Each session and each response over HTTP holds one.
    #[test]
    fn optional_session_id_takes_two_words() {
        assert_eq!(size_of::<Option<SessionId>>(), 16);
        assert_eq!(align_of::<SessionId>(), 8);
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
        let hashes: Vec<u64> =
            (0..4096).map(|_| build.hash_one(ids.session_id().unwrap())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for bit in (0..64).filter(|bit| !(44..48).contains(bit)) {
            let ones = hashes.iter().filter(|hash| **hash >> bit & 1 == 1).count();
            assert!((1800..2300).contains(&ones), "bit {bit}: {ones} of 4096");
        }
    }

    #[test]
    fn debug_output_hides_session_id() {
        let id = id_generator(0, 1).session_id().unwrap();
        assert!(!format!("{id:?}").contains(&id.to_string()[..4]));
    }
}
