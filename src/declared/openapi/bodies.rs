//! Bodies of requests of operations.

use serde_json::{Map, Value, json};

use super::arguments::{Arguments, NewArgument};
use super::bundle::Schemas;
use super::document::Document;
use super::schema::Direction;
use crate::declared::http::{
    BodyTemplate, FormFields, JsonMember, JsonTemplate, MultipartPart, Parameter, ParameterStyle,
    PartContent, QueryPart, Source, is_json, is_text,
};

/// Keywords of an object whose properties can be arguments of their own.
const PLAIN_KEYWORDS: [&str; 16] = [
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "example",
    "examples",
    "default",
    "deprecated",
    "externalDocs",
    "xml",
    "nullable",
    "readOnly",
    "writeOnly",
    "discriminator",
];

/// The name of the argument that is a whole body.
const BODY: &str = "body";

/// One kind of body that an operation accepts.
#[derive(Clone, Copy)]
struct Content<'a> {
    mime_type: &'a str,
    schema: &'a Value,
    encoding: &'a Value,
    description: Option<&'a str>,
    is_required: bool,
}

/// A property of a body.
struct Property<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

/// Adds the body of an operation to its arguments.
///
/// # Errors
///
/// A reference has no target in the document, or no kind of body is supported.
pub(super) fn add_body(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    operation: &Value,
) -> Result<BodyTemplate, String> {
    let Some(body) = operation.get("requestBody").filter(|body| !body.is_null()) else {
        return Ok(BodyTemplate::None);
    };
    let document = schemas.converter.document;
    let body = document.resolve(body)?;
    let Some(content) = choose_content(body) else {
        return Ok(BodyTemplate::None);
    };
    let base = base_type(content.mime_type);
    if base == "application/x-www-form-urlencoded" {
        return add_form(schemas, arguments, content);
    }
    if base == "multipart/form-data" {
        return add_multipart(schemas, arguments, content);
    }
    if is_json(&base) || base == "*/*" || base == "application/*" || base.is_empty() {
        return add_json(schemas, arguments, content);
    }
    if base.starts_with("multipart/") {
        return Err(format!("its body is {base}"));
    }
    let is_base64 = !is_text(&base);
    add_raw(schemas, arguments, content, is_base64)
}

/// The kind of body that is sent: JSON before forms before others.
fn choose_content(body: &Value) -> Option<Content<'_>> {
    let rank = |mime_type: &str| {
        let base = base_type(mime_type);
        match base.as_str() {
            "application/json" => 0,
            base if is_json(base) => 1,
            "application/x-www-form-urlencoded" => 2,
            "multipart/form-data" => 3,
            "*/*" | "application/*" => 4,
            base if is_text(base) => 5,
            _ => 6,
        }
    };
    let contents = body["content"].as_object()?;
    let (mime_type, content) = contents.iter().min_by_key(|(mime_type, _)| rank(mime_type))?;
    Some(Content {
        mime_type,
        schema: content.get("schema").unwrap_or(&Value::Null),
        encoding: &content["encoding"],
        description: body["description"].as_str(),
        is_required: body["required"] == Value::Bool(true),
    })
}

fn base_type(mime_type: &str) -> String {
    mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn add_json(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    content: Content<'_>,
) -> Result<BodyTemplate, String> {
    let document = schemas.converter.document;
    let content_type = match base_type(content.mime_type).as_str() {
        "*/*" | "application/*" | "" => "application/json".to_owned(),
        _ => content.mime_type.to_owned(),
    };
    let is_optional = !content.is_required;
    let properties = plain_properties(document, content.schema)?.filter(|properties| {
        // With an optional body required properties depend on whether there is one.
        let has_required = properties.iter().any(|property| property.is_required);
        !properties.is_empty() && (content.is_required || !has_required)
    });
    let template = match properties {
        Some(properties) => {
            let mut members = Vec::new();
            for property in properties {
                if schemas.converter.is_hidden(property.schema, Direction::Input) {
                    continue;
                }
                let argument = arguments.add(schemas, &property_argument(&property))?;
                let value = JsonTemplate::Argument(Source::Argument(argument));
                members.push(JsonMember { name: property.name.to_owned(), value });
            }
            JsonTemplate::Object(members)
        }
        None => JsonTemplate::Argument(Source::Argument(whole_body(
            schemas,
            arguments,
            content,
            content.schema,
        )?)),
    };
    Ok(BodyTemplate::Json { template, content_type, is_optional })
}

fn property_argument<'a>(property: &Property<'a>) -> NewArgument<'a> {
    NewArgument {
        name: property.name,
        place: BODY,
        schema: property.schema,
        description: None,
        is_required: property.is_required,
        is_deprecated: false,
    }
}

