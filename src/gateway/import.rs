//! Upstreams from the files in which other clients keep their servers.
//!
//! Read are `mcpServers` (Claude Desktop, Claude Code, Cursor and most others), `servers` with
//! `inputs` (`mcp.json` of VS Code) and `mcp.servers` (`settings.json` of VS Code), in JSON with
//! comments and trailing commas.
//!
//! Variables in values:
//!
//! | written | value |
//! |---|---|
//! | `${NAME}`, `${env:NAME}` | the variable of the environment |
//! | `${NAME:-text}` | the variable, or the text if it is not set |
//! | `${input:some-id}` | the variable `CORELANE_INPUT_SOME_ID`, or the `default` of the input |
//! | `${workspaceFolder}`, `${workspaceFolderBasename}` | the folder of the file; that above, if it is in `.vscode` or `.cursor` |
//! | `${userHome}` | the variable `HOME` |
//! | `${pathSeparator}`, `${/}` | `/` |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use corelane_base::variables::{ExpandError, Variable};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::declared::{Fault, Position};

/// Characters of the name of an upstream at most.
const NAME_MAX: usize = 32;
/// What answers an input begins with.
const INPUT_PREFIX: &str = "CORELANE_INPUT_";
/// Folders of clients within the folder of a project.
const CLIENT_FOLDERS: [&str; 2] = [".cursor", ".vscode"];

/// A server of another client.
#[derive(Clone, Eq, PartialEq)]
pub struct ImportedUpstream {
    /// The name: 1 to 32 characters of `[a-z0-9-]`, unique in the file.
    pub name: String,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// Variables of the program, with those of `envFile`; each name once.
    pub env: Vec<(String, String)>,
    /// The working directory; a relative one is taken from the folder of `${workspaceFolder}`.
    pub cwd: Option<PathBuf>,
    /// The URL, if there is no command.
    pub url: Option<String>,
    /// Whether the URL is that of an event stream of 2024-11-05 (`"type": "sse"`).
    pub is_sse: bool,
    /// Header fields of each request.
    pub headers: Vec<(String, String)>,
    /// Whether the server is not `disabled`.
    pub is_enabled: bool,
}

/// What a file of another client holds.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The servers that can be used, in the order of the file.
    pub upstreams: Vec<ImportedUpstream>,
    /// Keys that have no effect.
    pub warnings: Vec<Fault>,
    /// Why servers are left out; one fault without a server if the file cannot be read at all.
    pub faults: Vec<Fault>,
}

/// Reads the text of a file at `path`, which should be absolute.
///
/// `lookup` returns the value of a variable, or the text of a file that `envFile` names. A server
/// whose variable has no value is left out.
pub fn import(
    path: &Path,
    text: &str,
    lookup: &mut dyn FnMut(Variable<'_>) -> Result<String, ExpandError>,
) -> Imported {
    let text = without_comments(text);
    let folder = project_folder(path);
    let inputs = BTreeMap::new();
    let mut reader =
        FileReader { path, folder, text: &text, inputs, lookup, imported: Imported::default() };
    if let Err(fault) = reader.read() {
        reader.imported.faults = vec![fault];
    }
    reader.imported
}

/// The folder of the project that the file at `path` belongs to.
fn project_folder(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let is_of_client = CLIENT_FOLDERS.iter().any(|name| folder.ends_with(name));
    folder.parent().filter(|_| is_of_client).unwrap_or(folder)
}

/// A JSON object with its keys in order and its values as they are written.
struct Object<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Object<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'t> Visitor<'t> for ObjectVisitor {
            type Value = Object<'t>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Object<'t>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

impl<'t> Object<'t> {
    /// The value of `key`, the last one if there are several.
    fn value(&self, key: &str) -> Option<&'t RawValue> {
        self.0.iter().rev().find(|entry| entry.0 == key).map(|entry| entry.1)
    }
}

/// A file while it is read.
struct FileReader<'r, 't> {
    path: &'r Path,
    folder: &'r Path,
    /// The text without comments.
    text: &'t str,
    /// The defaults of the inputs, by their ids.
    inputs: BTreeMap<String, String>,
    lookup: &'r mut dyn FnMut(Variable<'_>) -> Result<String, ExpandError>,
    imported: Imported,
}

