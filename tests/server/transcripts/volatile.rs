//! Replaces values that differ from run to run by placeholders.

use serde_json::Value;

/// Members with random or time values, and the placeholder of each.
const VOLATILE: [(&str, &str); 6] = [
    ("requestState", "state"),
    ("taskId", "task"),
    ("elicitationId", "elicitation"),
    ("createdAt", "time"),
    ("lastUpdatedAt", "time"),
    ("lastModified", "time"),
];

/// Volatile values of one transcript in order of appearance.
#[derive(Default)]
pub(crate) struct Volatile {
    placeholders: Vec<(String, String)>,
}

impl Volatile {
    /// Collects the volatile values of a message.
    pub(crate) fn collect(&mut self, message: &Value) {
        match message {
            Value::Object(members) => {
                for (key, value) in members {
                    let name = VOLATILE.iter().find(|(member, _)| member == key);
                    match (name, value) {
                        (Some((_, name)), Value::String(text)) => self.add(text, name),
                        _ => self.collect(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    /// Times share one placeholder, because they may be equal or not; other values are numbered.
    fn add(&mut self, text: &str, name: &str) {
        if self.placeholders.iter().any(|(value, _)| value == text) {
            return;
        }
        let number = 1 + self
            .placeholders
            .iter()
            .filter(|(_, placeholder)| placeholder.starts_with(name))
            .count();
        let placeholder = if name == "time" { name.to_owned() } else { format!("{name} {number}") };
        self.placeholders.push((text.to_owned(), placeholder));
    }

    /// Returns the text with placeholders.
    pub(crate) fn replace_in(&self, text: &str) -> String {
        let mut replaced = text.to_owned();
        for (value, name) in &self.placeholders {
            replaced = replaced.replace(value.as_str(), &format!("<{name}>"));
        }
        replaced
    }
}