/// Adds an argument that is the whole body.
fn whole_body(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    content: Content<'_>,
    schema: &Value,
) -> Result<String, String> {
    let Content { description, is_required, .. } = content;
    let description = description.or(Some("Body of the request."));
    let is_deprecated = false;
    let (name, place) = (BODY, BODY);
    arguments
        .add(schemas, &NewArgument { name, place, schema, description, is_required, is_deprecated })
}

fn add_raw(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    content: Content<'_>,
    is_base64: bool,
) -> Result<BodyTemplate, String> {
    let is_range = content.mime_type.contains('*');
    let content_type = if is_range { "application/octet-stream" } else { content.mime_type };
    let content_type = content_type.to_owned();
    let schema = if is_base64 {
        binary_schema(&json!({}))
    } else {
        json!({ "type": "string", "contentMediaType": content_type })
    };
    let source = Source::Argument(whole_body(schemas, arguments, content, &schema)?);
    Ok(BodyTemplate::Raw { source, content_type, is_base64 })
}

/// The schema of bytes, with what `schema` says about them.
fn binary_schema(schema: &Value) -> Value {
    let mut members = Map::new();
    members.insert("type".to_owned(), json!("string"));
    members.insert("contentEncoding".to_owned(), json!("base64"));
    let own = schema["description"].as_str().map(|text| format!("{text} "));
    let description = format!("{}Content in base64.", own.unwrap_or_default());
    members.insert("description".to_owned(), json!(description));
    Value::Object(members)
}

fn add_form(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    content: Content<'_>,
) -> Result<BodyTemplate, String> {
    let document = schemas.converter.document;
    let Some(properties) = form_properties(document, content)? else {
        return add_raw(schemas, arguments, content, false);
    };
    let mut fields = Vec::new();
    for property in &properties {
        let encoding = &content.encoding[property.name];
        let style = form_style(document, property.schema, encoding);
        let argument = arguments.add(schemas, &property_argument(property))?;
        fields.push(QueryPart::Parameter(Parameter {
            name: property.name.to_owned(),
            source: Source::Argument(argument),
            style,
            explode: encoding["explode"].as_bool().unwrap_or(style == ParameterStyle::Form),
            allow_reserved: false,
        }));
    }
    Ok(BodyTemplate::Form(FormFields(fields)))
}

/// The style of a field of a form; objects are JSON if nothing else is said.
fn form_style(document: &Document, schema: &Value, encoding: &Value) -> ParameterStyle {
    let content_type = encoding["contentType"].as_str().unwrap_or_default();
    match encoding["style"].as_str() {
        Some("deepObject") => ParameterStyle::DeepObject,
        Some("spaceDelimited") => ParameterStyle::SpaceDelimited,
        Some("pipeDelimited") => ParameterStyle::PipeDelimited,
        None if is_json(&base_type(content_type)) || is_object(document, schema) => {
            ParameterStyle::Json
        }
        Some(_) | None => ParameterStyle::Form,
    }
}

fn is_object(document: &Document, schema: &Value) -> bool {
    let schema = document.resolve(schema).unwrap_or(schema);
    let is_object = |kind: &Value| kind == "object";
    is_object(&schema["type"])
        || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_object))
        || schema["properties"].is_object()
        || schema["allOf"].is_array()
}

fn add_multipart(
    schemas: &mut Schemas<'_>,
    arguments: &mut Arguments,
    content: Content<'_>,
) -> Result<BodyTemplate, String> {
    let document = schemas.converter.document;
    let Some(properties) = form_properties(document, content)? else {
        return Err("its body in multipart/form-data has no properties".to_owned());
    };
    let mut parts = Vec::new();
    for property in &properties {
        let encoding = &content.encoding[property.name];
        let content_type = encoding["contentType"].as_str();
        let content_type =
            content_type.map(|text| text.split(',').next().unwrap_or_default().trim().to_owned());
        let content_type = content_type.filter(|text| !text.contains('*') && !text.is_empty());
        let binary = binary_part(document, property.schema, content_type.as_deref());
        let schema = binary.as_ref().unwrap_or(property.schema);
        let argument = NewArgument { schema, ..property_argument(property) };
        let source = Source::Argument(arguments.add(schemas, &argument)?);
        parts.push(MultipartPart {
            name: property.name.to_owned(),
            content: PartContent::Value(source),
            filename: None,
            content_type,
            is_base64: binary.is_some(),
        });
    }
    Ok(BodyTemplate::Multipart(parts))
}

