//! A file of declarations: its tables, with the places of their keys, and the variables in their
//! values replaced.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use corelane_base::variables::{self, ExpandError, Variable};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::declared::fault::{Fault, Position};
use crate::declared::problem::Problem;
use crate::declared::secrets::Secrets;
use crate::server::options::unit::nearest;
use crate::server::read_secret;

/// Keys of the file that are lists of declarations.
pub const KINDS: [&str; 7] =
    ["tool", "resource", "resource_template", "prompt", "openapi", "database", "upstream"];

/// Bytes of the longest file of declarations.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file with its text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path, as it was named.
    pub path: PathBuf,
    /// The text.
    pub text: String,
    /// Whether the file has nothing but declarations: any other key is a fault.
    pub is_declarations_only: bool,
}

/// One declaration of a file, not yet typed.
#[derive(Debug)]
pub struct Table<'t> {
    /// Its key in the file, one of [`KINDS`].
    pub kind: &'static str,
    path: &'t Path,
    /// Offsets of its keys.
    offsets: HashMap<String, usize>,
    /// Offset of the table itself.
    offset: usize,
    lines: &'t Lines<'t>,
    table: Spanned<DeTable<'t>>,
}

/// The lines of a text.
#[derive(Debug)]
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Finds the lines of `text`.
    pub fn new(text: &'t str) -> Self {
        let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).map(|index| index + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The place of the byte `offset`.
    pub fn position(&self, offset: usize) -> Position {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= end);
        let start = self.starts[line - 1];
        Position { line, column: self.text[start..end].chars().count() + 1 }
    }
}

impl SourceFile {
    /// Reads a file of declarations.
    ///
    /// # Errors
    ///
    /// It cannot be read, is too long or not UTF-8.
    pub fn read(path: &Path, is_declarations_only: bool) -> Result<Self, Fault> {
        let fault = |message: String, hint: &str| Fault::of_file(path, message, hint);
        let read = || -> std::io::Result<(u64, Vec<u8>)> {
            let length = std::fs::metadata(path)?.len();
            if length > FILE_BYTES_MAX {
                return Ok((length, Vec::new()));
            }
            Ok((length, std::fs::read(path)?))
        };
        let (length, bytes) = read()
            .map_err(|error| fault(format!("cannot be read: {error}"), "make it readable"))?;
        if length > FILE_BYTES_MAX {
            return Err(fault("is longer than 16 MiB".to_owned(), "divide it"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| fault("is not UTF-8".to_owned(), "save the file as UTF-8"))?;
        Ok(Self { path: path.to_owned(), text, is_declarations_only })
    }

    /// The folder that relative paths in the file start from.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new(""))
    }

    /// Returns the declarations of the file in their order. Values of variables are added to
    /// `secrets`, faults to `faults`.
    pub fn tables<'t>(
        &'t self,
        lines: &'t Lines<'t>,
        secrets: &mut Secrets,
        faults: &mut Vec<Fault>,
    ) -> Vec<Table<'t>> {
        let (document, errors) = DeTable::parse_recoverable(&self.text);
        if let Some(error) = errors.first() {
            let position = error.span().map(|span| lines.position(span.start));
            let problem = Problem::new("", error.message(), "the file is written in TOML 1.1");
            faults.push(Fault::of_problem(&self.path, position, "", problem));
            return Vec::new();
        }
        let mut tables = Vec::new();
        for (name, value) in document.into_inner() {
            let kind = KINDS.into_iter().find(|kind| *kind == name.get_ref().as_ref());
            let at = |problem| {
                let position = Some(lines.position(name.span().start));
                Fault::of_problem(&self.path, position, "", problem)
            };
            let Some(kind) = kind else {
                if self.is_declarations_only {
                    faults.push(at(unknown_key(name.get_ref())));
                }
                continue;
            };
            let DeValue::Array(items) = value.into_inner() else {
                let hint = format!("write [[{kind}]] for each one");
                faults.push(at(Problem::new(kind, "is a list of tables", hint)));
                continue;
            };
            for item in items {
                let span = item.span();
                let DeValue::Table(table) = item.into_inner() else {
                    let hint = format!("write [[{kind}]] for each one");
                    faults.push(at(Problem::new(kind, "is a list of tables", hint)));
                    continue;
                };
                let mut table = Table {
                    kind,
                    path: &self.path,
                    offsets: HashMap::new(),
                    offset: span.start,
                    lines,
                    table: Spanned::new(span, table),
                };
                table.offsets = offsets_of(table.table.get_ref());
                match table.expand(self.folder(), secrets) {
                    Ok(()) => tables.push(table),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        tables.sort_by_key(|table| table.offset);
        tables
    }

    /// Returns the whole file as one declaration of a tool, to which `defaults` are added.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or has a variable that is not set.
    pub fn tool_table<'t>(
        &'t self,
        lines: &'t Lines<'t>,
        secrets: &mut Secrets,
        defaults: impl IntoIterator<Item = (&'static str, DeValue<'t>)>,
    ) -> Result<Table<'t>, Fault> {
        let mut document = DeTable::parse(&self.text).map_err(|error| {
            let position = error.span().map(|span| lines.position(span.start));
            let problem = Problem::new("", error.message(), "the text is written in TOML 1.1");
            Fault::of_problem(&self.path, position, "", problem)
        })?;
        let offsets = offsets_of(document.get_ref());
        for (key, value) in defaults {
            let key = Spanned::new(0..0, Cow::Borrowed(key));
            document.get_mut().entry(key).or_insert_with(|| Spanned::new(0..0, value));
        }
        let mut table =
            Table { kind: "tool", path: &self.path, offsets, offset: 0, lines, table: document };
        table.expand(self.folder(), secrets)?;
        Ok(table)
    }
}

