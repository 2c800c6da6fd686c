//! Parameters of operations: in path, query, headers and cookies.

use reqwest::header::HeaderName;
use serde_json::{Value, json};

use super::arguments::{Arguments, NewArgument};
use super::bundle::Schemas;
use super::document::Document;
use crate::declared::http::{
    HeaderContent, HeaderParameter, Parameter, ParameterStyle, PathPart, QueryPart,
    RequestTemplate, Source, is_json, is_own_header, is_relative, push_path_text,
};

/// Headers that OpenAPI describes elsewhere; parameters with these names are ignored.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// A parameter of the document.
struct Declared<'a> {
    name: &'a str,
    /// `path`, `query`, `header` or `cookie`.
    place: &'a str,
    value: &'a Value,
}

/// Adds the parameters of an operation to its request and its arguments.
///
/// # Errors
///
/// A parameter is invalid or not supported.
pub(super) fn add_parameters(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    request: &mut RequestTemplate,
    operation: OperationParts<'_>,
) -> Result<(), String> {
    let declared = declared_parameters(schemas.converter.document, operation)?;
    let mut path_parameters = Vec::new();
    for place in ["path", "query", "header", "cookie"] {
        for parameter in declared.iter().filter(|parameter| parameter.place == place) {
            let is_sent = match place {
                "path" => operation.path.contains(&format!("{{{}}}", parameter.name)),
                "header" => is_sent_header(parameter.name),
                _ => true,
            };
            // What the declaration sets is no argument.
            if !is_sent || is_set(request, parameter) {
                continue;
            }
            let converted = add_parameter(schemas, arguments, parameter)?;
            match place {
                "path" => path_parameters.push(converted),
                "query" => request.query.push(QueryPart::Parameter(converted)),
                "cookie" => request.cookies.push(converted),
                _ => {
                    let invalid = |_| format!("the header {:?} has no valid name", parameter.name);
                    let name = HeaderName::from_bytes(parameter.name.as_bytes());
                    let name = name.map_err(invalid)?;
                    let value = HeaderContent::Parameter(converted);
                    request.header_parameters.push(HeaderParameter { name, value });
                }
            }
        }
    }
    add_path(schemas, arguments, request, PathContext { operation, path_parameters })
}

/// What has the parameters of an operation.
#[derive(Clone, Copy)]
pub(super) struct OperationParts<'a> {
    /// Path of the operation in the document.
    pub(super) path: &'a str,
    /// Path of the server before it.
    pub(super) base_path: &'a str,
    pub(super) path_item: &'a Value,
    pub(super) operation: &'a Value,
}

/// The parameters of the operation, and those of its path that it does not replace.
fn declared_parameters<'a>(
    document: &'a Document,
    operation: OperationParts<'a>,
) -> Result<Vec<Declared<'a>>, String> {
    let mut declared: Vec<Declared<'a>> = Vec::new();
    for list in [&operation.path_item["parameters"], &operation.operation["parameters"]] {
        for value in list.as_array().into_iter().flatten() {
            let value = document.resolve(value)?;
            let (Some(name), Some(place)) = (value["name"].as_str(), value["in"].as_str()) else {
                return Err("a parameter has no name or no place".to_owned());
            };
            if !matches!(place, "path" | "query" | "header" | "cookie") {
                return Err(format!("the parameter {name:?} is in {place:?}"));
            }
            declared.retain(|known| known.name != name || known.place != place);
            declared.push(Declared { name, place, value });
        }
    }
    Ok(declared)
}

fn is_sent_header(name: &str) -> bool {
    let is_ignored = IGNORED_HEADERS.iter().any(|ignored| ignored.eq_ignore_ascii_case(name));
    !is_ignored && !is_own_header(name)
}

/// Whether the request has the parameter already.
fn is_set(request: &RequestTemplate, parameter: &Declared<'_>) -> bool {
    let name = parameter.name;
    let is_fixed =
        |known: &Parameter| known.name == name && !matches!(known.source, Source::Argument(_));
    match parameter.place {
        "query" => request.query.iter().any(|part| match part {
            QueryPart::Parameter(known) => is_fixed(known),
            QueryPart::Text(_) | QueryPart::Templates(_) => false,
        }),
        "cookie" => request.cookies.iter().any(is_fixed),
        "header" => {
            let mut parameters = request.header_parameters.iter();
            request.headers.contains_key(name)
                || parameters.any(|known| known.name.as_str().eq_ignore_ascii_case(name))
        }
        _ => false,
    }
}

