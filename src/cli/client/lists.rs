//! `corelane tools`, `prompts` and `resources`.

use corelane_client::{ClientError, PromptInfo, ResourceInfo, ResourceTemplateInfo, ToolInfo};
use corelane_protocol::eras::Method;
use serde_json::{Value, json};

use super::arguments::{Argument, arguments_of};
use super::connection::{Connection, List, read_item, to_document};
use super::failure::{Failure, print_note};
use super::output::Output;
use super::requests::declared_arguments;

/// Spaces before the rows of arguments.
const INDENT: usize = 2;

/// Lists the tools.
pub(crate) fn tools(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    write_list(server.list(Method::ToolsList, "tools")?, output, write_tools)
}

/// Lists the prompts.
pub(crate) fn prompts(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    write_list(server.list(Method::PromptsList, "prompts")?, output, write_prompts)
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
pub(crate) fn write_tools(items: &[Value], output: &mut Output) -> Result<(), Failure> {
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
pub(crate) fn write_prompts(items: &[Value], output: &mut Output) -> Result<(), Failure> {
    for item in items {
        let prompt: PromptInfo = read_item(item)?;
        let about = about(prompt.title.as_deref(), prompt.description.as_deref());
        write_with_arguments(&prompt.name, about, &declared_arguments(&prompt), output)?;
    }
    Ok(())
}

/// Prints the resources.
pub(crate) fn write_resources(items: &[Value], output: &mut Output) -> Result<(), Failure> {
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

/// Prints the resource templates.
pub(crate) fn write_templates(items: &[Value], output: &mut Output) -> Result<(), Failure> {
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
