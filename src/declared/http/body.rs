//! Bodies of requests.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::parameters::{QueryPart, write_form};
use super::values::{Source, render, single_argument, text_of};
use crate::declared::call::{Call, Failure};
use crate::declared::problem::Problem;
use crate::declared::template::Template;

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub enum BodyTemplate {
    /// No body.
    #[default]
    None,
    /// JSON of this media type; no body if no argument of the template is given and
    /// `is_optional`.
    Json {
        /// The value.
        template: JsonTemplate,
        /// Media type, such as `application/json`.
        content_type: String,
        /// Whether there may be no body.
        is_optional: bool,
    },
    /// `application/x-www-form-urlencoded`.
    Form(FormFields),
    /// `multipart/form-data`; a part without a value is left out.
    Multipart(Vec<MultipartPart>),
    /// Text.
    Text(Template),
    /// One value: text, or bytes in base64.
    Raw {
        /// The value.
        source: Source,
        /// Media type.
        content_type: String,
        /// Whether the value is base64 of the body.
        is_base64: bool,
    },
}

/// Fields of a form.
#[derive(Clone, Debug, Default)]
pub struct FormFields(pub(crate) Vec<QueryPart>);

/// JSON with arguments.
#[derive(Clone, Debug)]
pub enum JsonTemplate {
    /// A value that does not depend on the call.
    Fixed(Value),
    /// An argument with its type.
    Argument(Source),
    /// A text with arguments.
    Text(Template),
    /// A list; items without a value are left out.
    List(Vec<Self>),
    /// An object; members without a value are left out.
    Object(Vec<JsonMember>),
}

/// A member of an object.
#[derive(Clone, Debug)]
pub struct JsonMember {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: JsonTemplate,
}

impl JsonTemplate {
    /// Parses a value whose strings are templates.
    ///
    /// # Errors
    ///
    /// The braces of a string are wrong.
    pub fn parse(key: &str, value: &Value) -> Result<Self, Problem> {
        Ok(match value {
            Value::String(text) => {
                let template = Template::parse(key, text)?;
                match (single_argument(&template), template.as_text()) {
                    (Some(name), _) => Self::Argument(Source::named(name)),
                    (None, Some(text)) => Self::Fixed(Value::String(text.to_owned())),
                    (None, None) => Self::Text(template),
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| Self::parse(&format!("{key}.{index}"), item));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    let value = Self::parse(&format!("{key}.{name}"), value)?;
                    Ok(JsonMember { name: name.clone(), value })
                });
                Self::Object(members.collect::<Result<_, _>>()?)
            }
            other => Self::Fixed(other.clone()),
        })
    }

    /// The value, `None` without one.
    fn build(&self, call: &Call) -> Option<Value> {
        Some(match self {
            Self::Fixed(value) => value.clone(),
            Self::Argument(source) => source.value(call)?.into_owned(),
            Self::Text(template) => Value::String(render(template, call)?),
            Self::List(items) => items.iter().filter_map(|item| item.build(call)).collect(),
            Self::Object(members) => {
                let members = members
                    .iter()
                    .filter_map(|member| Some((member.name.clone(), member.value.build(call)?)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        })
    }

    /// Whether an argument in the template has a value.
    fn has_argument(&self, call: &Call) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Argument(source) => source.value(call).is_some(),
            Self::Text(template) => render(template, call).is_some(),
            Self::List(items) => items.iter().any(|item| item.has_argument(call)),
            Self::Object(members) => members.iter().any(|it| it.value.has_argument(call)),
        }
    }

    /// Names of the arguments that occur.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Argument(Source::Argument(name)) => vec![name.clone()],
            Self::Fixed(_) | Self::Argument(_) => Vec::new(),
            Self::Text(template) => template.names().map(str::to_owned).collect(),
            Self::List(items) => items.iter().flat_map(Self::names).collect(),
            Self::Object(members) => members.iter().flat_map(|it| it.value.names()).collect(),
        }
    }
}

