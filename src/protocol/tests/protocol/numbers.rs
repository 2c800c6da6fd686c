//! Numbers: written and parsed values are equal.

use crate::parsing::with_value;
use corelane_protocol::json::{ParseError, write};
use proptest::prelude::*;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("a written number is ASCII")
}

/// A number in each representation.
struct ParsedNumber {
    signed: Option<i64>,
    unsigned: Option<u64>,
    double: Option<f64>,
}

fn parse_number(text: &str) -> Result<ParsedNumber, ParseError> {
    with_value(text, |value| ParsedNumber {
        signed: value.as_i64(),
        unsigned: value.as_u64(),
        double: value.as_f64(),
    })
}

proptest! {
    #[test]
    fn signed_integers_round_trip(number in any::<i64>(), shift in 0..64_u32) {
        let number = number >> shift;
        let text = written(|out| write::signed(out, number));
        prop_assert_eq!(&text, &number.to_string());
        prop_assert_eq!(parse_number(&text).map(|read| read.signed), Ok(Some(number)));
    }

    #[test]
    fn unsigned_integers_round_trip(number in any::<u64>(), shift in 0..64_u32) {
        let number = number >> shift;
        let text = written(|out| write::unsigned(out, number));
        prop_assert_eq!(&text, &number.to_string());
        prop_assert_eq!(parse_number(&text).map(|read| read.unsigned), Ok(Some(number)));
    }

    #[test]
    fn doubles_round_trip_bit_exactly(bits in any::<u64>()) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let text = written(|out| write::float(out, number));
        let read = parse_number(&text).map(|read| read.double.map(f64::to_bits));
        prop_assert_eq!(read, Ok(Some(number.to_bits())));
    }

    #[test]
    fn decimal_numbers_parse_like_std(
        text in "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
    ) {
        let expected: f64 = text.parse().expect("a decimal number");
        // An integer has no negative zero.
        let exact = |number: f64| if number == 0.0 { 0 } else { number.to_bits() };
        let read = parse_number(&text).map(|read| read.double);
        if expected.is_finite() {
            prop_assert_eq!(read.map(|read| read.map(exact)), Ok(Some(exact(expected))));
        } else {
            prop_assert!(read.is_err());
        }
    }
}

#[test]
fn number_without_fractional_part_is_integer() {
    for (text, signed, unsigned) in [
        ("7", Some(7), Some(7)),
        ("-7", Some(-7), None),
        ("18446744073709551615", None, Some(u64::MAX)),
        ("-9223372036854775808", Some(i64::MIN), None),
        ("7.0", Some(7), Some(7)),
        ("70e-1", Some(7), Some(7)),
        ("-7e0", Some(-7), None),
        ("7.5", None, None),
        ("9007199254740993", Some(9_007_199_254_740_993), Some(9_007_199_254_740_993)),
        ("9007199254740991.0", Some(9_007_199_254_740_991), Some(9_007_199_254_740_991)),
        // A larger double may have lost digits.
        ("9007199254740993.0", None, None),
        ("1e16", None, None),
        ("18446744073709551616", None, None),
    ] {
        let read = parse_number(text).map(|read| (read.signed, read.unsigned));
        assert_eq!(read, Ok((signed, unsigned)), "{text}");
    }
}