impl<'t> FileReader<'_, 't> {
    /// Fails if the file has no servers of a client.
    fn read(&mut self) -> Result<(), Fault> {
        let root: Object<'t> = serde_json::from_str(self.text).map_err(|error| {
            let line = self.text.split('\n').nth(error.line().saturating_sub(1));
            let before = line.and_then(|line| line.get(..error.column().saturating_sub(1)));
            let column = before.map_or(1, |before| before.chars().count() + 1);
            self.file_fault(Position { line: error.line().max(1), column }, plain(&error))
        })?;
        let settings = root.value("mcp").and_then(|it| serde_json::from_str(it.get()).ok());
        let settings = settings.unwrap_or(Object(Vec::new()));
        let mut servers = Vec::new();
        for (holder, key) in [(&root, "mcpServers"), (&root, "servers"), (&settings, "servers")] {
            let Some(value) = holder.value(key) else { continue };
            let object: Object<'t> = serde_json::from_str(value.get()).map_err(|_| {
                self.file_fault(self.position(value), format!("{key} is not an object"))
            })?;
            servers.push(object);
            self.read_inputs(holder);
        }
        if servers.is_empty() {
            let start = Position { line: 1, column: 1 };
            return Err(self.file_fault(start, "has neither mcpServers nor servers".to_owned()));
        }
        self.read_servers(&servers);
        Ok(())
    }

    fn read_inputs(&mut self, holder: &Object<'t>) {
        let inputs = holder.value("inputs").and_then(|it| serde_json::from_str(it.get()).ok());
        let inputs: Vec<Value> = inputs.unwrap_or_default();
        for input in &inputs {
            let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(id), Some(default)) = (text("id"), text("default")) {
                self.inputs.insert(id, default);
            }
        }
    }

    fn read_servers(&mut self, objects: &[Object<'t>]) {
        let servers: Vec<&(String, &'t RawValue)> = objects.iter().flat_map(|it| &it.0).collect();
        let mut last = BTreeMap::new();
        for (index, (key, _)) in servers.iter().enumerate() {
            last.insert(key.as_str(), index);
        }
        let names = upstream_names(last.keys().copied());
        for (index, (key, value)) in servers.into_iter().enumerate() {
            let (value, subject) = (*value, format!("server {key}"));
            if last[key.as_str()] != index {
                let message = "is given twice, and the last one is used";
                let fault = self.fault(value, subject, message, "remove one");
                self.imported.warnings.push(fault);
                continue;
            }
            let faults = self.imported.faults.len();
            let name = names[key.as_str()].clone();
            let upstream = ServerReader { file: &mut *self, subject, value }.read(name);
            self.imported
                .upstreams
                .extend(upstream.filter(|_| self.imported.faults.len() == faults));
        }
    }

    /// The place of a value.
    fn position(&self, value: &RawValue) -> Position {
        // The value is a part of the text.
        let offset = value.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Position { line: before.split('\n').count(), column: line.chars().count() + 1 }
    }

    fn file_fault(&self, position: Position, message: String) -> Fault {
        let hint = "the file has mcpServers (Claude, Cursor) or servers (VS Code), in JSON";
        let (path, hint) = (self.path.to_owned(), hint.to_owned());
        Fault { path, position: Some(position), subject: String::new(), message, hint }
    }

    fn fault(
        &self,
        value: &RawValue,
        subject: String,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        let (position, message, hint) = (Some(self.position(value)), message.into(), hint.into());
        Fault { path: self.path.to_owned(), position, subject, message, hint }
    }

    /// Replaces the variables in `text`.
    fn expand(&mut self, text: &str) -> Result<String, ExpandError> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(index) = rest.find("${") {
            let (before, after) = (&rest[..index], &rest[index + 2..]);
            let end = after.find('}');
            let end = end.ok_or_else(|| ExpandError("${ is not closed by }".to_owned()))?;
            expanded.push_str(before);
            expanded.push_str(&self.variable(&after[..end])?);
            rest = &after[end + 1..];
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// The value of what stands between `${` and `}`.
    fn variable(&mut self, inner: &str) -> Result<String, ExpandError> {
        match inner {
            "workspaceFolder" => return self.folder_text(self.folder),
            "workspaceFolderBasename" => {
                return self.folder_text(Path::new(self.folder.file_name().unwrap_or_default()));
            }
            "userHome" => return (self.lookup)(Variable::Environment("HOME")),
            "pathSeparator" | "/" => return Ok("/".to_owned()),
            _ => {}
        }
        if let Some(id) = inner.strip_prefix("input:") {
            return self.answer(id);
        }
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_part) {
            return Err(ExpandError(format!("${{{inner}}} is not supported")));
        }
        match ((self.lookup)(Variable::Environment(name)), default) {
            (Err(_), Some(default)) if default.contains("${") => {
                Err(ExpandError(format!("the default of {name} has a variable of its own")))
            }
            (Err(_), Some(default)) => Ok(default.to_owned()),
            (value, _) => value,
        }
    }

    /// The answer to an input.
    fn answer(&mut self, id: &str) -> Result<String, ExpandError> {
        let upper =
            |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' };
        let name: String = INPUT_PREFIX.chars().chain(id.chars().map(upper)).collect();
        let value = (self.lookup)(Variable::Environment(&name)).ok();
        let value = value.or_else(|| self.inputs.get(id).cloned());
        value.ok_or_else(|| ExpandError(format!("${{input:{id}}} has no answer in {name}")))
    }

    fn folder_text(&self, folder: &Path) -> Result<String, ExpandError> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let text = folder.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            ExpandError(format!("the folder of {} is not UTF-8", self.path.display()))
        })
    }
}

