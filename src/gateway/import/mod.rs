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

mod imported;

mod text;

mod file;

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::value::RawValue;

pub use self::imported::{Imported, ImportedUpstream};

use crate::gateway::import::file::{FileReader, Lookup, Object};
use crate::gateway::import::server::ServerReader;
use crate::gateway::import::text::without_comments;

/// Characters of the name of an upstream at most.
const NAME_MAX: usize = 32;
/// Reads the text of a file at `path`, which should be absolute.
///
/// `lookup` returns the value of a variable, or the text of a file that `envFile` names. A server
/// whose variable has no value is left out.
pub fn import<'l>(path: &'l Path, text: &str, lookup: &'l mut Lookup<'l>) -> Imported {
    let text = without_comments(text);
    let mut reader = FileReader::new(path, &text, lookup);
    match reader.read() {
        Ok(objects) => read_servers(&mut reader, &objects),
        Err(fault) => reader.add_fault(fault),
    }
    reader.finish()
}

fn read_servers<'t>(reader: &mut FileReader<'_, 't>, objects: &[Object<'t>]) {
    let servers: Vec<&(String, &'t RawValue)> = objects.iter().flat_map(|it| &it.0).collect();
    let mut last = BTreeMap::new();
    for (index, (key, _)) in servers.iter().enumerate() {
        last.insert(key.as_str(), index);
    }
    let names = upstream_names(last.keys().copied());
    for (index, (key, value)) in servers.into_iter().enumerate() {
        let subject = format!("server {key}");
        if last[key.as_str()] != index {
            let message = "is given twice, and the last one is used";
            let fault = reader.fault(value, subject, message, "remove one");
            reader.add_warning(fault);
            continue;
        }
        let faults = reader.fault_count();
        let name = names[key.as_str()].clone();
        let upstream = ServerReader::new(reader, subject, value).read(name);
        reader.add_upstream(upstream, faults);
    }
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

#[cfg(test)]
mod tests;
