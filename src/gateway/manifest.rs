//! Manifests: the lists of upstreams, in files, which are offered before an upstream has been
//! started.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use corelane_client::ServerInfo;
use corelane_protocol::revision::Revision;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::gateway::lists::{Definition, Lists};

/// The format that is read and written.
const FORMAT: u32 = 1;
/// Command that writes the files.
pub const WRITE_COMMAND: &str = "corelane gateway manifest";

/// The contents of a file. Members have the names of MCP.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Manifest {
    /// [`FORMAT`].
    manifest: u32,
    protocol_version: String,
    capabilities: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_info: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: Vec<Definition>,
    resources: Vec<Definition>,
    resource_templates: Vec<Definition>,
    prompts: Vec<Definition>,
}

/// Reads the lists of a file.
///
/// # Errors
///
/// It cannot be read, or is no manifest; with its path and what to do.
pub fn read(path: &Path) -> Result<Lists, String> {
    let failed = |error: &dyn Display| {
        format!("manifest {}: {error}; write it with `{WRITE_COMMAND}`", path.display())
    };
    let text = fs::read(path).map_err(|error| failed(&error))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
    lists_of(manifest).map_err(|error| failed(&error))
}

/// Writes lists to a file, which is replaced as a whole.
///
/// # Errors
///
/// It cannot be written; with its path.
pub fn write(path: &Path, lists: &Lists) -> Result<(), String> {
    let written = manifest_of(lists).and_then(|manifest| {
        let mut text = serde_json::to_vec_pretty(&manifest)?;
        text.push(b'\n');
        let new = path.with_added_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, path)
    });
    written.map_err(|error| format!("manifest {}: {error}", path.display()))
}

fn lists_of(manifest: Manifest) -> Result<Lists, String> {
    let Manifest { protocol_version, capabilities, server_info, instructions, .. } = &manifest;
    if manifest.manifest != FORMAT {
        return Err(format!("format {} is unknown, not {FORMAT}", manifest.manifest));
    }
    let Some(revision) = Revision::parse(protocol_version) else {
        return Err(format!("protocolVersion {protocol_version:?} is no revision of MCP"));
    };
    let result = json!({
        "capabilities": capabilities, "serverInfo": server_info, "instructions": instructions,
    });
    let server = ServerInfo::of_result(&result.to_string(), revision);
    let server = server.ok_or_else(|| "the capabilities are invalid".to_owned())?;
    let Manifest { tools, resources, resource_templates: templates, prompts, .. } = manifest;
    for (kind, key, definitions) in [
        ("tools", "name", &tools),
        ("resources", "uri", &resources),
        ("resourceTemplates", "uriTemplate", &templates),
        ("prompts", "name", &prompts),
    ] {
        let has_key = |it: &Definition| it.get(key).is_some_and(Value::is_string);
        if let Some(index) = definitions.iter().position(|it| !has_key(it)) {
            return Err(format!("{kind}[{index}] has no {key}"));
        }
    }
    Ok(Lists { server: Arc::new(server), tools, resources, templates, prompts })
}

fn manifest_of(lists: &Lists) -> io::Result<Manifest> {
    let Lists { server, tools, resources, templates, prompts } = lists;
    let mut capabilities = Vec::new();
    server.capabilities.write(&mut capabilities, server.revision);
    let mut capabilities: Map<String, Value> = serde_json::from_slice(&capabilities)?;
    if !server.extensions.is_empty() {
        capabilities.insert("extensions".to_owned(), server.extensions.clone().into());
    }
    let server_info = server.implementation.as_ref().map(|it| {
        let mut text = Vec::new();
        it.write(&mut text, server.revision);
        serde_json::from_slice(&text)
    });
    Ok(Manifest {
        manifest: FORMAT,
        protocol_version: server.revision.as_str().to_owned(),
        capabilities,
        server_info: server_info.transpose()?,
        instructions: server.instructions.clone(),
        tools: tools.clone(),
        resources: resources.clone(),
        resource_templates: templates.clone(),
        prompts: prompts.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        json!({
            "manifest": 1,
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "completions": {},
                "prompts": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": false},
                "tools": {"listChanged": true},
            },
            "serverInfo": {"name": "one", "version": "1", "title": "One"},
            "instructions": "Use it.",
            "tools": [{"name": "a", "inputSchema": {"type": "object"}}],
            "resources": [{"uri": "file:///a", "name": "a"}],
            "resourceTemplates": [],
            "prompts": [{"name": "b"}],
        })
    }

    #[test]
    fn manifest_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.json");
        for revision in ["2025-11-25", "2026-07-28"] {
            let mut text = manifest();
            text["protocolVersion"] = revision.into();
            fs::write(&path, text.to_string()).expect("a file");
            let lists = read(&path).expect("a manifest");
            assert_eq!(lists.server.revision.as_str(), revision);
            assert_eq!(lists.server.instructions.as_deref(), Some("Use it."));
            assert!(lists.server.capabilities.resources.is_some_and(|it| it.subscribe));
            assert_eq!((lists.tools.len(), lists.resources.len(), lists.prompts.len()), (1, 1, 1));
            write(&path, &lists).expect("it is written");
            let again = read(&path).expect("a manifest");
            assert_eq!((again.server, again.tools), (lists.server, lists.tools));
        }
    }

    #[test]
    fn invalid_manifest_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.json");
        let error = read(&path).expect_err("no file");
        assert!(error.contains("one.json") && error.contains(WRITE_COMMAND), "{error}");
        for (key, value, part) in [
            ("manifest", json!(2), "format 2"),
            ("protocolVersion", json!("soon"), "no revision"),
            ("capabilities", json!([]), "map"),
            ("tools", json!([{"title": "a"}]), "tools[0] has no name"),
            ("resources", json!([{"uri": 7}]), "resources[0] has no uri"),
            ("other", json!(1), "unknown field"),
        ] {
            let mut text = manifest();
            text[key] = value;
            fs::write(&path, text.to_string()).expect("a file");
            let error = read(&path).expect_err(key);
            assert!(error.contains(part), "{error}");
        }
    }
}
