//! One server of a file: its program or URL, its variables and its header fields.

use std::collections::BTreeMap;

use corelane_base::variables::Variable;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gateway::import::file::{FileReader, Object};
use crate::gateway::import::imported::ImportedUpstream;
use crate::gateway::import::text::unquoted;

/// A server while it is read. Faults are added to those of the file.
pub struct ServerReader<'f, 'r, 't> {
    file: &'f mut FileReader<'r, 't>,
    subject: String,
    value: &'t RawValue,
}

/// The keys of a server that have an effect.
const SERVER_KEYS: [&str; 10] =
    ["args", "command", "cwd", "disabled", "env", "envFile", "headers", "transport", "type", "url"];

impl<'f, 'r, 't> ServerReader<'f, 'r, 't> {
    /// A reader of `value`. `subject` begins each fault.
    pub const fn new(
        file: &'f mut FileReader<'r, 't>,
        subject: String,
        value: &'t RawValue,
    ) -> Self {
        Self { file, subject, value }
    }

    /// Returns the server. It is not complete if there is a fault.
    pub fn read(mut self, name: String) -> Option<ImportedUpstream> {
        let Ok(object) = serde_json::from_str::<Object<'t>>(self.value.get()) else {
            self.add_fault("", self.value, "is not an object", "write {\"command\": …}");
            return None;
        };
        for (key, value) in &object.0 {
            if !SERVER_KEYS.contains(&key.as_str()) {
                let subject = format!("{}: {key}", self.subject);
                let fault = self.file.fault(value, subject, "has no effect here", "remove it");
                self.file.add_warning(fault);
            }
        }
        let mut text = |key: &str| object.value(key).and_then(|value| self.text(key, value));
        let (program, url, cwd) = (text("command"), text("url"), text("cwd"));
        let transport = text("type").or_else(|| text("transport"));
        let is_sse = self.check_transport(&object, transport.as_deref());
        let command = program.map(|program| {
            let arguments = self.arguments(object.value("args"));
            std::iter::once(program).chain(arguments).collect()
        });
        let env = self.env(&object);
        let headers = self.pairs("headers", object.value("headers"));
        self.check_headers(&object, &headers);
        let is_enabled =
            object.value("disabled").is_none_or(|value| !self.is_true("disabled", value));
        Some(ImportedUpstream {
            name,
            command,
            env: env.into_iter().collect(),
            cwd: cwd.map(|cwd| self.file.resolve(&cwd)),
            url,
            is_sse,
            headers: headers.into_iter().filter_map(|it| Some((it.0, it.1?))).collect(),
            is_enabled,
        })
    }

    /// Checks that there is one of `command` and `url`, as `transport` states. Returns whether it
    /// is the event stream of 2024-11-05.
    fn check_transport(&mut self, object: &Object<'t>, transport: Option<&str>) -> bool {
        let (command, url) = (object.value("command"), object.value("url"));
        let key = if object.value("type").is_some() { "type" } else { "transport" };
        let value = object.value(key).unwrap_or(self.value);
        let word = transport.map(|it| it.to_ascii_lowercase().replace(['-', '_'], ""));
        let needs_url = match word.as_deref() {
            None => command.is_none(),
            Some("stdio") => false,
            Some("http" | "sse" | "streamablehttp") => true,
            Some(_) => {
                // As it is written: a variable may be secret.
                let message = format!("is {}", value.get());
                self.add_fault(key, value, message, "use stdio, http, streamable-http or sse");
                return false;
            }
        };
        match (command, url) {
            (None, None) => {
                self.add_fault("", self.value, "has neither command nor url", "add one of them");
            }
            (Some(_), Some(url)) => {
                self.add_fault("url", url, "stands beside command", "remove one of them");
            }
            (None, Some(_)) if !needs_url => {
                self.add_fault(key, value, "is stdio without command", "add command");
            }
            (Some(_), None) if needs_url => {
                self.add_fault(key, value, "is a transport of a url, but there is none", "add url");
            }
            _ => {}
        }
        word.as_deref() == Some("sse")
    }

    fn arguments(&mut self, value: Option<&'t RawValue>) -> Vec<String> {
        let Some(value) = value else { return Vec::new() };
        let Ok(items) = serde_json::from_str::<Vec<&'t RawValue>>(value.get()) else {
            self.add_fault("args", value, "is not a list", "write [\"first\", \"second\"]");
            return Vec::new();
        };
        let items = items.into_iter().enumerate();
        items.filter_map(|(index, item)| self.text(&format!("args[{index}]"), item)).collect()
    }

    /// The variables of `envFile` and, before them, those of `env`.
    fn env(&mut self, object: &Object<'t>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        if let Some(value) = object.value("envFile")
            && let Some(path) = self.text("envFile", value)
        {
            let path = self.file.resolve(&path);
            match self.file.look_up(Variable::File(&path.to_string_lossy())) {
                Ok(text) => env = self.env_file(value, &text),
                Err(error) => {
                    self.add_fault("envFile", value, error.0, "write the file, or remove the key");
                }
            }
        }
        let value = object.value("env");
        for (name, text) in self.pairs("env", value) {
            if let Some(value) = value
                && (name.is_empty() || name.contains(['=', '\0']))
            {
                let message = format!("{name:?} is not the name of a variable");
                self.add_fault("env", value, message, "rename it");
            }
            match text {
                Some(text) => env.insert(name, text),
                None => env.remove(&name),
            };
        }
        env
    }

    /// The variables of a file with a line `NAME=value` each.
    fn env_file(&mut self, value: &'t RawValue, text: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (name, written) = line.split_once('=').unwrap_or_default();
            let text = unquoted(written.trim());
            if name.trim().is_empty() || text.contains('\0') {
                let message = format!("has no NAME=value in line {}", index + 1);
                self.add_fault("envFile", value, message, "correct or remove the line");
            } else {
                env.insert(name.trim().to_owned(), text);
            }
        }
        env
    }

    fn check_headers(&mut self, object: &Object<'t>, headers: &[(String, Option<String>)]) {
        let Some(place) = object.value("headers") else { return };
        for (name, value) in headers {
            let is_token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            let value = value.as_deref().unwrap_or_default();
            if !is_name {
                let message = format!("{name:?} is not the name of a header field");
                self.add_fault("headers", place, message, "rename it");
            } else if value.contains(|it: char| it.is_control() && it != '\t') {
                let message = "has a line break or another control character";
                self.add_fault(&format!("headers.{name}"), place, message, "remove it");
            }
        }
    }

    /// The members of an object; those that are `null` have no value.
    fn pairs(&mut self, key: &str, value: Option<&'t RawValue>) -> Vec<(String, Option<String>)> {
        let Some(value) = value else { return Vec::new() };
        let Ok(object) = serde_json::from_str::<Object<'t>>(value.get()) else {
            self.add_fault(key, value, "is not an object", "write {\"NAME\": \"value\"}");
            return Vec::new();
        };
        let mut pairs = Vec::with_capacity(object.0.len());
        for (name, value) in object.0 {
            let is_null = value.get() == "null";
            let text = if is_null { None } else { self.text(&format!("{key}.{name}"), value) };
            pairs.push((name, text));
        }
        pairs
    }

    /// The text of a value, with its variables replaced. Numbers and booleans are texts, too.
    fn text(&mut self, key: &str, value: &'t RawValue) -> Option<String> {
        let text = match serde_json::from_str(value.get()) {
            Ok(Value::String(text)) => text,
            Ok(other @ (Value::Number(_) | Value::Bool(_))) => other.to_string(),
            _ => {
                self.add_fault(key, value, "is not a string", "write \"text\"");
                return None;
            }
        };
        match self.file.expand(&text) {
            Ok(text) if text.contains('\0') => {
                self.add_fault(key, value, "has a NUL character", "remove it");
                None
            }
            Ok(text) if text.is_empty() && ["command", "url"].contains(&key) => {
                self.add_fault(key, value, "is empty", "name the program or the address");
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                let hint = "set the variable, or write the value into the file";
                self.add_fault(key, value, error.0, hint);
                None
            }
        }
    }

    fn is_true(&mut self, key: &str, value: &'t RawValue) -> bool {
        if !["true", "false"].contains(&value.get()) {
            self.add_fault(key, value, "is not true or false", "write true or false");
        }
        value.get() == "true"
    }

    fn add_fault(
        &mut self,
        key: &str,
        value: &RawValue,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let separator = if key.is_empty() { "" } else { ": " };
        let subject = format!("{}{separator}{key}", self.subject);
        let fault = self.file.fault(value, subject, message, hint);
        self.file.add_fault(fault);
    }
}
