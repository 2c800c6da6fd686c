//! One operation as a tool.

use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;

use super::arguments::Arguments;
use super::bodies::add_body;
use super::bundle::Schemas;
use super::parameters::{OperationParts, add_parameters};
use super::responses::read_responses;
use super::security::Credentials;
use super::servers::Server;
use crate::declared::http::{CompiledHeaders, RequestTemplate};

/// Bytes of the description of a tool at most.
const DESCRIPTION_BYTES_MAX: usize = 4096;

/// What the operations of a document have in common.
pub(super) struct OperationContext<'a> {
    pub(super) credentials: &'a Credentials,
    pub(super) headers: &'a CompiledHeaders,
    pub(super) has_output_schemas: bool,
}

/// An operation of the document.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) path_item: &'a Value,
    pub(super) value: &'a Value,
    /// The document.
    pub(super) root: &'a Value,
}

/// An operation as a request with its schemas.
pub(super) struct ConvertedOperation {
    pub(super) request: RequestTemplate,
    pub(super) input_schema: Value,
    pub(super) output_schema: Option<Value>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

/// Converts an operation.
///
/// # Errors
///
/// Why the operation cannot be a tool.
pub(super) fn convert_operation(
    schemas: &mut Schemas<'_>,
    context: &OperationContext<'_>,
    operation: Operation<'_>,
    server: Server,
) -> Result<ConvertedOperation, String> {
    let Operation { method, path, path_item, value, root } = operation;
    if !value.is_object() {
        return Err("is not an object".to_owned());
    }
    let Server { origin, base_path } = server;
    let mut request = RequestTemplate::new(method.clone(), origin);
    request.headers = context.headers.fixed.clone();
    let mut arguments = Arguments::default();
    request.header_parameters.clone_from(&context.headers.parameters);
    let requirements = value.get("security").unwrap_or_else(|| &root["security"]);
    context.credentials.apply(requirements, &mut request)?;
    let parts = OperationParts { path, base_path: &base_path, path_item, operation: value };
    add_parameters(schemas, &mut arguments, &mut request, parts)?;
    request.body = add_body(schemas, &mut arguments, value)?;
    let responses = read_responses(schemas, value, context.has_output_schemas)?;
    if let Some(accept) = responses.accept
        && !request.headers.contains_key(ACCEPT)
        && let Ok(accept) = HeaderValue::from_str(&accept)
    {
        request.headers.insert(ACCEPT, accept);
    }
    Ok(ConvertedOperation {
        request,
        input_schema: arguments.into_schema(schemas)?,
        output_schema: responses.output_schema,
        title: text(&value["summary"]),
        description: description(path_item, value),
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn description(path_item: &Value, operation: &Value) -> Option<String> {
    let own = text(&operation["description"]).or_else(|| text(&operation["summary"]));
    let mut description = own.or_else(|| text(&path_item["description"]))?;
    if operation["deprecated"] == Value::Bool(true) {
        description.insert_str(0, "Deprecated. ");
    }
    if description.len() > DESCRIPTION_BYTES_MAX {
        description.truncate(description.floor_char_boundary(DESCRIPTION_BYTES_MAX));
        description.push('…');
    }
    Some(description)
}