/// A part of a body in `multipart/form-data`.
#[derive(Clone, Debug)]
pub struct MultipartPart {
    /// Name of the field.
    pub name: String,
    /// Its content.
    pub content: PartContent,
    /// Name of the file.
    pub filename: Option<Template>,
    /// Media type.
    pub content_type: Option<String>,
    /// Whether the content is given in base64.
    pub is_base64: bool,
}

/// The content of a part.
#[derive(Clone, Debug)]
pub enum PartContent {
    /// A text with arguments.
    Template(Template),
    /// A value; a list has a part for each item.
    Value(Source),
}

/// A body that is ready to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) content_type: String,
}

impl BodyTemplate {
    /// Builds the body, `None` without one.
    ///
    /// # Errors
    ///
    /// An argument is not base64 where it must be.
    pub(super) fn build(&self, call: &Call) -> Result<Option<Body>, Failure> {
        let (bytes, content_type) = match self {
            Self::None => return Ok(None),
            Self::Json { template, content_type, is_optional } => {
                if *is_optional && !template.has_argument(call) {
                    return Ok(None);
                }
                let Some(value) = template.build(call) else {
                    return Ok(None);
                };
                let bytes = serde_json::to_vec(&value).map_err(Failure::failed)?;
                (bytes, content_type.clone())
            }
            Self::Form(fields) => {
                let mut text = String::new();
                write_form(&mut text, &fields.0, call);
                (text.into_bytes(), "application/x-www-form-urlencoded".to_owned())
            }
            Self::Multipart(parts) => return build_multipart(parts, call).map(Some),
            Self::Text(template) => {
                let text = render(template, call).unwrap_or_default();
                (text.into_bytes(), "text/plain; charset=utf-8".to_owned())
            }
            Self::Raw { source, content_type, is_base64 } => {
                let Some(value) = source.given(call) else {
                    return Ok(None);
                };
                let text = text_of(&value);
                let bytes = if *is_base64 {
                    decode_base64(&text, &source.label())?
                } else {
                    text.into_owned().into_bytes()
                };
                (bytes, content_type.clone())
            }
        };
        Ok(Some(Body { bytes: bytes.into(), content_type }))
    }
}

/// One part with its content.
struct BuiltPart<'a> {
    part: &'a MultipartPart,
    filename: Option<String>,
    content: Vec<u8>,
    is_json: bool,
}

fn build_multipart(parts: &[MultipartPart], call: &Call) -> Result<Body, Failure> {
    let mut built = Vec::new();
    for part in parts {
        build_part(&mut built, part, call)?;
    }
    let boundary = choose_boundary(&built);
    let mut bytes = Vec::new();
    for BuiltPart { part, filename, content, is_json } in &built {
        let name = quoted(&part.name);
        let filename = filename.as_ref().map(|text| format!("; filename=\"{}\"", quoted(text)));
        let filename = filename.unwrap_or_default();
        let binary = (part.is_base64).then_some("application/octet-stream");
        let json = is_json.then_some("application/json");
        let content_type = part.content_type.as_deref().or(json).or(binary);
        let content_type = content_type.map(|text| format!("\r\nContent-Type: {text}"));
        let content_type = content_type.unwrap_or_default();
        let disposition = format!("form-data; name=\"{name}\"{filename}");
        let head =
            format!("--{boundary}\r\nContent-Disposition: {disposition}{content_type}\r\n\r\n");
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    Ok(Body { bytes: bytes.into(), content_type })
}

fn build_part<'a>(
    built: &mut Vec<BuiltPart<'a>>,
    part: &'a MultipartPart,
    call: &Call,
) -> Result<(), Failure> {
    let filename = part.filename.as_ref().and_then(|template| render(template, call));
    let mut add = |text: &str, label: &str, is_json: bool| {
        let content =
            if part.is_base64 { decode_base64(text, label)? } else { text.as_bytes().to_vec() };
        let filename = match &filename {
            Some(name) => Some(name.clone()),
            // Servers take a part for a file only if it has a name.
            None => part.is_base64.then(|| part.name.clone()),
        };
        built.push(BuiltPart { part, filename, content, is_json });
        Ok(())
    };
    match &part.content {
        PartContent::Template(template) => {
            let label = template.names().next().unwrap_or(&part.name);
            match render(template, call) {
                Some(text) => add(&text, &format!("argument `{label}`"), false),
                None => Ok(()),
            }
        }
        PartContent::Value(source) => {
            let label = source.label();
            match source.given(call).as_deref() {
                None => Ok(()),
                Some(Value::Array(items)) => items.iter().try_for_each(|item| {
                    add(&text_of(item), &label, item.is_object() || item.is_array())
                }),
                Some(value) => add(&text_of(value), &label, value.is_object()),
            }
        }
    }
}