/// A server while it is read. Faults are added to those of the file.
struct ServerReader<'f, 'r, 't> {
    file: &'f mut FileReader<'r, 't>,
    subject: String,
    value: &'t RawValue,
}

/// The keys of a server that have an effect.
const SERVER_KEYS: [&str; 10] =
    ["args", "command", "cwd", "disabled", "env", "envFile", "headers", "transport", "type", "url"];

impl<'t> ServerReader<'_, '_, 't> {
    /// Returns the server. It is not complete if there is a fault.
    fn read(mut self, name: String) -> Option<ImportedUpstream> {
        let Ok(object) = serde_json::from_str::<Object<'t>>(self.value.get()) else {
            self.add_fault("", self.value, "is not an object", "write {\"command\": …}");
            return None;
        };
        for (key, value) in &object.0 {
            if !SERVER_KEYS.contains(&key.as_str()) {
                let subject = format!("{}: {key}", self.subject);
                let fault = self.file.fault(value, subject, "has no effect here", "remove it");
                self.file.imported.warnings.push(fault);
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
            cwd: cwd.map(|cwd| self.file.folder.join(cwd)),
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
            let path = self.file.folder.join(path);
            match (self.file.lookup)(Variable::File(&path.to_string_lossy())) {
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
        self.file.imported.faults.push(fault);
    }
}

/// The message of `error` without its place.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// `text` with spaces in place of comments, commas before `]` and `}`, and a byte order mark.
/// Every character keeps its place.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut comma = None;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => character.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        let is_comment = part.starts_with("//") || part.starts_with("/*");
        if is_comment || character == '\u{feff}' {
            for character in part.chars() {
                plain.push(if character == '\n' { '\n' } else { ' ' });
            }
        } else {
            if ["]", "}"].contains(&part)
                && let Some(comma) = comma
            {
                plain.replace_range(comma..=comma, " ");
            }
            if !part.trim().is_empty() {
                comma = (part == ",").then_some(plain.len());
            }
            plain.push_str(part);
        }
        rest = after;
    }
    plain
}

/// Bytes of the JSON string that `text` begins with, or of the whole text if it is not closed.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The value of a line of an `envFile`.
fn unquoted(written: &str) -> String {
    if let Some((text, _)) = written.strip_prefix('\'').and_then(|it| it.split_once('\'')) {
        return text.to_owned();
    }
    let length = string_length(written);
    if written.starts_with('"') && length > 1 && written[..length].ends_with('"') {
        let text = &written[1..length - 1];
        return text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
    }
    let end = written.find(" #").unwrap_or(written.len());
    written[..end].trim_end().to_owned()
}

