//! `corelane inspect`: what a server declares and offers.

use corelane_client::{ClientErrorKind, ServerInfo};
use corelane_protocol::eras::Method;
use serde_json::{Map, Value, json};

use super::connection::{Connection, to_document};
use super::failure::Failure;
use super::lists::{write_prompts, write_resources, write_templates, write_tools};
use super::output::Output;
use super::text::{one_line, wrap};

/// Longest value beside its name, in characters.
const VALUE_WIDTH: usize = 84;

/// A list of a server.
struct Section {
    heading: &'static str,
    /// The capability that declares it.
    capability: &'static str,
    method: Method,
    key: &'static str,
    write: fn(&[Value], &mut Output) -> Result<(), Failure>,
}

const SECTIONS: [Section; 4] = [
    Section {
        heading: "Tools",
        capability: "tools",
        method: Method::ToolsList,
        key: "tools",
        write: write_tools,
    },
    Section {
        heading: "Prompts",
        capability: "prompts",
        method: Method::PromptsList,
        key: "prompts",
        write: write_prompts,
    },
    Section {
        heading: "Resources",
        capability: "resources",
        method: Method::ResourcesList,
        key: "resources",
        write: write_resources,
    },
    Section {
        heading: "Resource templates",
        capability: "resources",
        method: Method::ResourcesTemplatesList,
        key: "resourceTemplates",
        write: write_templates,
    },
];

/// Prints identity, revision, capabilities, instructions, and every list that is declared. A list
/// that fails does not keep the others from being printed.
pub(crate) fn inspect(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    let mut page = declared(server)?;
    if !output.is_json() {
        write_head(&page, output)?;
    }
    let mut failed = None;
    for section in &SECTIONS {
        if page["capabilities"].get(section.capability).is_none() {
            continue;
        }
        let list = match server.optional_list(section.method, section.key) {
            Ok(list) => list,
            Err(error) if is_answer(&error.kind()) => {
                failed.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let items = list.map_or_else(Vec::new, |list| {
            failed = failed.take().or(list.failure);
            list.items
        });
        if output.is_json() {
            page[section.key] = Value::Array(items);
        } else {
            output.write_line(&format!("\n{} ({})", section.heading, items.len()))?;
            (section.write)(&items, output)?;
        }
    }
    if output.is_json() {
        output.write_document(&to_document(&page)?)?;
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns whether the server has answered, so that it may answer another request.
fn is_answer(kind: &ClientErrorKind) -> bool {
    matches!(
        kind,
        ClientErrorKind::Rpc { .. } | ClientErrorKind::Parity { .. } | ClientErrorKind::Protocol
    )
}

/// Returns what the server declared in the handshake.
fn declared(server: &Connection) -> Result<Value, Failure> {
    let target = server.target();
    let Some(info) = server.server() else {
        let mut page = server.declared().unwrap_or_default();
        page["target"] = target.into();
        return Ok(page);
    };
    let ServerInfo { revision, implementation, instructions, .. } = info;
    let mut page = json!({ "target": target, "protocolVersion": revision.as_str() });
    if let Some(info) = implementation {
        let mut encoded = Vec::new();
        info.write(&mut encoded, *revision);
        page["serverInfo"] = decode(&encoded)?;
    }
    page["capabilities"] = Value::Object(capabilities(info)?);
    if let Some(instructions) = instructions {
        page["instructions"] = instructions.as_str().into();
    }
    Ok(page)
}

/// Returns the declared capabilities with all extensions.
fn capabilities(server: &ServerInfo) -> Result<Map<String, Value>, Failure> {
    let mut encoded = Vec::new();
    server.capabilities.write(&mut encoded, server.revision);
    let Value::Object(mut capabilities) = decode(&encoded)? else { return Ok(Map::new()) };
    if !server.extensions.is_empty() {
        let extensions = Value::Object(server.extensions.clone());
        capabilities.insert("extensions".to_owned(), extensions);
    }
    Ok(capabilities)
}

fn decode(encoded: &[u8]) -> Result<Value, Failure> {
    let invalid =
        |error| Failure::call(format!("what the server declares is invalid: {error}"), None);
    serde_json::from_slice(encoded).map_err(invalid)
}

/// Prints what was declared in the handshake.
fn write_head(page: &Value, output: &mut Output) -> Result<(), Failure> {
    let info = &page["serverInfo"];
    let text = |key: &str| info[key].as_str().map(one_line).unwrap_or_default();
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("server", format!("{} {}", text("name"), text("version")).trim().to_owned());
    row("title", text("title"));
    row("description", text("description"));
    row("website", text("websiteUrl"));
    row("target", page["target"].as_str().unwrap_or_default().to_owned());
    row("revision", page["protocolVersion"].as_str().unwrap_or_default().to_owned());
    let capabilities = page["capabilities"].as_object().into_iter().flatten();
    let capabilities: Vec<String> =
        capabilities.map(|(name, options)| describe_capability(name, options)).collect();
    for (index, line) in wrap(&capabilities.join(", "), VALUE_WIDTH).into_iter().enumerate() {
        row(if index == 0 { "capabilities" } else { "" }, line);
    }
    output.write_rows(0, &rows)?;
    if let Some(instructions) = page["instructions"].as_str() {
        output.write_line("\nInstructions")?;
        output.write_line(instructions)?;
    }
    Ok(())
}

/// Returns a capability with the names of its options: `resources (subscribe, listChanged)`.
fn describe_capability(name: &str, options: &Value) -> String {
    let options = options.as_object().into_iter().flatten();
    let names: Vec<&str> = options.map(|(option, _)| option.as_str()).collect();
    if names.is_empty() { name.to_owned() } else { format!("{name} ({})", names.join(", ")) }
}
