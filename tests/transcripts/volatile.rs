//! What differs from run to run, and the names that stand for it.

use serde_json::Value;

/// Members whose values are drawn or read from a clock, and the name that stands for each.
const VOLATILE: [(&str, &str); 6] = [
    ("requestState", "state"),
    ("taskId", "task"),
    ("elicitationId", "elicitation"),
    ("createdAt", "moment"),
    ("lastUpdatedAt", "moment"),
    ("lastModified", "moment"),
];

/// The values that were seen in one dialogue, in the order in which they came.
#[derive(Default)]
pub(crate) struct Volatile {
    seen: Vec<(String, String)>,
}

impl Volatile {
    /// Notes what is volatile in a message.
    pub(crate) fn note(&mut self, message: &Value) {
        match message {
            Value::Object(members) => {
                for (key, value) in members {
                    let name = VOLATILE.iter().find(|(member, _)| member == key);
                    match (name, value) {
                        (Some((_, name)), Value::String(text)) => self.remember(text, name),
                        _ => self.note(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.note(item)),
            _ => {}
        }
    }

    /// Moments may be the same or not, so all of them have one name; other things are counted.
    fn remember(&mut self, text: &str, name: &str) {
        if self.seen.iter().any(|(seen, _)| seen == text) {
            return;
        }
        let number = 1 + self.seen.iter().filter(|(_, given)| given.starts_with(name)).count();
        let given = if name == "moment" { name.to_owned() } else { format!("{name} {number}") };
        self.seen.push((text.to_owned(), given));
    }

    /// The text with names in place of what is volatile.
    pub(crate) fn name_in(&self, text: &str) -> String {
        let mut named = text.to_owned();
        for (value, name) in &self.seen {
            named = named.replace(value.as_str(), &format!("<{name}>"));
        }
        named
    }
}
