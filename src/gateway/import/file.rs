//! A file while it is read: its values, their positions and their variables.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use corelane_base::variables::{ExpandError, Variable};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::declared::{Fault, Position};
use crate::gateway::import::imported::{Imported, ImportedUpstream};
use crate::gateway::import::text::error_message;

/// What answers an input begins with.
const INPUT_PREFIX: &str = "CORELANE_INPUT_";
/// Folders of clients within the folder of a project.
const CLIENT_FOLDERS: [&str; 2] = [".cursor", ".vscode"];

/// Returns the value of a variable, or the text of a file.
pub type Lookup<'l> = dyn FnMut(Variable<'_>) -> Result<String, ExpandError> + 'l;

/// A JSON object with its keys in order and its values as they are written.
pub struct Object<'t>(pub Vec<(String, &'t RawValue)>);

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
    pub fn value(&self, key: &str) -> Option<&'t RawValue> {
        self.0.iter().rev().find(|entry| entry.0 == key).map(|entry| entry.1)
    }
}

/// A file while it is read.
pub struct FileReader<'r, 't> {
    path: &'r Path,
    folder: &'r Path,
    /// The text without comments.
    text: &'t str,
    /// The defaults of the inputs, by their ids.
    inputs: BTreeMap<String, String>,
    lookup: &'r mut Lookup<'r>,
    imported: Imported,
}

impl<'r, 't> FileReader<'r, 't> {
    /// A reader of the file at `path`, whose text without comments is `text`.
    pub fn new(path: &'r Path, text: &'t str, lookup: &'r mut Lookup<'r>) -> Self {
        let folder = project_folder(path);
        let (inputs, imported) = (BTreeMap::new(), Imported::default());
        Self { path, folder, text, inputs, lookup, imported }
    }

    /// Returns the objects that hold servers.
    ///
    /// # Errors
    ///
    /// The file is no JSON, or has no servers of a client.
    pub fn read(&mut self) -> Result<Vec<Object<'t>>, Fault> {
        let root: Object<'t> = serde_json::from_str(self.text).map_err(|error| {
            let line = self.text.split('\n').nth(error.line().saturating_sub(1));
            let before = line.and_then(|line| line.get(..error.column().saturating_sub(1)));
            let column = before.map_or(1, |before| before.chars().count() + 1);
            self.file_fault(Position { line: error.line().max(1), column }, error_message(&error))
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
        Ok(servers)
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

    /// Has `fault` beside a server that is imported.
    pub fn add_warning(&mut self, fault: Fault) {
        self.imported.warnings.push(fault);
    }

    /// Has `fault` in place of a server.
    pub fn add_fault(&mut self, fault: Fault) {
        self.imported.faults.push(fault);
    }

    /// Has a server, unless it is `None` or there are more than `faults` faults.
    pub fn add_upstream(&mut self, upstream: Option<ImportedUpstream>, faults: usize) {
        let is_complete = self.imported.faults.len() == faults;
        self.imported.upstreams.extend(upstream.filter(|_| is_complete));
    }

    /// How many faults there are.
    pub const fn fault_count(&self) -> usize {
        self.imported.faults.len()
    }

    /// What was read.
    pub fn finish(self) -> Imported {
        self.imported
    }

    /// `path` from the folder of the project.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The value of a variable, or the text of a file.
    pub fn look_up(&mut self, variable: Variable<'_>) -> Result<String, ExpandError> {
        (self.lookup)(variable)
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

    pub fn fault(
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
    pub fn expand(&mut self, text: &str) -> Result<String, ExpandError> {
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

/// The folder of the project that the file at `path` belongs to.
fn project_folder(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let is_of_client = CLIENT_FOLDERS.iter().any(|name| folder.ends_with(name));
    folder.parent().filter(|_| is_of_client).unwrap_or(folder)
}
