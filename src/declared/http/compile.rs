//! Declarations as request templates.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use super::body::{BodyTemplate, FormFields, JsonTemplate, MultipartPart, PartContent};
use super::declaration::{HttpDeclaration, PartDeclaration, PartTable, TextTemplates};
use super::parameters::{
    NamedTemplates, Parameter, ParameterStyle, PathPart, QueryPart, is_relative,
};
use super::request::{HeaderContent, HeaderParameter, RequestTemplate};
use super::values::Source;
use crate::declared::problem::Problem;
use crate::declared::template::{PRINCIPAL, Part, Template};

/// Headers that the client writes.
const OWN_HEADERS: [&str; 13] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
];

/// Collects the problems of a declaration.
#[derive(Default)]
struct Compiler {
    problems: Vec<Problem>,
    names: BTreeSet<String>,
}

/// A request template, and the arguments that it names.
pub(super) struct Compiled {
    pub(super) request: RequestTemplate,
    pub(super) names: BTreeSet<String>,
}

/// Compiles the request of `declaration`.
///
/// # Errors
///
/// All problems of the URL, the query, the headers and the body.
pub(super) fn compile(declaration: &HttpDeclaration) -> Result<Compiled, Vec<Problem>> {
    let mut compiler = Compiler::default();
    let mut url = compiler.url(&declaration.url).unwrap_or_default();
    for (name, texts) in &declaration.query {
        let templates = compiler.templates(&format!("query.{name}"), texts);
        url.query.push(QueryPart::Templates(NamedTemplates { name: name.clone(), templates }));
    }
    let body = compiler.body(declaration);
    let method = compiler.method(declaration.method.as_deref(), &body);
    let mut headers = HeaderMap::new();
    let mut header_parameters = Vec::new();
    for (name, value) in &declaration.headers {
        compiler.header(&mut headers, &mut header_parameters, name, value);
    }
    if compiler.problems.is_empty() {
        let UrlTemplate { origin, path, query } = url;
        let cookies = Vec::new();
        let request = RequestTemplate {
            method,
            origin,
            path,
            query,
            headers,
            header_parameters,
            cookies,
            body,
        };
        let mut names = compiler.names;
        names.remove(PRINCIPAL);
        return Ok(Compiled { request, names });
    }
    Err(compiler.problems)
}

/// A request with `GET` for a URL without placeholders.
///
/// # Errors
///
/// The URL is invalid.
pub(super) fn fixed_request(url: &str) -> Result<RequestTemplate, Vec<Problem>> {
    let mut compiler = Compiler::default();
    let url = compiler.url(&doubled(url)).unwrap_or_default();
    if !compiler.problems.is_empty() {
        return Err(compiler.problems);
    }
    let mut request = RequestTemplate::new(Method::GET, url.origin);
    (request.path, request.query) = (url.path, url.query);
    Ok(request)
}

/// Headers of a declaration.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledHeaders {
    pub(crate) fixed: HeaderMap,
    pub(crate) parameters: Vec<HeaderParameter>,
}

impl CompiledHeaders {
    /// The problems of headers that cannot depend on arguments.
    pub(crate) fn check_names(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for HeaderParameter { name, value } in &self.parameters {
            let HeaderContent::Template(template) = value else {
                continue;
            };
            for argument in template.names().filter(|name| *name != PRINCIPAL) {
                let message = format!("has the placeholder {{{argument}}}");
                let hint = "use {principal}, or no placeholder; write {{ and }} for braces";
                problems.push(Problem::new(format!("headers.{name}"), message, hint));
            }
        }
        problems
    }
}

/// Compiles headers.
///
/// # Errors
///
/// Names or values are invalid.
pub(crate) fn compile_headers(
    headers: &BTreeMap<String, String>,
) -> Result<CompiledHeaders, Vec<Problem>> {
    let mut compiler = Compiler::default();
    let mut compiled = CompiledHeaders::default();
    for (name, value) in headers {
        compiler.header(&mut compiled.fixed, &mut compiled.parameters, name, value);
    }
    if compiler.problems.is_empty() { Ok(compiled) } else { Err(compiler.problems) }
}

