//! OpenAPI documents: read, parsed, and their references resolved.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use serde_json::Value;

use super::declaration::OpenApiDeclaration;
use crate::declared::http::{HttpClient, fetch};
use crate::declared::problem::Problem;

/// Bytes of a document at most.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// References that follow each other at most.
const REFERENCES_MAX: usize = 32;

/// Reads the document of a declaration: a path below `folder`, or a URL, which is fetched with the
/// rules of the declaration for requests.
///
/// # Errors
///
/// The document cannot be read, or is too large.
pub async fn read_document(
    declaration: &OpenApiDeclaration,
    folder: &Path,
    client: &mut HttpClient,
) -> Result<Bytes, Problem> {
    let location = &declaration.document;
    let problem = |message: String, hint: &str| Problem::new("document", message, hint);
    if is_url(location) {
        let settings = declaration.document_settings()?;
        return fetch(location, &settings, client, DOCUMENT_BYTES_MAX).await.map_err(|failure| {
            problem(failure.to_string(), "check the URL, or save the document as a file")
        });
    }
    let path = folder.join(location);
    let read = tokio::task::spawn_blocking(move || {
        let length = std::fs::metadata(&path)?.len();
        if length > DOCUMENT_BYTES_MAX as u64 {
            return Ok(None);
        }
        std::fs::read(&path).map(Some)
    });
    let hint = "write the path of an OpenAPI document, or its URL";
    match read.await {
        Ok(Ok(Some(bytes))) => Ok(bytes.into()),
        Ok(Ok(None)) => Err(problem(
            format!("{location} has more than {DOCUMENT_BYTES_MAX} bytes"),
            "split the document",
        )),
        Ok(Err(error)) => Err(problem(format!("{location}: {error}"), hint)),
        Err(error) => Err(problem(format!("{location}: {error}"), hint)),
    }
}

/// Whether the location of a document is a URL.
pub(super) fn is_url(location: &str) -> bool {
    location.starts_with("http://") || location.starts_with("https://")
}

/// A parsed document.
#[derive(Debug)]
pub(super) struct Document {
    root: Value,
    /// Whether its schemas are those of OpenAPI 3.0.
    pub(super) is_3_0: bool,
}

impl Document {
    /// Parses a document in JSON or YAML.
    ///
    /// # Errors
    ///
    /// The document is not well-formed, or not OpenAPI 3.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let problem = |message: String, hint: &str| Problem::new("document", message, hint);
        if bytes.len() > DOCUMENT_BYTES_MAX {
            let message = format!("has more than {DOCUMENT_BYTES_MAX} bytes");
            return Err(problem(message, "split the document"));
        }
        let root = parse_value(bytes)
            .map_err(|message| problem(message, "correct the document: it is JSON or YAML"))?;
        let version = match &root["openapi"] {
            Value::String(version) => version.clone(),
            Value::Number(version) => version.to_string(),
            _ if !root["swagger"].is_null() => {
                let message = format!("is Swagger {}", root["swagger"]);
                return Err(problem(message, "convert it to OpenAPI 3, as with swagger2openapi"));
            }
            _ => {
                let message = "has no version in `openapi`".to_owned();
                return Err(problem(message, "write the path or URL of an OpenAPI document"));
            }
        };
        if !version.starts_with("3.") && version != "3" {
            let message = format!("has the version {version:?}");
            return Err(problem(message, "use OpenAPI 3.0, 3.1 or 3.2"));
        }
        if !root["paths"].is_object() {
            let message = "has no operations: `paths` is missing".to_owned();
            return Err(problem(message, "use a document with paths"));
        }
        Ok(Self { is_3_0: version.starts_with("3.0"), root })
    }

    /// The document as JSON.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The value that `value` refers to, or `value` itself.
    ///
    /// # Errors
    ///
    /// The reference has no target in the document.
    pub(super) fn resolve<'a>(&'a self, mut value: &'a Value) -> Result<&'a Value, String> {
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.target(reference)?,
                None => return Ok(value),
            }
        }
        Err(format!("{} refers to itself", value["$ref"]))
    }

    /// The target of a reference.
    ///
    /// # Errors
    ///
    /// The reference has no target in the document.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, String> {
        let pointer = pointer_of(reference)?;
        self.root
            .pointer(&pointer)
            .ok_or_else(|| format!("the document has nothing at the reference {reference:?}"))
    }

    /// The JSON Pointer of a schema, with references that only refer to another followed.
    ///
    /// # Errors
    ///
    /// The reference has no target in the document, or refers to itself.
    pub(super) fn schema_pointer(&self, reference: &str) -> Result<String, String> {
        let mut pointer = pointer_of(reference)?;
        let mut seen = BTreeSet::new();
        loop {
            let Some(target) = self.root.pointer(&pointer) else {
                return Err(format!("the document has nothing at the reference {reference:?}"));
            };
            let next = target.get("$ref").and_then(Value::as_str);
            let is_alias = target.as_object().is_some_and(|object| object.len() == 1);
            let Some(next) = next.filter(|_| is_alias) else {
                return Ok(pointer);
            };
            if !seen.insert(std::mem::replace(&mut pointer, pointer_of(next)?)) {
                return Err(format!("the reference {reference:?} refers to itself"));
            }
        }
    }
}

/// The JSON Pointer in a reference within the document.
fn pointer_of(reference: &str) -> Result<String, String> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(format!(
            "{reference:?} refers to another document; bundle the documents into one, as with \
             `redocly bundle`"
        ));
    };
    let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy().into_owned();
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!("{reference:?} refers to an anchor; write a JSON Pointer"));
    }
    Ok(pointer)
}

fn parse_value(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("is not UTF-8: {error}"))?;
    let mut options = serde_saphyr::Options::default();
    options.strict_booleans = true;
    options.leading_zero_numbers_as_strings = true;
    options.underscored_numbers_as_strings = true;
    options.duplicate_keys = serde_saphyr::DuplicateKeyPolicy::LastWins;
    if let Some(budget) = &mut options.budget {
        // The size of the document is bounded.
        budget.max_events = 8 << 20;
        budget.max_nodes = 8 << 20;
        budget.max_depth = 128;
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        format!("is not YAML: {}", text.lines().next().unwrap_or_default())
    })
}
