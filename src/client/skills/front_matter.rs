//! The front matter of `SKILL.md`: YAML between two lines `---`.

use serde_json::{Map, Value};

/// Returns the front matter and the text after it, or what is wrong with it.
pub(super) fn split_front_matter(text: &str) -> Result<(Map<String, Value>, &str), String> {
    let missing = || "the text does not begin with a front matter between lines ---".to_owned();
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line)).ok_or_else(missing)?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            let front_matter = serde_saphyr::from_str(&text[first.len()..end])
                .map_err(|error| format!("the front matter is not valid YAML: {error}"))?;
            return Ok((front_matter, &text[end + line.len()..]));
        }
        end += line.len();
    }
    Err(missing())
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches(['\r', '\n']) == "---"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_and_text_are_split() {
        let text = "---\nname: a\ntags: [b, 1]\nmetadata:\n  c: true\n---\n\nText.\n---\n";
        let (front_matter, rest) = split_front_matter(text).unwrap();
        let expected = json!({ "name": "a", "tags": ["b", 1], "metadata": { "c": true } });
        assert_eq!((Value::Object(front_matter), rest), (expected, "\nText.\n---\n"));
        let (front_matter, rest) = split_front_matter("---\r\nname: a\r\n---").unwrap();
        assert_eq!((Value::Object(front_matter), rest), (json!({ "name": "a" }), ""));
    }

    #[test]
    fn text_without_front_matter_is_invalid() {
        for text in ["", "name: a\n", "---\nname: a\n", "---\n- a\n---\n", "---\na: [\n---\n"] {
            assert!(split_front_matter(text).is_err(), "{text}");
        }
    }
}
