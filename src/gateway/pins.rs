//! Definitions of tools that were accepted: their hashes, in a file. What an upstream changes later
//! is noticed, also after a restart.
//!
//! Invariants: a definition that was not accepted is not offered where changes are hidden, whatever
//! its name; what an operator approves is what was read, not what the upstream says afterwards.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::declared::OnChange;
use crate::gateway::lists::Definition;

/// Hashes of definitions by the names of tools.
type Hashes = BTreeMap<String, String>;

/// The accepted definitions.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    /// By upstream.
    accepted: BTreeMap<String, Hashes>,
    /// Those that differ, as they were last read, by upstream.
    changed: BTreeMap<String, Hashes>,
}

/// What a comparison with the accepted definitions has found.
#[derive(Debug)]
pub struct PinCheck {
    /// Names of the tools that differ.
    pub changed: Vec<String>,
    /// They differ from what the last comparison found.
    pub is_news: bool,
    /// Why the file could not be written; what was accepted holds until the end of the process.
    pub written: io::Result<()>,
}

impl Pins {
    /// Reads the file. Without one nothing is accepted yet.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no file of pins.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("gateway.pins: {}: {error}; correct or remove it", path.display())
        };
        let accepted = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(failed(&error)),
        };
        Ok(Self { path: path.to_owned(), accepted, changed: BTreeMap::new() })
    }

    /// Compares the tools that were read with those that were accepted, and removes those that
    /// differ where changes are hidden; else they are accepted. The first tools of an upstream are
    /// accepted.
    pub fn check(
        &mut self,
        upstream: &str,
        on_change: OnChange,
        tools: &mut Vec<Definition>,
    ) -> PinCheck {
        let accepted = self.accepted.get(upstream);
        let is_first = accepted.is_none();
        let mut changed = Hashes::new();
        let mut is_accepted = |tool: &Definition| {
            let (name, hash) = (name_of(tool), hash_of(tool));
            let is_known = accepted.is_some_and(|it| it.get(name) == Some(&hash));
            if !is_known {
                changed.insert(name.to_owned(), hash);
            }
            is_known
        };
        let is_hiding = on_change == OnChange::Hide && !is_first;
        tools.retain(|tool| is_accepted(tool) || !is_hiding);
        let names = if is_first { Vec::new() } else { changed.keys().cloned().collect() };
        if !is_hiding {
            self.changed.remove(upstream);
            let written = self.accept(upstream, changed);
            return PinCheck { is_news: !names.is_empty(), changed: names, written };
        }
        let known = self.changed.insert(upstream.to_owned(), changed);
        let is_news = !names.is_empty() && known.as_ref() != self.changed.get(upstream);
        PinCheck { changed: names, is_news, written: Ok(()) }
    }

    /// Accepts the tools of an upstream that differed when they were last read.
    ///
    /// # Errors
    ///
    /// The file cannot be written; what was accepted holds until the end of the process.
    pub fn approve(&mut self, upstream: &str) -> io::Result<()> {
        let changed = self.changed.remove(upstream).unwrap_or_default();
        self.accept(upstream, changed)
    }

    fn accept(&mut self, upstream: &str, hashes: Hashes) -> io::Result<()> {
        if hashes.is_empty() && self.accepted.contains_key(upstream) {
            return Ok(());
        }
        self.accepted.entry(upstream.to_owned()).or_default().extend(hashes);
        let text = serde_json::to_vec_pretty(&self.accepted)?;
        let new = self.path.with_added_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.path)
    }
}

fn name_of(tool: &Definition) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The hash of a definition, whatever the order of its members.
fn hash_of(tool: &Definition) -> String {
    let mut text = Vec::new();
    write_object(tool, &mut text);
    let mut hash = "sha256:".to_owned();
    for byte in Sha256::digest(&text) {
        // Writing to a string does not fail.
        write!(hash, "{byte:02x}").unwrap_or_default();
    }
    hash
}