fn add_parameter(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    declared: &Declared<'_>,
) -> Result<Parameter, String> {
    let Declared { name, place, value } = *declared;
    let content = value["content"].as_object().and_then(|content| content.iter().next());
    let text = json!({ "type": "string" });
    let (schema, style) = match content {
        Some((mime_type, content)) if is_json(mime_type) => {
            (content.get("schema").unwrap_or(&text), ParameterStyle::Json)
        }
        Some(_) => (&text, default_style(place)),
        None => (value.get("schema").unwrap_or(&text), style(name, place, value)?),
    };
    let is_form = style == ParameterStyle::Form;
    let explode = value["explode"].as_bool().unwrap_or(is_form);
    let argument = arguments.add(
        schemas,
        &NewArgument {
            name,
            place,
            schema,
            description: value["description"].as_str(),
            is_required: place == "path" || value["required"] == Value::Bool(true),
            is_deprecated: value["deprecated"] == Value::Bool(true),
        },
    )?;
    Ok(Parameter {
        name: name.to_owned(),
        source: Source::Argument(argument),
        style,
        explode,
        allow_reserved: value["allowReserved"] == Value::Bool(true),
    })
}

fn style(name: &str, place: &str, value: &Value) -> Result<ParameterStyle, String> {
    let Some(style) = value["style"].as_str() else {
        return Ok(default_style(place));
    };
    Ok(match (place, style) {
        ("path", "matrix") => ParameterStyle::Matrix,
        ("path", "label") => ParameterStyle::Label,
        ("path" | "header", "simple") => ParameterStyle::Simple,
        ("query" | "cookie", "form") | ("cookie", "cookie") => ParameterStyle::Form,
        ("query", "spaceDelimited") => ParameterStyle::SpaceDelimited,
        ("query", "pipeDelimited") => ParameterStyle::PipeDelimited,
        ("query", "deepObject") => ParameterStyle::DeepObject,
        _ => return Err(format!("the parameter {name:?} in {place} has the style {style:?}")),
    })
}

fn default_style(place: &str) -> ParameterStyle {
    match place {
        "query" | "cookie" => ParameterStyle::Form,
        _ => ParameterStyle::Simple,
    }
}

/// The path of an operation, and its parameters.
struct PathContext<'a> {
    operation: OperationParts<'a>,
    path_parameters: Vec<Parameter>,
}

/// Splits the path at its placeholders. Those without a parameter become arguments, too.
fn add_path(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    request: &mut RequestTemplate,
    context: PathContext<'_>,
) -> Result<(), String> {
    let OperationParts { path, base_path, .. } = context.operation;
    // Fragments distinguish operations in the document; they are not sent.
    let path = path.split('#').next().unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if query.contains(['{', '}']) {
        return Err("the query in its path has a placeholder".to_owned());
    }
    if !query.is_empty() {
        request.query.insert(0, QueryPart::Text(query.to_owned()));
    }
    let mut parameters = context.path_parameters;
    let mut segments: Vec<Vec<PathPart>> = Vec::new();
    push_path_text(&mut segments, base_path.trim_end_matches('/'));
    let mut rest = path;
    if !rest.starts_with('/') {
        push_path_text(&mut segments, "/");
    }
    while let Some((text, after)) = rest.split_once('{') {
        push_path_text(&mut segments, text);
        let (name, after) = after.split_once('}').ok_or("its path has a brace without end")?;
        rest = after;
        let known = parameters.iter().find(|parameter| parameter.name == name).cloned();
        let parameter = if let Some(parameter) = known {
            parameter
        } else {
            let value = json!({});
            let declared = Declared { name, place: "path", value: &value };
            let parameter = add_parameter(schemas, arguments, &declared)?;
            parameters.push(parameter.clone());
            parameter
        };
        if segments.is_empty() {
            segments.push(Vec::new());
        }
        segments.last_mut().into_iter().for_each(|it| it.push(PathPart::Value(parameter.clone())));
    }
    push_path_text(&mut segments, rest);
    let relative = segments
        .iter()
        .any(|segment| matches!(segment.as_slice(), [PathPart::Text(text)] if is_relative(text)));
    if relative {
        return Err("its path has a relative segment".to_owned());
    }
    request.path = segments;
    Ok(())
}
