//! Responses of operations: the output schema, and the media types that are asked for.

use serde_json::Value;

use super::bundle::Schemas;
use super::schema::Direction;
use crate::declared::http::is_json;

/// Bytes of an output schema at most; a larger one is left out.
const OUTPUT_SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Media types in the header `Accept` at most.
const MEDIA_TYPES_MAX: usize = 4;

/// What the responses of an operation say.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// Schema of the results, if all successful responses have JSON of one schema.
    pub(super) output_schema: Option<Value>,
    /// Value of the header `Accept`, if the responses have media types.
    pub(super) accept: Option<String>,
}

/// Reads the responses of an operation.
///
/// # Errors
///
/// A reference has no target in the document.
pub(super) fn read_responses(
    schemas: &mut Schemas<'_>,
    operation: &Value,
    has_output_schema: bool,
) -> Result<Responses, String> {
    let document = schemas.converter.document;
    let mut media_types: Vec<&str> = Vec::new();
    let mut found: Vec<&Value> = Vec::new();
    let mut is_json_always = true;
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        if !status.starts_with('2') {
            continue;
        }
        let response = document.resolve(response)?;
        let mut schema = None;
        for (mime_type, content) in response["content"].as_object().into_iter().flatten() {
            let base = mime_type.split(';').next().unwrap_or_default().trim();
            if !media_types.contains(&base) {
                media_types.push(base);
            }
            if is_json(&base.to_ascii_lowercase()) && schema.is_none() {
                schema = content.get("schema");
            }
        }
        match schema {
            Some(schema) if !found.contains(&schema) => found.push(schema),
            Some(_) => {}
            None => is_json_always = false,
        }
    }
    let accept = accept(&media_types);
    let schema = match found.as_slice() {
        [schema] if is_json_always && has_output_schema => *schema,
        _ => return Ok(Responses { output_schema: None, accept }),
    };
    let Ok(schema) = schemas.convert_whole(schema, Direction::Output) else {
        // The operation works without it.
        return Ok(Responses { output_schema: None, accept });
    };
    let is_used = schema.as_object().is_some_and(|members| !members.is_empty())
        && schema.to_string().len() <= OUTPUT_SCHEMA_BYTES_MAX;
    Ok(Responses { output_schema: is_used.then_some(schema), accept })
}

/// JSON first, then the others.
fn accept(media_types: &[&str]) -> Option<String> {
    let is_valid = |text: &&&str| {
        let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        text.contains('/') && text.bytes().all(is_part)
    };
    let mut media_types: Vec<&str> = media_types.iter().filter(is_valid).copied().collect();
    media_types.sort_by_key(|text| !is_json(&text.to_ascii_lowercase()));
    media_types.truncate(MEDIA_TYPES_MAX);
    if media_types.is_empty() || media_types.contains(&"*/*") {
        return None;
    }
    Some(format!("{}, */*;q=0.1", media_types.join(", ")))
}
