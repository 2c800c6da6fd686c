//! Pointers into results.

use std::fmt;

use corelane_base::random::Random;
use serde_json::Value;

/// A JSON pointer (RFC 6901) in which `*` stands for a random element of an array.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResultPointer(Vec<String>);

impl ResultPointer {
    /// Parses a pointer: empty for the whole value, else it begins with a slash.
    ///
    /// # Errors
    ///
    /// A one-line message if it does not.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("'{text}' is not a JSON pointer: write one such as /tools/0/name"));
        };
        let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
        Ok(Self(rest.split('/').map(unescape).collect()))
    }

    /// Returns what it points to; `None` if that is absent or null.
    pub fn find<'a>(&self, value: &'a Value, random: &mut Random) -> Option<&'a Value> {
        let mut found = value;
        for part in &self.0 {
            found = match found {
                Value::Object(members) => members.get(part)?,
                Value::Array(elements) if part == "*" => {
                    elements.get(random.below(elements.len()))?
                }
                Value::Array(elements) => elements.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(found).filter(|found| !found.is_null())
    }
}

impl fmt::Display for ResultPointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            write!(formatter, "/{}", part.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointer_finds_members_and_random_elements() {
        let value = json!({ "tools": [{ "name": "a" }, { "name": "b" }], "x/y": 1, "next": null });
        let mut random = Random::seeded(1);
        let mut find = |text: &str| {
            let pointer = ResultPointer::parse(text).unwrap();
            assert_eq!(pointer.to_string(), text);
            pointer.find(&value, &mut random).cloned()
        };
        assert_eq!(find("/tools/1/name"), Some(json!("b")));
        assert_eq!(find("/x~1y"), Some(json!(1)));
        assert_eq!(find(""), Some(value.clone()));
        for absent in ["/next", "/tools/2", "/tools/x", "/tools/0/name/0"] {
            assert_eq!(find(absent), None);
        }
        let names: std::collections::BTreeSet<String> =
            (0..50).filter_map(|_| Some(find("/tools/*/name")?.as_str()?.to_owned())).collect();
        assert_eq!(names, ["a", "b"].map(String::from).into());
        assert!(ResultPointer::parse("tools").unwrap_err().contains("/tools/0/name"));
    }
}
