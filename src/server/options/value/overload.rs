//! Values of options of overload protection: names of tools with numbers.

use super::{DEFAULT, Value};
use crate::server::options::unit::{Diagnostic, Unit};

/// Comma-separated names with a number behind each, or `default` for an empty list.
impl Value for Vec<(String, u32)> {
    fn parse_from(&mut self, text: &str, _: &Unit) -> Result<(), Diagnostic> {
        let mut limits = Self::new();
        for entry in text.split(',').filter(|_| text != DEFAULT) {
            let parts = entry.trim().rsplit_once(' ');
            let limit = parts.and_then(|(name, number)| Some((name.trim(), number.parse().ok()?)));
            let Some((name, number)) = limit.filter(|(name, _)| !name.is_empty()) else {
                let message = format!("{entry:?} is not the name of a tool and a number");
                return Err(Diagnostic::new(message, "write such as deploy_app 4"));
            };
            limits.push((name.to_owned(), number));
        }
        *self = limits;
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        if self.is_empty() {
            return DEFAULT.to_owned();
        }
        let limits: Vec<String> =
            self.iter().map(|(name, number)| format!("{name} {number}")).collect();
        limits.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_tools_are_read_and_formatted() {
        let mut limits: Vec<(String, u32)> = Vec::new();
        limits.parse_from("a 1, two words 20", &Unit::Words).unwrap();
        assert_eq!(limits, [("a".to_owned(), 1), ("two words".to_owned(), 20)]);
        assert_eq!(limits.format(&Unit::Words), "a 1,two words 20");
        for text in ["a", "a x", " 1", "", "a -1", "a 1,,b 2"] {
            let diagnostic = limits.parse_from(text, &Unit::Words).unwrap_err();
            assert!(diagnostic.message.ends_with("is not the name of a tool and a number"));
        }
        assert_eq!(limits.len(), 2, "a rejected text changes nothing");
        limits.parse_from("default", &Unit::Words).unwrap();
        assert!(limits.is_empty());
    }
}