fn write_object(object: &Definition, out: &mut Vec<u8>) {
    let mut members: Vec<(&String, &Value)> = object.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    out.push(b'{');
    for (name, value) in members {
        write_value(&Value::String(name.clone()), out);
        out.push(b':');
        write_value(value, out);
        out.push(b',');
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => write_object(object, out),
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                write_value(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        other => out.extend_from_slice(other.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definitions(tools: &[Value]) -> Vec<Definition> {
        tools.iter().map(|it| it.as_object().expect("an object").clone()).collect()
    }

    fn tool(name: &str, description: &str) -> Value {
        json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
    }

    /// Returns what differs, and what is left of the tools.
    fn check(pins: &mut Pins, on_change: OnChange, tools: &[Value]) -> [Vec<String>; 2] {
        let mut tools = definitions(tools);
        let PinCheck { changed, written, .. } = pins.check("one", on_change, &mut tools);
        written.expect("the file is written");
        [changed, tools.iter().map(|it| name_of(it).to_owned()).collect()]
    }

    #[test]
    fn changed_tools_are_hidden_until_approved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pins.json");
        let before = [tool("a", "1"), tool("b", "1")];
        let after = [tool("a", "1"), tool("b", "2"), tool("c", "1")];
        let mut pins = Pins::open(&path).expect("no file yet");
        assert_eq!(check(&mut pins, OnChange::Hide, &before)[0], [""; 0]);
        // A later process reads the file.
        let mut pins = Pins::open(&path).expect("a file");
        for _ in 0..2 {
            let [changed, left] = check(&mut pins, OnChange::Hide, &after);
            assert_eq!((changed.join(" "), left.join(" ")), ("b c".to_owned(), "a".to_owned()));
        }
        pins.approve("one").expect("the file is written");
        let mut pins = Pins::open(&path).expect("a file");
        assert_eq!(check(&mut pins, OnChange::Hide, &after)[0], [""; 0]);
        // What was approved is what was read.
        let later = [tool("b", "3")];
        assert_eq!(check(&mut pins, OnChange::Hide, &later), [vec!["b".to_owned()], Vec::new()]);
    }

    #[test]
    fn second_tool_of_accepted_name_is_hidden() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pins = Pins::open(&folder.path().join("pins.json")).expect("no file yet");
        check(&mut pins, OnChange::Hide, &[tool("a", "1")]);
        let mut twice = definitions(&[tool("a", "2"), tool("a", "1")]);
        let PinCheck { changed, is_news, .. } = pins.check("one", OnChange::Hide, &mut twice);
        assert_eq!((changed, twice.len(), is_news), (vec!["a".to_owned()], 1, true));
        let again = pins.check("one", OnChange::Hide, &mut definitions(&[tool("a", "2")]));
        assert_eq!((again.changed, again.is_news), (vec!["a".to_owned()], false));
        assert_eq!(twice[0]["description"], "1");
    }

    #[test]
    fn changed_tools_are_named_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pins = Pins::open(&folder.path().join("pins.json")).expect("no file yet");
        check(&mut pins, OnChange::Warn, &[tool("a", "1")]);
        let changed = [tool("a", "2")];
        assert_eq!(check(&mut pins, OnChange::Warn, &changed), [["a"], ["a"]]);
        assert_eq!(check(&mut pins, OnChange::Warn, &changed)[0], [""; 0]);
    }

    #[test]
    fn order_of_members_is_no_change() {
        let one = json!({ "name": "a", "inputSchema": { "type": "object", "title": "b" } });
        let other = json!({ "inputSchema": { "title": "b", "type": "object" }, "name": "a" });
        let hash = |tool: &Value| hash_of(tool.as_object().expect("an object"));
        assert_eq!(hash(&one), hash(&other));
        assert_ne!(hash(&one), hash(&json!({ "name": "a", "inputSchema": { "type": "object" } })));
    }

    #[test]
    fn invalid_file_of_pins_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pins.json");
        fs::write(&path, "[]").expect("a file");
        let error = Pins::open(&path).expect_err("no object");
        assert!(error.starts_with("gateway.pins: ") && error.contains("pins.json"), "{error}");
    }
}