fn unknown_key(key: &str) -> Problem {
    let hint = match nearest(key, KINDS) {
        Some(kind) => format!("did you mean [[{kind}]]?"),
        None => "options stand in the file of --config, declarations here".to_owned(),
    };
    Problem::new(key, "is no kind of declaration", hint)
}

impl Table<'_> {
    /// Returns the declaration as a type.
    ///
    /// # Errors
    ///
    /// A key is unknown or missing, or has a value of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        T::deserialize(Deserializer::from(self.table.clone())).map_err(|error| {
            let offset = error.span().map_or(self.offset, |span| span.start);
            let position = Some(self.lines.position(offset));
            let hint = "`corelane new` writes an example of each kind";
            let problem = Problem::new("", error.message(), hint);
            Fault::of_problem(self.path, position, &self.owner(), problem)
        })
    }

    /// What the declaration says, without its place and form.
    pub fn text(&self) -> String {
        // A date is no JSON value, and none of a declaration.
        self.decode::<serde_json::Value>().map(|it| it.to_string()).unwrap_or_default()
    }

    /// The fault of a problem of this declaration.
    pub fn fault(&self, problem: Problem) -> Fault {
        let mut key = problem.key.as_str();
        let offset = loop {
            match self.offsets.get(key) {
                Some(offset) => break *offset,
                None => match key.rsplit_once('.') {
                    Some((outer, _)) => key = outer,
                    None => break self.offset,
                },
            }
        };
        Fault::of_problem(self.path, Some(self.lines.position(offset)), &self.owner(), problem)
    }

    /// File and place of the declaration.
    pub fn place(&self) -> (&Path, Position) {
        (self.path, self.lines.position(self.offset))
    }

    /// Kind and name, such as `tool deploy`.
    pub fn owner(&self) -> String {
        match self.table.get_ref().get("name").and_then(|name| name.get_ref().as_str()) {
            Some(name) => format!("{} {name}", self.kind),
            None => self.kind.to_owned(),
        }
    }

    /// Replaces the variables in all values.
    fn expand(&mut self, folder: &Path, secrets: &mut Secrets) -> Result<(), Fault> {
        // Without the values of variables that the name has.
        let owner = self.owner();
        let mut expander = Expander { folder, secrets, is_template: false, wrong: None };
        for (key, value) in self.table.get_mut().iter_mut() {
            expander.is_template = TEMPLATES.contains(&key.get_ref().as_ref());
            expander.expand(value);
        }
        let Some((offset, error)) = expander.wrong else { return Ok(()) };
        let hint = "set the variable or correct the file; $${ stands for ${";
        let problem = Problem::new("", error.0, hint);
        let position = Some(self.lines.position(offset));
        Err(Fault::of_problem(self.path, position, &owner, problem))
    }
}

/// Keys whose values have placeholders: braces in the value of a variable are none of them.
const TEMPLATES: [&str; 7] = ["command", "env", "file", "headers", "http", "messages", "text"];

/// Replaces the variables in the values of a declaration.
struct Expander<'e> {
    folder: &'e Path,
    secrets: &'e mut Secrets,
    /// Whether braces in the values of variables are doubled.
    is_template: bool,
    /// The first error, and the offset of its value.
    wrong: Option<(usize, ExpandError)>,
}