/// Gives each server a name of its own. One that can stay as it is stays.
fn upstream_names<'k>(keys: impl Iterator<Item = &'k str>) -> BTreeMap<&'k str, String> {
    let (fitting, others): (Vec<_>, Vec<_>) = keys.partition(|key| upstream_name(key) == **key);
    let mut names: BTreeMap<&str, String> =
        fitting.into_iter().map(|key| (key, key.to_owned())).collect();
    let mut used: BTreeSet<String> = names.values().cloned().collect();
    for key in others {
        let name = upstream_name(key);
        let numbered = (2_u32..).map(|number| {
            let end = format!("-{number}");
            let room = NAME_MAX - end.len();
            format!("{}{end}", name[..name.len().min(room)].trim_end_matches('-'))
        });
        let mut choices = std::iter::once(name.clone()).chain(numbered);
        if let Some(choice) = choices.find(|choice| !used.contains(choice)) {
            used.insert(choice.clone());
            names.insert(key, choice);
        }
    }
    names
}

/// `key` in lower case, with `-` in place of each run of other characters.
fn upstream_name(key: &str) -> String {
    let mut name = String::with_capacity(NAME_MAX);
    for character in key.chars() {
        if name.len() == NAME_MAX {
            break;
        }
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

impl fmt::Debug for ImportedUpstream {
    /// Without the values of variables and header fields, arguments, and user and query of the URL:
    /// each may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|pair| pair.0.clone()).collect()
        };
        let url = self.url.as_deref().map(|url| {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            let authority_end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        });
        formatter
            .debug_struct("ImportedUpstream")
            .field("name", &self.name)
            .field("program", &self.command.as_ref().and_then(|command| command.first()))
            .field("arguments", &self.command.as_ref().map(|it| it.len().saturating_sub(1)))
            .field("env", &names(&self.env))
            .field("cwd", &self.cwd)
            .field("url", &url)
            .field("is_sse", &self.is_sse)
            .field("headers", &names(&self.headers))
            .field("is_enabled", &self.is_enabled)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables of the environment, and files by their paths.
    const VALUES: [[&str; 2]; 8] = [
        ["GITHUB_TOKEN", "ghp_secret"],
        ["HOME", "/home/ada"],
        ["API_HOST", "api.example.com"],
        ["EMPTY", ""],
        ["BROKEN", "a\nb"],
        ["CORELANE_INPUT_PERPLEXITY_KEY", "pplx-secret"],
        ["/p/.env", "# keys\nexport A=1\nB = 'two # 2'\nC=\"x\\ny\" # c\nD=d # e\n\nE=\nF=f"],
        ["/p/bad.env", "A=1\nwrong\n=x\n"],
    ];

    fn import_at(path: &str, text: &str) -> Imported {
        let mut lookup = |variable: Variable<'_>| {
            let (Variable::Environment(name) | Variable::File(name)) = variable;
            let value = VALUES.iter().find(|value| value[0] == name);
            value.map(|value| value[1].to_owned()).ok_or_else(|| match variable {
                Variable::Environment(_) => ExpandError(format!("variable {name} is not set")),
                Variable::File(_) => ExpandError(format!("{name}: no such file")),
            })
        };
        import(Path::new(path), text, &mut lookup)
    }

    fn texts(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    /// The upstreams of a file without faults.
    fn upstreams(path: &str, text: &str) -> Vec<ImportedUpstream> {
        let imported = import_at(path, text);
        assert_eq!(texts(&imported.faults), [""; 0]);
        assert_eq!(texts(&imported.warnings), [""; 0]);
        imported.upstreams
    }

    fn pairs(pairs: &[[&str; 2]]) -> Vec<(String, String)> {
        pairs.iter().map(|[name, value]| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn stdio(name: &str, command: &[&str]) -> ImportedUpstream {
        ImportedUpstream {
            name: name.to_owned(),
            command: Some(command.iter().map(|it| (*it).to_owned()).collect()),
            env: Vec::new(),
            cwd: None,
            url: None,
            is_sse: false,
            headers: Vec::new(),
            is_enabled: true,
        }
    }

    fn remote(name: &str, url: &str) -> ImportedUpstream {
        ImportedUpstream { command: None, url: Some(url.to_owned()), ..stdio(name, &[]) }
    }

    /// Warnings and faults of one server whose members are `members`.
    fn problems(members: &str) -> [Vec<String>; 2] {
        let imported = import_at("/p/c.json", &format!("{{\"mcpServers\": {{\"a\": {members}}}}}"));
        assert_eq!(imported.upstreams.is_empty(), !imported.faults.is_empty());
        [&imported.warnings, &imported.faults].map(|faults| texts(faults))
    }

    #[test]
    fn file_of_claude_desktop_is_imported() {
        let text = r#"{
            "globalShortcut": "Ctrl+Space",
            "mcpServers": {
                "filesystem": {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/Desktop"]
                },
                "Brave Search": {
                    "command": "docker",
                    "args": ["run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"],
                    "env": {"BRAVE_API_KEY": "BSA-1", "RETRIES": 3}
                }
            }
        }"#;
        let path = "/home/ada/.config/Claude/claude_desktop_config.json";
        let filesystem =
            ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Desktop"];
        let brave = ["docker", "run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"];
        let brave = ImportedUpstream {
            env: pairs(&[["BRAVE_API_KEY", "BSA-1"], ["RETRIES", "3"]]),
            ..stdio("brave-search", &brave)
        };
        assert_eq!(upstreams(path, text), [stdio("filesystem", &filesystem), brave]);
    }

    #[test]
    fn file_of_claude_code_is_imported() {
        let text = r#"{"mcpServers": {
            "api-server": {
                "type": "http",
                "url": "https://${API_HOST:-localhost}/mcp?v=${API_VERSION:-2}",
                "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}", "X-Empty": "${EMPTY:-no}"}
            },
            "events": {"type": "sse", "url": "${BASE:-https://example.com:8443}/sse"},
            "database": {"type": "stdio", "command": "/opt/db", "args": [], "env": {"DB": "a:-b"}}
        }}"#;
        let api = ImportedUpstream {
            headers: pairs(&[["Authorization", "Bearer ghp_secret"], ["X-Empty", ""]]),
            ..remote("api-server", "https://api.example.com/mcp?v=2")
        };
        let events =
            ImportedUpstream { is_sse: true, ..remote("events", "https://example.com:8443/sse") };
        let database =
            ImportedUpstream { env: pairs(&[["DB", "a:-b"]]), ..stdio("database", &["/opt/db"]) };
        assert_eq!(upstreams("/p/.mcp.json", text), [api, events, database]);
    }

    #[test]
    fn file_of_cursor_is_imported() {
        let text = r#"{"mcpServers": {
            "local": {
                "type": "stdio",
                "command": "python",
                "args": ["${workspaceFolder}/tools/mcp.py", "--for", "${workspaceFolderBasename}"],
                "env": {"TOKEN": "${env:GITHUB_TOKEN}", "CACHE": "${userHome}${/}.cache"},
                "envFile": ".env"
            },
            "remote": {
                "url": "https://api.example.com/mcp",
                "headers": {"X-Key": "${env:GITHUB_TOKEN}"}
            },
            "off": {"command": "x", "cwd": "sub", "disabled": true}
        }}"#;
        let env = [
            ["A", "1"],
            ["B", "two # 2"],
            ["C", "x\ny"],
            ["CACHE", "/home/ada/.cache"],
            ["D", "d"],
            ["E", ""],
            ["F", "f"],
            ["TOKEN", "ghp_secret"],
        ];
        let local = ["python", "/p/tools/mcp.py", "--for", "p"];
        let local = ImportedUpstream { env: pairs(&env), ..stdio("local", &local) };
        let remote = ImportedUpstream {
            headers: pairs(&[["X-Key", "ghp_secret"]]),
            ..remote("remote", "https://api.example.com/mcp")
        };
        let off = ImportedUpstream {
            cwd: Some("/p/sub".into()),
            is_enabled: false,
            ..stdio("off", &["x"])
        };
        assert_eq!(upstreams("/p/.cursor/mcp.json", text), [local, remote, off]);
    }

    #[test]
    fn file_of_vs_code_is_imported() {
        let text = "\u{feff}// Servers of this project\n{
            \"inputs\": [
                {\"type\": \"promptString\", \"id\": \"perplexity-key\", \"password\": true},
                {\"type\": \"pickString\", \"id\": \"region\", \"default\": \"eu\"},
            ],
            /* \"servers\": {} */
            \"servers\": {
                \"Perplexity\": {
                    \"type\": \"stdio\", // \"sse\"
                    \"command\": \"uvx\",
                    \"args\": [\"--url=http://a//b /* c */\", \"--region\", \"${input:region}\", ],
                    \"env\": { \"KEY\": \"${input:perplexity-key}\", \"A\": null, },
                    \"envFile\": \"${workspaceFolder}/.env\",
                    \"cwd\": \"${workspaceFolder}\",
                },
                \"github\": { \"type\": \"http\", \"url\": \"https://api.githubcopilot.com/mcp/\" },
            },
        }";
        let [perplexity, github] = upstreams("/p/.vscode/mcp.json", text).try_into().unwrap();
        let command = ["uvx", "--url=http://a//b /* c */", "--region", "eu"];
        assert_eq!(perplexity.command.unwrap(), command);
        let names: String = perplexity.env.iter().map(|pair| pair.0.as_str()).collect();
        assert_eq!((names.as_str(), perplexity.env.len()), ("BCDEFKEY", 6));
        assert_eq!(perplexity.env[5].1, "pplx-secret");
        assert_eq!(perplexity.cwd.unwrap(), Path::new("/p"));
        assert_eq!(github, remote("github", "https://api.githubcopilot.com/mcp/"));
        let settings = r#"{"editor.tabSize": 4, "mcp": {"servers": {"x": {"command": "y"}}}}"#;
        assert_eq!(upstreams("/p/settings.json", settings), [stdio("x", &["y"])]);
    }

    #[test]
    fn missing_value_leaves_out_one_server() {
        let text = r#"{
    "servers": {
        "a": {"command": "x", "env": {"É": "é", "TOKEN": "${UNSET_TOKEN}"}},
        "b": {"command": "y"},
        "c": {"url": "https://h/${input:my.key}", "headers": {"K": "${env:NOPE}"}}
    }
}"#;
        let imported = import_at("/p/mcp.json", text);
        assert_eq!(imported.upstreams, [stdio("b", &["y"])]);
        let hint = "set the variable, or write the value into the file";
        let expected = [
            format!(
                "/p/mcp.json:3:58: server a: env.TOKEN: variable UNSET_TOKEN is not set; {hint}"
            ),
            format!(
                "/p/mcp.json:5:22: server c: url: ${{input:my.key}} has no answer in \
                 CORELANE_INPUT_MY_KEY; {hint}"
            ),
            format!("/p/mcp.json:5:68: server c: headers.K: variable NOPE is not set; {hint}"),
        ];
        assert_eq!(texts(&imported.faults), expected);
    }

    #[test]
    fn foreign_file_is_one_fault() {
        for (text, expected) in [
            ("", "1:1: EOF while parsing a value"),
            ("{\n  \"mcpServers\": {\n    \"a\" 1", "3:9: expected `:`"),
            ("{\"é\": x}", "1:7: expected value"),
            ("[1]", "1:1: invalid type: sequence, expected an object"),
            ("{\"name\": \"x\"}", "1:1: has neither mcpServers nor servers"),
            ("{\n \"mcpServers\": [] }", "2:16: mcpServers is not an object"),
            ("[mcp_servers.a]\ncommand = 1", "1:1: invalid type: sequence"),
            ("{ /* ", "1:5: EOF while parsing an object"),
        ] {
            let imported = import_at("/p/c.json", text);
            let faults = texts(&imported.faults);
            assert_eq!((faults.len(), imported.upstreams.len()), (1, 0), "{text}");
            assert!(faults[0].starts_with(&format!("/p/c.json:{expected}")), "{}", faults[0]);
        }
    }

    #[test]
    fn contradiction_in_server_is_fault() {
        for (members, expected) in [
            ("1", "is not an object"),
            ("{}", "has neither command nor url"),
            (r#"{"command": "a", "url": "b"}"#, "url: stands beside command"),
            (r#"{"type": "stdio", "url": "b"}"#, "type: is stdio without command"),
            (r#"{"transport": "sse", "command": "b"}"#, "transport: is a transport of a url"),
            (r#"{"type": "ws", "url": "b"}"#, "type: is \"ws\"; use stdio"),
            (r#"{"command": ""}"#, "command: is empty"),
            (r#"{"command": ["a"]}"#, "command: is not a string"),
            (r#"{"command": "a", "args": "b"}"#, "args: is not a list"),
            (r#"{"command": "a", "args": ["b", {}]}"#, "args[1]: is not a string"),
            (r#"{"command": "a", "args": ["${b"]}"#, "args[0]: ${ is not closed by }"),
            (r#"{"command": "${config:x.y}"}"#, "command: ${config:x.y} is not supported"),
            (r#"{"command": "${A:-${B}"}"#, "command: the default of A has a variable"),
            (r#"{"command": "a\u0000"}"#, "command: has a NUL character"),
            (r#"{"command": "a", "env": {"A=B": "c"}}"#, "env: \"A=B\" is not the name"),
            (r#"{"command": "a", "envFile": "x.env"}"#, "envFile: /p/x.env: no such file"),
            (r#"{"command": "a", "disabled": "yes"}"#, "disabled: is not true or false"),
            (r#"{"url": "a", "headers": {"B C": "d"}}"#, "headers: \"B C\" is not the name"),
            (r#"{"url": "a", "headers": {"B": "${BROKEN}"}}"#, "headers.B: has a line break"),
        ] {
            let [_, faults] = problems(members);
            assert_eq!(faults.len(), 1, "{members}: {faults:?}");
            assert!(faults[0].contains(expected), "{members}: {}", faults[0]);
        }
        let [_, faults] = problems(r#"{"command": "a", "envFile": "bad.env"}"#);
        assert!(faults.len() == 2 && faults[0].contains("line 2") && faults[1].contains("line 3"));
    }

    #[test]
    fn keys_without_effect_are_warnings() {
        let [warnings, faults] = problems(r#"{"command": "x", "autoApprove": [], "timeout": 5}"#);
        assert_eq!(faults, [""; 0]);
        let expected = ["autoApprove", "timeout"];
        for (warning, key) in warnings.iter().zip(expected) {
            assert!(warning.contains(&format!("server a: {key}: has no effect here")), "{warning}");
        }
        assert_eq!(warnings.len(), 2);
        let twice =
            import_at("/c", r#"{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#);
        assert_eq!(twice.upstreams, [stdio("a", &["y"])]);
        assert!(texts(&twice.warnings)[0].starts_with("/c:1:19: server a: is given twice"));
    }

    #[test]
    fn names_are_short_and_unique() {
        let long = "Long-".repeat(20);
        let keys = ["git hub", "GitHub", "github", "git--hub", "日本", "", "@scope/pkg!", &long];
        let names = upstream_names(keys.into_iter());
        let name = |key: &str| names[key].as_str();
        assert_eq!([name("github"), name("GitHub")], ["github", "github-2"]);
        assert_eq!([name("git hub"), name("git--hub")], ["git-hub", "git-hub-2"]);
        assert_eq!(
            [name("日本"), name(""), name("@scope/pkg!")],
            ["server", "server-2", "scope-pkg"]
        );
        assert_eq!(name(&long), "long-long-long-long-long-long-lo");
        let many: Vec<String> = (0..200).map(|index| format!("{long}{index}")).collect();
        let names = upstream_names(many.iter().map(String::as_str));
        let unique: BTreeSet<&String> = names.values().collect();
        assert_eq!(unique.len(), 200);
        assert!(unique.iter().all(|name| (1..=NAME_MAX).contains(&name.len())));
    }

    #[test]
    fn debug_and_faults_show_no_secret() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["${GITHUB_TOKEN}"], "env": {"T": "${GITHUB_TOKEN}"}},
            "b": {"url": "https://u:ghp_secret@h/p?k=ghp_secret", "headers": {"K": "ghp_secret"}},
            "c": {"type": "${GITHUB_TOKEN}", "url": "x", "headers": {"K": "ghp_secret${BROKEN}"}}
        }}"#;
        let imported = import_at("/p/c.json", text);
        let shown = format!("{imported:?}");
        assert!(shown.contains("https://h/p") && shown.contains("\"T\""), "{shown}");
        assert_eq!((imported.upstreams.len(), imported.faults.len()), (2, 2));
        assert_eq!(shown.matches("ghp_secret").count(), 0, "{shown}");
    }
}