/// Whether the client writes the header itself.
pub(crate) fn is_own_header(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The parts of a URL.
#[derive(Default)]
struct UrlTemplate {
    origin: String,
    path: Vec<Vec<PathPart>>,
    query: Vec<QueryPart>,
}

impl Compiler {
    fn add(&mut self, key: &str, message: impl Into<String>, hint: &str) {
        self.problems.push(Problem::new(key, message, hint));
    }

    fn template(&mut self, key: &str, text: &str) -> Template {
        match Template::parse(key, text) {
            Ok(template) => {
                self.names.extend(template.names().map(str::to_owned));
                template
            }
            Err(problem) => {
                // The text may have secrets.
                let message = problem.message.split(" in \"").next().unwrap_or_default();
                self.add(key, message, &problem.hint);
                Template::default()
            }
        }
    }

    fn templates(&mut self, key: &str, texts: &TextTemplates) -> Vec<Template> {
        texts.texts().iter().map(|text| self.template(key, text)).collect()
    }

    fn method(&mut self, method: Option<&str>, body: &BodyTemplate) -> Method {
        let has_body = !matches!(body, BodyTemplate::None);
        let Some(text) = method else {
            return if has_body { Method::POST } else { Method::GET };
        };
        let known = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];
        let upper = text.to_ascii_uppercase();
        let method = known.contains(&upper.as_str()).then(|| Method::from_bytes(upper.as_bytes()));
        let Some(Ok(method)) = method else {
            self.add(
                "method",
                format!("is {text:?}"),
                &format!("write one of {}", known.join(", ")),
            );
            return Method::GET;
        };
        if has_body && matches!(method, Method::GET | Method::HEAD | Method::OPTIONS) {
            self.add("method", format!("{method} has no body"), "write POST, PUT or PATCH");
        }
        method
    }

    fn url(&mut self, text: &str) -> Option<UrlTemplate> {
        let template = self.template("url", text);
        match split_base(&template).and_then(|base| split_url(&base)) {
            Ok(url) => Some(url),
            Err(UrlFault { message, hint }) => {
                if self.problems.is_empty() {
                    self.add("url", message, hint);
                }
                None
            }
        }
    }

    fn header(
        &mut self,
        headers: &mut HeaderMap,
        parameters: &mut Vec<HeaderParameter>,
        name: &str,
        value: &str,
    ) {
        let key = format!("headers.{name}");
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            return self.add(&key, "is not the name of a header", "write such as \"X-Api-Key\"");
        };
        if OWN_HEADERS.contains(&header.as_str()) {
            return self.add(&key, "is written by the client", "leave it out");
        }
        let template = self.template(&key, value);
        let Some(text) = template.as_text() else {
            let value = HeaderContent::Template(template);
            return parameters.push(HeaderParameter { name: header, value });
        };
        match HeaderValue::from_bytes(text.trim().as_bytes()) {
            Ok(mut value) => {
                value.set_sensitive(header != CONTENT_TYPE);
                headers.insert(header, value);
            }
            Err(_) => self.add(&key, "has a line feed or a control character", "remove it"),
        }
    }

    fn body(&mut self, declaration: &HttpDeclaration) -> BodyTemplate {
        let HttpDeclaration { body, form, multipart, text, .. } = declaration;
        let given = [
            body.is_some().then_some("body"),
            form.is_some().then_some("form"),
            multipart.is_some().then_some("multipart"),
            text.is_some().then_some("text"),
        ];
        let given: Vec<&str> = given.into_iter().flatten().collect();
        if let [_, second, ..] = given.as_slice() {
            let message = format!("{} are given at once", given.join(", "));
            self.add(second, message, "a request has one body: keep one of them");
        }
        if let Some(value) = body {
            return self.json_body(value);
        }
        if let Some(fields) = form {
            let fields = fields.iter().map(|(name, texts)| {
                let templates = self.templates(&format!("form.{name}"), texts);
                QueryPart::Templates(NamedTemplates { name: name.clone(), templates })
            });
            return BodyTemplate::Form(FormFields(fields.collect()));
        }
        if let Some(parts) = multipart {
            return self.multipart(parts);
        }
        match text {
            Some(text) => BodyTemplate::Text(self.template("text", text)),
            None => BodyTemplate::None,
        }
    }

    fn json_body(&mut self, value: &Value) -> BodyTemplate {
        match JsonTemplate::parse("body", value) {
            Ok(template) => {
                self.names.extend(template.names());
                let content_type = "application/json".to_owned();
                BodyTemplate::Json { template, content_type, is_optional: false }
            }
            Err(problem) => {
                let message = problem.message.split(" in \"").next().unwrap_or_default();
                self.add(&problem.key, message, &problem.hint);
                BodyTemplate::None
            }
        }
    }

    fn multipart(&mut self, parts: &BTreeMap<String, PartDeclaration>) -> BodyTemplate {
        let mut built = Vec::new();
        for (name, declaration) in parts {
            let key = format!("multipart.{name}");
            let table = match declaration {
                PartDeclaration::Table(table) => table.clone(),
                PartDeclaration::Text(text) => PartTable {
                    value: text.clone(),
                    filename: None,
                    content_type: None,
                    base64: false,
                },
            };
            let PartTable { value, filename, content_type, base64 } = table;
            let content = PartContent::Template(self.template(&key, &value));
            let filename = filename.map(|text| self.template(&format!("{key}.filename"), &text));
            if content_type.as_ref().is_some_and(|text| HeaderValue::from_str(text).is_err()) {
                let key = format!("{key}.content_type");
                self.add(&key, "is not a media type", "write such as \"image/png\"");
            }
            let name = name.clone();
            built.push(MultipartPart { name, content, filename, content_type, is_base64: base64 });
        }
        BodyTemplate::Multipart(built)
    }
}