impl Expander<'_> {
    fn expand(&mut self, value: &mut Spanned<DeValue<'_>>) {
        let offset = value.span().start;
        match value.get_mut() {
            DeValue::String(text) => {
                let expanded = variables::expand(text, |variable| {
                    let value = look_up(variable, self.folder, self.secrets)?;
                    let value = if self.is_template { double_braces(&value) } else { value };
                    Ok(value)
                });
                match expanded {
                    Ok(Cow::Borrowed(_)) => {}
                    Ok(Cow::Owned(expanded)) => *text = Cow::Owned(expanded),
                    Err(error) => drop(self.wrong.get_or_insert((offset, error))),
                }
            }
            DeValue::Array(items) => items.iter_mut().for_each(|item| self.expand(item)),
            DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| self.expand(value)),
            _ => {}
        }
    }
}

fn double_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn look_up(
    variable: Variable<'_>,
    folder: &Path,
    secrets: &mut Secrets,
) -> Result<String, ExpandError> {
    let value = match variable {
        Variable::Environment(name) => read_variable(name).map_err(|error| {
            let reason = match error {
                std::env::VarError::NotPresent => "is not set",
                std::env::VarError::NotUnicode(_) => "is not UTF-8",
            };
            ExpandError(format!("environment variable {name} {reason}"))
        })?,
        Variable::File(path) => {
            let error = |reason: String| ExpandError(format!("{path}: {reason}"));
            let place = folder.join(path);
            let bytes = read_secret(&place);
            secrets.add_file(place);
            let bytes = bytes.map_err(error)?;
            let text = String::from_utf8(bytes).map_err(|_| error("is not UTF-8".to_owned()))?;
            text.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    secrets.add(&value);
    Ok(value)
}

#[expect(clippy::disallowed_methods, reason = "a declaration may name any variable")]
fn read_variable(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

/// Returns the offsets of all keys of `table`, by their dotted names.
fn offsets_of(table: &DeTable<'_>) -> HashMap<String, usize> {
    fn add(prefix: &str, table: &DeTable<'_>, offsets: &mut HashMap<String, usize>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                add(&format!("{key}."), inner, offsets);
            }
            offsets.insert(key, name.span().start);
        }
    }
    let mut offsets = HashMap::new();
    add("", table, &mut offsets);
    offsets
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        name: String,
        #[serde(default, rename = "size")]
        _size: u32,
    }

    fn read(text: &str) -> (Vec<Result<Named, String>>, Vec<String>) {
        let file =
            SourceFile { path: "c.toml".into(), text: text.to_owned(), is_declarations_only: true };
        let (mut secrets, mut faults) = (Secrets::default(), Vec::new());
        let lines = Lines::new(&file.text);
        let tables = file.tables(&lines, &mut secrets, &mut faults);
        let named = tables.iter().map(|it| it.decode().map_err(|fault| fault.to_string()));
        (named.collect(), faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn position_counts_lines_and_characters() {
        let lines = Lines::new("a\näb = 1\n");
        let position = |offset| {
            let Position { line, column } = lines.position(offset);
            [line, column]
        };
        assert_eq!([0, 4, 5, 99].map(position), [[1, 1], [2, 2], [2, 3], [3, 1]]);
    }

    #[test]
    fn tables_come_in_their_order() {
        let text = "[[tool]]\nname = \"b\"\n[[prompt]]\nname = \"c\"\n[[tool]]\nname = \"a\"\n";
        let (named, faults) = read(text);
        let names: Vec<String> = named.into_iter().map(|it| it.unwrap().name).collect();
        assert_eq!((names.join(""), faults.len()), ("bca".to_owned(), 0));
    }

    #[test]
    fn faults_name_line_column_and_declaration() {
        let (named, _) = read("[[tool]]\nname = \"a\"\nsize = \"x\"\n\n[[tool]]\nsise = 1\n");
        let wrong: Vec<String> = named.into_iter().map(Result::unwrap_err).collect();
        assert!(wrong[0].starts_with("c.toml:3:8: tool a: invalid type"), "{}", wrong[0]);
        assert!(wrong[1].starts_with("c.toml:6:1: tool: unknown field `sise`"), "{}", wrong[1]);
    }

    #[test]
    fn unknown_kinds_and_syntax_errors_are_faults() {
        let (_, faults) = read("[[tools]]\nname = \"a\"\n");
        let expected = "c.toml:1:3: tools: is no kind of declaration; did you mean [[tool]]?";
        assert_eq!(faults, [expected]);
        assert_eq!(read("[[tool]\n").1.len(), 1);
        assert_eq!(read("tool = 1\n").1.len(), 1);
        assert_eq!(read("tool = [1]\n").1.len(), 1);
    }

    #[test]
    fn unset_variable_is_fault_at_its_value() {
        let (named, faults) = read("[[tool]]\nname = \"${CORELANE_TEST_UNSET}\"\n");
        assert!(named.is_empty());
        assert!(faults[0].starts_with("c.toml:2:8: "), "{faults:?}");
        assert!(faults[0].contains("CORELANE_TEST_UNSET is not set"), "{faults:?}");
    }
}