/// The schema of a part with bytes, or with a list of them; `None` for other parts.
fn binary_part(document: &Document, schema: &Value, content_type: Option<&str>) -> Option<Value> {
    let resolved = document.resolve(schema).unwrap_or(schema);
    if is_binary(resolved, content_type) {
        return Some(binary_schema(resolved));
    }
    let items = resolved.get("items").map(|items| document.resolve(items).unwrap_or(items))?;
    if !is_binary(items, content_type) {
        return None;
    }
    let mut list = Map::new();
    list.insert("type".to_owned(), json!("array"));
    list.insert("items".to_owned(), binary_schema(items));
    if let Some(description) = resolved.get("description") {
        list.insert("description".to_owned(), description.clone());
    }
    Some(Value::Object(list))
}

fn is_binary(schema: &Value, content_type: Option<&str>) -> bool {
    let format = schema["format"].as_str().unwrap_or_default();
    let media = schema["contentMediaType"].as_str().or(content_type).map(base_type);
    let has_text = media.as_ref().is_none_or(|it| is_text(it) || is_json(it));
    let is_string = schema["type"] == "string";
    let is_untyped = schema["type"].is_null() && schema["properties"].is_null();
    let is_encoded =
        matches!(format, "binary" | "byte" | "base64") || schema["contentEncoding"] == "base64";
    is_string && (is_encoded || !has_text) || is_untyped && !has_text
}

/// The properties of a form, `None` if its schema is not an object with properties.
fn form_properties<'a>(
    document: &'a Document,
    content: Content<'a>,
) -> Result<Option<Vec<Property<'a>>>, String> {
    let mut found = Vec::new();
    collect_properties(document, content.schema, &mut found, &mut Vec::new())?;
    found.retain(|property| property.schema["readOnly"] != Value::Bool(true));
    if !content.is_required {
        for property in &mut found {
            property.is_required = false;
        }
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

/// Collects the properties of an object and of all schemas that it combines.
fn collect_properties<'a>(
    document: &'a Document,
    schema: &'a Value,
    found: &mut Vec<Property<'a>>,
    seen: &mut Vec<&'a Value>,
) -> Result<(), String> {
    let schema = document.resolve(schema)?;
    if seen.iter().any(|known| std::ptr::eq(*known, schema)) {
        return Ok(());
    }
    seen.push(schema);
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|it| it == name))
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required(name);
        match found.iter_mut().find(|known| known.name == name) {
            Some(known) => known.is_required |= is_required,
            None => found.push(Property { name, schema: property, is_required }),
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect_properties(document, part, found, seen)?;
    }
    for key in ["oneOf", "anyOf"] {
        for part in schema[key].as_array().into_iter().flatten() {
            let start = found.len();
            collect_properties(document, part, found, seen)?;
            found[start..].iter_mut().for_each(|property| property.is_required = false);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let known = found.iter_mut().filter(|known| known.name == name);
        known.for_each(|known| known.is_required = true);
    }
    Ok(())
}

/// The properties of a body whose schema says nothing else, `None` for other bodies.
fn plain_properties<'a>(
    document: &'a Document,
    schema: &'a Value,
) -> Result<Option<Vec<Property<'a>>>, String> {
    let mut found = Vec::new();
    let is_plain = collect_plain(document, schema, &mut found, &mut Vec::new())?;
    Ok(is_plain.then_some(found))
}

/// Collects the properties of a plain object, and of plain objects in its `allOf`. Returns whether
/// all are plain and no property occurs twice.
fn collect_plain<'a>(
    document: &'a Document,
    schema: &'a Value,
    found: &mut Vec<Property<'a>>,
    seen: &mut Vec<&'a Value>,
) -> Result<bool, String> {
    let schema = document.resolve(schema)?;
    let Some(members) = schema.as_object() else {
        return Ok(false);
    };
    let is_known = |key: &String| {
        PLAIN_KEYWORDS.contains(&key.as_str()) || key == "allOf" || key.starts_with("x-")
    };
    let is_object = members.get("type").is_none_or(|kind| kind == "object");
    let is_open = members.get("additionalProperties").is_none_or(Value::is_boolean);
    let is_repeated = seen.iter().any(|known| std::ptr::eq(*known, schema));
    if !members.keys().all(is_known) || !is_object || !is_open || is_repeated {
        return Ok(false);
    }
    seen.push(schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if found.iter().any(|known| known.name == name) {
            return Ok(false);
        }
        found.push(Property { name, schema: property, is_required: false });
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        if !collect_plain(document, part, found, seen)? {
            return Ok(false);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let Some(known) = found.iter_mut().find(|known| known.name == name) else {
            return Ok(false);
        };
        known.is_required = true;
    }
    Ok(true)
}
