//! `X-Request-ID`: the name of an HTTP request in the logs of all programs that it passes.
//!
//! A request may bring one: up to 128 visible ASCII characters, without blanks. Any other gets a
//! UUID of this server. Either is in the response.
//!
//! The UUIDs of a process are of version 4: 80 bits and the start of a counter are random, the
//! counter is the last group of digits. They name requests and are no secrets.
//!
//! Source: RFC 9562, section 5.4; there is no standard of the field.

use corelane_base::heap_bytes::HeapBytes;

use super::grammar::single_value;

/// Maximum length of an id that is taken over.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Length of a UUID as text.
pub(super) const UUID_BYTES: usize = 36;

/// Returns the id that a request brings, from the value of its field.
#[inline]
pub fn sent_id(value: Option<&[u8]>) -> Option<&[u8]> {
    // Most requests have none.
    match value {
        None => None,
        Some(value) => check(value),
    }
}

/// Returns the id that a request brings, from all values of its field: equal ones are one, and
/// different ones are none.
pub fn sent_id_of_all<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<&'v [u8]> {
    let first = values.next()?;
    check(first).filter(|_| values.all(|other| is_same(first, other)))
}

/// Returns whether two values of the field name the same id.
#[cold]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one == other || single_value(one) == single_value(other)
}

/// A program on the way may have combined several lines into a list with blanks.
#[cold]
fn check(value: &[u8]) -> Option<&[u8]> {
    let is_valid = |id: &&[u8]| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
    };
    [value, single_value(value)].into_iter().find(is_valid)
}

/// Returns a UUID that is not of a shard.
pub fn random_uuid(random: u128) -> [u8; UUID_BYTES] {
    first_uuid(random, 0)
}

/// Writes the first UUID of a shard. `random` is the same on all shards of a process.
pub(super) fn first_uuid(random: u128, shard: u16) -> [u8; UUID_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // The second group of digits is that of the shard.
    let bits = random ^ u128::from(shard) << SHARD_AT;
    let bits = bits & !VERSION_MASK | VERSION_BITS;
    let mut text = [b'-'; UUID_BYTES];
    let places = (0..UUID_BYTES).filter(|place| !DASHES.contains(place));
    let digits = bits.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    for (place, digit) in places.zip(digits) {
        text[place] = DIGITS[usize::from(digit)];
    }
    text
}

/// Adds one to the number that the last group of a UUID is; it wraps.
#[inline]
pub(super) fn increment(uuid: &mut [u8]) {
    let counter = uuid.get_mut(COUNTER_AT..UUID_BYTES).unwrap_or_default();
    for digit in counter.iter_mut().rev() {
        match *digit {
            b'f' => *digit = b'0',
            b'9' => {
                *digit = b'a';
                return;
            }
            _ => {
                *digit += 1;
                return;
            }
        }
    }
}

/// The id of a request whose response comes later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RequestIdBuf {
    /// One as long as a UUID: most are.
    Uuid([u8; UUID_BYTES]),
    /// Any other.
    Other(Box<[u8]>),
}

impl HeapBytes for RequestIdBuf {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Uuid(_) => 0,
            Self::Other(text) => text.heap_bytes(),
        }
    }
}

impl RequestIdBuf {
    /// Returns the id.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Uuid(text) => text,
            Self::Other(text) => text,
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl From<&[u8]> for RequestIdBuf {
    /// Copies an id. Allocates, unless it is as long as a UUID.
    fn from(id: &[u8]) -> Self {
        id.try_into().map_or_else(|_| Self::Other(id.into()), Self::Uuid)
    }
}

/// Bit of the last digit of the second group.
const SHARD_AT: u32 = 80;
/// The digit of the version and the bits of the variant.
const VERSION_MASK: u128 = 0xF << 76 | 0b11 << 62;
const VERSION_BITS: u128 = 4 << 76 | 0b10 << 62;
const DASHES: [usize; 4] = [8, 13, 18, 23];
/// The last group of digits.
const COUNTER_AT: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(uuid: [u8; UUID_BYTES]) -> String {
        String::from_utf8(uuid.to_vec()).unwrap()
    }

    #[test]
    fn first_uuid_has_version_variant_and_shard() {
        assert_eq!(text(first_uuid(0, 0)), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(first_uuid(u128::MAX, 1)), "ffffffff-fffe-4fff-bfff-ffffffffffff");
        let random = 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210;
        assert_eq!(text(first_uuid(random, 0)), "01234567-89ab-4def-bedc-ba9876543210");
        let of_shards: Vec<_> = (0..u16::MAX).map(|shard| first_uuid(random, shard)).collect();
        let prefixes: std::collections::BTreeSet<_> =
            of_shards.iter().map(|uuid| &uuid[..COUNTER_AT]).collect();
        assert_eq!(prefixes.len(), of_shards.len());
    }

    #[test]
    fn counter_is_hexadecimal_and_wraps() {
        let mut uuid = *b"00000000-0000-4000-8000-fffffffff0fe";
        let mut last = |count: usize| {
            (0..count).for_each(|_| increment(&mut uuid));
            text(uuid)[COUNTER_AT..].to_owned()
        };
        assert_eq!(last(1), "fffffffff0ff");
        assert_eq!(last(1), "fffffffff100");
        assert_eq!(last(10), "fffffffff10a");
        assert_eq!(last(0xF00 - 11), "ffffffffffff");
        assert_eq!(last(1), "000000000000");
    }

    #[test]
    fn visible_ids_are_taken_over() {
        let longest = "x".repeat(REQUEST_ID_BYTES_MAX);
        for id in ["a", "!~", "a,a", "a,", "trace,1;2=\"3\"", &longest] {
            assert_eq!(sent_id(Some(id.as_bytes())), Some(id.as_bytes()));
        }
        let too_long = [&*longest, "x"].concat();
        for id in ["", "a b", "a\tb", "a\u{7f}", "a\0", "é", &too_long] {
            assert_eq!(sent_id(Some(id.as_bytes())), None, "{id:?}");
        }
        assert_eq!(sent_id(None), None);
    }

    #[test]
    fn equal_values_are_one_id() {
        let read = |values: &[&'static str]| {
            let id = sent_id_of_all(values.iter().map(|it| it.as_bytes()));
            id.map(|id| str::from_utf8(id).unwrap())
        };
        assert_eq!(read(&["a"]), Some("a"));
        assert_eq!(read(&["a", "a", "a, a"]), Some("a"));
        assert_eq!(read(&["a, a"]), Some("a"));
        assert_eq!(read(&["a", "b"]), None);
        assert_eq!(read(&["a, b"]), None);
        assert_eq!(read(&["a", ""]), None);
        assert_eq!(read(&[]), None);
    }
}
