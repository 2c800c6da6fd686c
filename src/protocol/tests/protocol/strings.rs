//! Strings: written and parsed values are equal, and match `serde_json`.

use crate::parsing::with_value;
use corelane_protocol::json::write;
use proptest::prelude::*;

fn write_string(text: &str) -> String {
    let mut out = Vec::new();
    write::string(&mut out, text);
    String::from_utf8(out).expect("a written string is UTF-8")
}

/// Texts with many escapes, without any, and mixed.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,200}",
        "[\\x00-\\x1f\"\\\\a]{0,80}",
        "([a-z]{0,40}[\"\\\\\n\u{0}é😀]){0,8}",
    ]
}

proptest! {
    #[test]
    fn written_string_matches_serde_json(text in texts()) {
        prop_assert_eq!(write_string(&text), serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn written_string_round_trips(text in texts()) {
        let read = with_value(write_string(&text), |value| value.as_str().map(str::to_owned));
        prop_assert_eq!(read, Ok(Some(text)));
    }

    #[test]
    fn string_of_unicode_escapes_is_decoded(text in "\\PC{0,30}", lower in any::<bool>()) {
        let units = text.encode_utf16();
        let escaped: String = units
            .map(|unit| if lower { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") })
            .collect();
        let read = with_value(format!("\"{escaped}\""), |value| value.as_str().map(str::to_owned));
        prop_assert_eq!(read, Ok(Some(text)));
    }

    #[test]
    fn adjacent_strings_are_decoded_separately(texts in prop::collection::vec(texts(), 0..6)) {
        let all = serde_json::to_string(&texts).unwrap();
        let read: Result<Vec<String>, _> = with_value(all, |value| {
            let items = value.as_array().expect("an array").iter();
            items.map(|item| item.as_str().expect("a string").to_owned()).collect()
        });
        prop_assert_eq!(read, Ok(texts));
    }
}