/// A URL split before its path.
struct SplitBase {
    origin: String,
    rest: Vec<Part>,
}

const URL_HINT: &str = "write such as \"https://api.example.com/items/{id}\"";

/// Splits a URL before its path. Scheme and authority have no placeholder.
fn split_base(template: &Template) -> Result<SplitBase, UrlFault> {
    let fault = || UrlFault {
        message: "has no fixed scheme and host with a `/` behind them".to_owned(),
        hint: URL_HINT,
    };
    let (first, others) = template.parts().split_first().ok_or_else(fault)?;
    let Part::Text(first) = first else {
        return Err(fault());
    };
    let authority = first.find("://").map(|index| index + 3).ok_or_else(fault)?;
    let end = first[authority..].find(['/', '?', '#']).map(|index| authority + index);
    if end.is_none() && !others.is_empty() {
        return Err(fault());
    }
    let (base, path) = first.split_at(end.unwrap_or(first.len()));
    let origin = parse_origin(base).map_err(|message| UrlFault { message, hint: URL_HINT })?;
    let mut rest = vec![Part::Text(path.to_owned())];
    rest.extend(others.iter().cloned());
    Ok(SplitBase { origin, rest })
}

/// Checks scheme and authority, and returns the origin.
pub(crate) fn parse_origin(base: &str) -> Result<String, String> {
    let url = Url::parse(base).map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("has the scheme {:?}, not http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has credentials; they stand in headers.Authorization".to_owned());
    }
    if base.contains(['\\', '\t', '\n', '\r']) || url.path() != "/" {
        return Err("has a character that no host has".to_owned());
    }
    Ok(url.origin().ascii_serialization())
}

/// What is wrong with the path or the query of a URL.
struct UrlFault {
    message: String,
    hint: &'static str,
}

