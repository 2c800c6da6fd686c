//! Parameters of a request: in its path, query, headers and cookies.

use serde_json::Value;

use super::encode;
pub use super::style::ParameterStyle;
use super::style::{PairWriter, ValueForm, write_simple};
use super::values::{Source, is_flag_given, render_all, text_of};
use crate::declared::call::{Call, Failure};
use crate::declared::template::Template;

/// A parameter whose value is serialized in a style.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name in the request.
    pub name: String,
    /// Its value.
    pub source: Source,
    /// How the value is written.
    pub style: ParameterStyle,
    /// Whether the items of lists and objects are parameters of their own.
    pub explode: bool,
    /// Whether reserved characters stay as they are.
    pub allow_reserved: bool,
}

impl Parameter {
    fn form(&self) -> ValueForm {
        ValueForm { style: self.style, explode: self.explode }
    }
}

/// A part of a segment of a path.
#[derive(Clone, Debug)]
pub enum PathPart {
    /// Text in the syntax of URLs.
    Text(String),
    /// A value.
    Value(Parameter),
    /// Text that stands if the argument is given and is not `false`.
    Flag {
        /// Name of the argument.
        name: String,
        /// The text.
        text: String,
    },
}

/// One or more pairs of a query.
#[derive(Clone, Debug)]
pub(crate) enum QueryPart {
    /// Pairs in the syntax of URLs.
    Text(String),
    /// A pair for each text of the templates.
    Templates(NamedTemplates),
    /// A parameter with a style.
    Parameter(Parameter),
}

/// A parameter that has a value for each text of its templates.
#[derive(Clone, Debug)]
pub(crate) struct NamedTemplates {
    pub(crate) name: String,
    pub(crate) templates: Vec<Template>,
}

impl NamedTemplates {
    pub(super) fn write(&self, writer: &mut PairWriter<'_>, call: &Call) {
        let texts = self.templates.iter().flat_map(|template| render_all(template, call));
        texts.for_each(|text| writer.pair(&self.name, &text));
    }
}

/// Appends the path; no argument changes its number of segments.
///
/// # Errors
///
/// A value is missing or empty, or would be a relative segment for the server.
pub(super) fn write_path(
    target: &mut String,
    segments: &[Vec<PathPart>],
    call: &Call,
) -> Result<(), Failure> {
    if segments.is_empty() {
        target.push('/');
    }
    for segment in segments {
        target.push('/');
        let start = target.len();
        for part in segment {
            write_path_part(target, part, call)?;
        }
        let text = &target[start..];
        let has_value = segment.iter().any(|part| !matches!(part, PathPart::Text(_)));
        if has_value && (text.is_empty() || is_relative(text)) {
            let names = segment.iter().find_map(|part| match part {
                PathPart::Value(parameter) => Some(parameter.source.label()),
                PathPart::Flag { name, .. } => Some(format!("argument `{name}`")),
                PathPart::Text(_) => None,
            });
            let what = if text.is_empty() { "is empty" } else { "is a relative path" };
            let names = names.unwrap_or_default();
            return Err(Failure::invalid_argument(format_args!(
                "{names} {what}; it is one segment of the path of the URL"
            )));
        }
    }
    Ok(())
}

fn write_path_part(target: &mut String, part: &PathPart, call: &Call) -> Result<(), Failure> {
    let parameter = match part {
        PathPart::Text(text) => {
            encode::push_path_text(target, text);
            return Ok(());
        }
        PathPart::Flag { name, text } => {
            if is_flag_given(name, call) {
                encode::push_value(target, text);
            }
            return Ok(());
        }
        PathPart::Value(parameter) => parameter,
    };
    let label = || parameter.source.label();
    let Some(value) = parameter.source.given(call) else {
        let part = "it is part of the path of the URL";
        return Err(Failure::invalid_argument(format_args!("{} is required: {part}", label())));
    };
    // Servers may decode `%2F` before they resolve `..`.
    if text_of(&value).split(['/', '\\']).any(|piece| piece == "..") {
        let part = "it is one segment of the path of the URL";
        return Err(Failure::invalid_argument(format_args!("{} has `..`; {part}", label())));
    }
    write_simple(target, &parameter.name, &value, parameter.form(), encode::push_value);
    Ok(())
}

/// Whether a segment is `.` or `..` for the URL standard, which decodes `%2e`.
pub(crate) fn is_relative(segment: &str) -> bool {
    let decoded = segment.replace("%2e", ".").replace("%2E", ".");
    decoded == "." || decoded == ".."
}

/// Appends the query with its `?`, if it has a pair.
pub(super) fn write_query(target: &mut String, parts: &[QueryPart], call: &Call) {
    let mut writer = PairWriter::for_query(target);
    for part in parts {
        match part {
            QueryPart::Text(text) => writer.encoded(text),
            QueryPart::Templates(named) => named.write(&mut writer, call),
            QueryPart::Parameter(parameter) => {
                if let Some(value) = parameter.source.given(call) {
                    writer.allow_reserved(parameter.allow_reserved);
                    writer.value(&parameter.name, &value, parameter.form());
                    writer.allow_reserved(false);
                }
            }
        }
    }
}

/// The value of the header `Cookie`, empty without cookies.
pub(super) fn cookies(parameters: &[Parameter], call: &Call) -> String {
    let mut text = String::new();
    let mut writer = PairWriter::for_cookies(&mut text);
    for parameter in parameters {
        if let Some(value) = parameter.source.given(call) {
            writer.value(&parameter.name, &value, parameter.form());
        }
    }
    text
}

/// The text of a parameter in a header, `None` without a value.
pub(super) fn header_text(parameter: &Parameter, call: &Call) -> Option<String> {
    let value = parameter.source.given(call)?;
    if let Value::String(text) = value.as_ref()
        && parameter.style != ParameterStyle::Json
    {
        return Some(text.clone());
    }
    let mut text = String::new();
    let plain: fn(&mut String, &str) = |target, text| target.push_str(text);
    write_simple(&mut text, &parameter.name, &value, parameter.form(), plain);
    Some(text)
}

/// Appends the fields of a form.
pub(super) fn write_form(target: &mut String, fields: &[QueryPart], call: &Call) {
    let mut writer = PairWriter::for_form(target);
    for field in fields {
        match field {
            QueryPart::Text(text) => writer.encoded(text),
            QueryPart::Templates(named) => named.write(&mut writer, call),
            QueryPart::Parameter(parameter) => {
                if let Some(value) = parameter.source.given(call) {
                    writer.value(&parameter.name, &value, parameter.form());
                }
            }
        }
    }
}