/// A boundary that occurs in no part.
fn choose_boundary(parts: &[BuiltPart<'_>]) -> String {
    let occurs = |boundary: &str| {
        let boundary = boundary.as_bytes();
        parts.iter().any(|it| it.content.windows(boundary.len()).any(|bytes| bytes == boundary))
    };
    let mut number = 0_u64;
    loop {
        let boundary = format!("corelane-part-{number:016x}");
        if !occurs(&boundary) {
            return boundary;
        }
        number += 1;
    }
}

/// The text of a quoted name, as browsers write it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("%22"),
            '\r' => quoted.push_str("%0D"),
            '\n' => quoted.push_str("%0A"),
            '\0' => quoted.push_str("%00"),
            other => quoted.push(other),
        }
    }
    quoted
}

fn decode_base64(text: &str, label: &str) -> Result<Vec<u8>, Failure> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let compact: String = text.split_ascii_whitespace().collect();
    GeneralPurpose::new(&STANDARD, CONFIG)
        .decode(compact)
        .map_err(|error| Failure::invalid_argument(format_args!("{label} is not base64: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &Value) -> Call {
        Call { arguments: arguments.as_object().unwrap().clone(), ..Call::default() }
    }

    fn json_body(template: &Value, arguments: &Value) -> Value {
        let template = JsonTemplate::parse("body", template).unwrap();
        template.build(&call(arguments)).unwrap()
    }

    #[test]
    fn json_placeholder_keeps_its_type() {
        let template = json!({ "n": "{n}", "t": "n={n}", "l": ["{l}", "{x}"], "x": "{x}", "f": 1 });
        let body = json_body(&template, &json!({ "n": 5, "l": [true] }));
        assert_eq!(body, json!({ "n": 5, "t": "n=5", "l": [[true]], "f": 1 }));
        assert_eq!(json_body(&json!("{n}"), &json!({ "n": null })), json!(null));
    }

    #[test]
    fn json_text_is_escaped() {
        let body = json_body(&json!({ "t": "<{a}>" }), &json!({ "a": "\", \"admin\": true\n" }));
        assert_eq!(body, json!({ "t": "<\", \"admin\": true\n>" }));
    }

    fn part(name: &str, value: &str, is_base64: bool) -> MultipartPart {
        let content = PartContent::Template(Template::parse("v", value).unwrap());
        let filename = None;
        MultipartPart { name: name.to_owned(), content, filename, content_type: None, is_base64 }
    }

    #[test]
    fn multipart_value_cannot_leave_its_part() {
        let injection = "x\r\n--corelane-part-0000000000000000\r\nContent-Disposition: form-data";
        let body =
            BodyTemplate::Multipart(vec![part("a\"\r\n", "{a}", false), part("b", "{b}", true)]);
        let call = call(&json!({ "a": injection, "b": "aGk=" }));
        let body = body.build(&call).unwrap().unwrap();
        assert!(body.content_type.ends_with("boundary=corelane-part-0000000000000001"));
        let text = std::str::from_utf8(&body.bytes).unwrap();
        assert_eq!(text.matches("--corelane-part-0000000000000001").count(), 3);
        assert!(text.contains("name=\"a%22%0D%0A\"\r\n\r\nx"), "{text}");
        assert!(text.contains("octet-stream\r\n\r\nhi\r\n"), "{text}");
    }

    #[test]
    fn wrong_base64_is_an_invalid_argument() {
        let body = BodyTemplate::Multipart(vec![part("b", "{b}", true)]);
        let failure = body.build(&call(&json!({ "b": "*" }))).unwrap_err();
        assert!(matches!(failure, Failure::InvalidArgument(text) if text.contains("`b`")));
    }
}