/// Splits what follows the authority into segments and pairs.
fn split_url(base: &SplitBase) -> Result<UrlTemplate, UrlFault> {
    let parts = &base.rest;
    let mut path: Vec<Vec<PathPart>> = Vec::new();
    let mut query: Option<Vec<Part>> = None;
    for part in parts {
        if let Some(query) = &mut query {
            query.push(part.clone());
            continue;
        }
        let Part::Text(text) = part else {
            path.last_mut().into_iter().for_each(|segment| segment.push(path_part(part)));
            continue;
        };
        let (text, after) = match text.split_once('?') {
            Some((text, after)) => (text, Some(after)),
            None => (text.as_str(), None),
        };
        push_path_text(&mut path, text);
        query = after.map(|after| vec![Part::Text(after.to_owned())]);
    }
    let has_fragment = |part: &Part| matches!(part, Part::Text(text) if text.contains('#'));
    if parts.iter().any(has_fragment) {
        let message = "has a fragment".to_owned();
        return Err(UrlFault { message, hint: "remove `#` and what follows it" });
    }
    let relative = path
        .iter()
        .any(|segment| matches!(segment.as_slice(), [PathPart::Text(text)] if is_relative(text)));
    if relative {
        let message = "has a relative segment".to_owned();
        return Err(UrlFault { message, hint: "remove `.` and `..` from the path" });
    }
    let query = split_query(&query.unwrap_or_default())?;
    Ok(UrlTemplate { origin: base.origin.clone(), path, query })
}

fn path_part(part: &Part) -> PathPart {
    match part {
        Part::Text(text) => PathPart::Text(text.clone()),
        Part::Flag { name, text } => PathPart::Flag { name: name.clone(), text: text.clone() },
        Part::Argument(name) => PathPart::Value(Parameter {
            name: name.clone(),
            source: Source::named(name),
            style: ParameterStyle::Simple,
            explode: false,
            allow_reserved: false,
        }),
    }
}

/// Adds text of the path, in which each `/` begins a segment.
pub(crate) fn push_path_text(path: &mut Vec<Vec<PathPart>>, text: &str) {
    for (index, piece) in text.split('/').enumerate() {
        if index > 0 {
            path.push(Vec::new());
        }
        if !piece.is_empty()
            && let Some(segment) = path.last_mut()
        {
            segment.push(PathPart::Text(piece.to_owned()));
        }
    }
}

/// Splits a query at `&`.
fn split_query(parts: &[Part]) -> Result<Vec<QueryPart>, UrlFault> {
    let mut pairs: Vec<Vec<Part>> = vec![Vec::new()];
    for part in parts {
        let Part::Text(text) = part else {
            pairs.last_mut().into_iter().for_each(|pair| pair.push(part.clone()));
            continue;
        };
        for (index, piece) in text.split('&').enumerate() {
            if index > 0 {
                pairs.push(Vec::new());
            }
            if !piece.is_empty() {
                let piece = Part::Text(piece.to_owned());
                pairs.last_mut().into_iter().for_each(|pair| pair.push(piece.clone()));
            }
        }
    }
    pairs.iter().filter(|pair| !pair.is_empty()).map(|pair| query_part(pair)).collect()
}

fn query_part(pair: &[Part]) -> Result<QueryPart, UrlFault> {
    if let [Part::Text(text)] = pair {
        return Ok(QueryPart::Text(text.clone()));
    }
    let fault = || UrlFault {
        message: "has a placeholder in the name of a parameter of the query".to_owned(),
        hint: "write such as \"?name={value}\", or use `query`",
    };
    let (first, rest) = pair.split_first().ok_or_else(fault)?;
    let Part::Text(first) = first else {
        return Err(fault());
    };
    let (name, start) = first.split_once('=').ok_or_else(fault)?;
    let mut text = doubled(&decode(start));
    for part in rest {
        let piece = match part {
            Part::Text(piece) => doubled(&decode(piece)),
            Part::Argument(name) => format!("{{{name}}}"),
            Part::Flag { name, text: flag } => format!("{{?{name}:{flag}}}"),
        };
        text.push_str(&piece);
    }
    let template = Template::parse("url", &text).map_err(|_| fault())?;
    Ok(QueryPart::Templates(NamedTemplates { name: decode(name), templates: vec![template] }))
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn doubled(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
