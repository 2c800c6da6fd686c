//! What a server declares and offers: `corelane inspect`, `tools`, `prompts`,
//! `resources` and `skills`.

use corelane_client::{
    ClientError, ClientErrorKind, PromptInfo, ResourceInfo, ResourceTemplateInfo, ServerInfo,
    SkillInfo, SkillResources, ToolInfo,
};
use corelane_protocol::eras::Method;
use serde_json::{Map, Value, json};

use super::arguments::{Argument, arguments_of};
use super::connection::{Connection, List, read_item, to_document};
use super::failure::{Failure, print_note};
use super::output::Output;
use super::requests::declared_arguments;
use super::text::{one_line, wrap};

/// Longest value beside its name, in characters.
const VALUE_WIDTH: usize = 84;

/// A list of a server.
struct Section {
    heading: &'static str,
    /// The capability that declares it, as a JSON pointer (RFC 6901).
    capability: &'static str,
    method: Method,
    key: &'static str,
    write: fn(&[Value], &mut Output) -> Result<(), Failure>,
}

const SECTIONS: [Section; 5] = [
    Section {
        heading: "Tools",
        capability: "/tools",
        method: Method::ToolsList,
        key: "tools",
        write: write_tools,
    },
    Section {
        heading: "Prompts",
        capability: "/prompts",
        method: Method::PromptsList,
        key: "prompts",
        write: write_prompts,
    },
    Section {
        heading: "Resources",
        capability: "/resources",
        method: Method::ResourcesList,
        key: "resources",
        write: write_resources,
    },
    Section {
        heading: "Resource templates",
        capability: "/resources",
        method: Method::ResourcesTemplatesList,
        key: "resourceTemplates",
        write: write_templates,
    },
    Section {
        heading: "Skills",
        capability: "/extensions/io.modelcontextprotocol~1skills",
        method: Method::SkillsList,
        key: "skills",
        write: write_skills,
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
        if page["capabilities"].pointer(section.capability).is_none() {
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

/// Spaces before the rows of arguments.
const INDENT: usize = 2;

pub(crate) fn tools(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    write_list(server.list(Method::ToolsList, "tools")?, output, write_tools)
}

pub(crate) fn prompts(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    write_list(server.list(Method::PromptsList, "prompts")?, output, write_prompts)
}

pub(crate) fn skills(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    write_list(server.list(Method::SkillsList, "skills")?, output, write_skills)
}

/// Lists the resources and resource templates. Their document has the items of both.
pub(crate) fn resources(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    let resources = server.optional_list(Method::ResourcesList, "resources")?;
    let templates = (Method::ResourcesTemplatesList, "resourceTemplates");
    let templates = match &resources {
        Some(_) => server.optional_list(templates.0, templates.1)?,
        // One of the two is what the capability stands for.
        None => Some(server.list(templates.0, templates.1)?),
    };
    let mut failure = None;
    let mut items = |list: Option<List>| {
        let Some(list) = list else { return Vec::new() };
        failure = failure.take().or(list.failure);
        list.items
    };
    let (resources, templates) = (items(resources), items(templates));
    if output.is_json() {
        let document = json!({ "resources": resources, "resourceTemplates": templates });
        output.write_document(&to_document(&document)?)?;
    } else {
        if resources.is_empty() && templates.is_empty() {
            print_note("the list is empty");
        }
        write_resources(&resources, output)?;
        write_templates(&templates, output)?;
    }
    failure.map_or(Ok(()), |error| Err(error.into()))
}

fn write_list(
    list: List,
    output: &mut Output,
    write: fn(&[Value], &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if output.is_json() {
        output.write_document(&list.document)?;
    } else {
        if list.items.is_empty() {
            print_note("the list is empty");
        }
        write(&list.items, output)?;
    }
    list.failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Prints each tool on a line, and its arguments below.
fn write_tools(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    for item in items {
        let tool: ToolInfo = read_item(item)?;
        let annotated = tool.annotations.and_then(|annotations| annotations.title);
        let title = tool.title.or(annotated);
        let about = about(title.as_deref(), tool.description.as_deref());
        write_with_arguments(&tool.name, about, &arguments_of(&tool.input_schema), output)?;
    }
    Ok(())
}

/// Prints each prompt on a line, and its arguments below.
fn write_prompts(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    for item in items {
        let prompt: PromptInfo = read_item(item)?;
        let about = about(prompt.title.as_deref(), prompt.description.as_deref());
        write_with_arguments(&prompt.name, about, &declared_arguments(&prompt), output)?;
    }
    Ok(())
}

fn write_resources(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    let row = |item: &Value| -> Result<Vec<String>, ClientError> {
        let resource: ResourceInfo = read_item(item)?;
        let size = resource.size.map(|size| format!("{size} bytes")).unwrap_or_default();
        let mime_type = resource.mime_type.unwrap_or_default();
        let title = resource.title.unwrap_or(resource.name);
        let about = about(Some(&title), resource.description.as_deref());
        Ok(vec![resource.uri, mime_type, size, about])
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect::<Result<_, _>>()?;
    Ok(output.write_rows(0, &rows)?)
}

fn write_templates(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    let row = |item: &Value| -> Result<Vec<String>, ClientError> {
        let template: ResourceTemplateInfo = read_item(item)?;
        let mime_type = template.mime_type.unwrap_or_default();
        let title = template.title.unwrap_or(template.name);
        let about = about(Some(&title), template.description.as_deref());
        Ok(vec![template.uri_template, mime_type, "template".to_owned(), about])
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect::<Result<_, _>>()?;
    Ok(output.write_rows(0, &rows)?)
}

fn write_skills(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    let row = |item: &Value| -> Result<Vec<String>, ClientError> {
        let skill: SkillInfo = read_item(item)?;
        let files = match &skill.resources {
            SkillResources::Listed(files) if files.len() == 1 => "1 file".to_owned(),
            SkillResources::Listed(files) => format!("{} files", files.len()),
            _ => "dynamic".to_owned(),
        };
        let about = skill.description().unwrap_or_default().to_owned();
        Ok(vec![skill.uri, files, about])
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect::<Result<_, _>>()?;
    Ok(output.write_rows(0, &rows)?)
}

fn write_with_arguments(
    name: &str,
    about: String,
    arguments: &[Argument],
    output: &mut Output,
) -> Result<(), Failure> {
    output.write_rows(0, &[vec![name.to_owned(), about]])?;
    let row = |argument: &Argument| {
        let required = if argument.is_required { "required" } else { "optional" };
        vec![
            argument.name.clone(),
            argument.type_name.clone(),
            required.to_owned(),
            argument.description.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = arguments.iter().map(row).collect();
    Ok(output.write_rows(INDENT, &rows)?)
}

/// Joins title and description.
fn about(title: Option<&str>, description: Option<&str>) -> String {
    match (title, description) {
        (Some(title), Some(description)) => format!("{title}: {description}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => String::new(),
    }
}
