//! Requests with the arguments of a call.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::body::BodyTemplate;
use super::parameters::{
    Parameter, PathPart, QueryPart, cookies, header_text, write_path, write_query,
};
use super::values::render;
use crate::declared::call::{Call, Failure};
use crate::declared::template::Template;

/// Bytes of a URL at most; servers accept less than that.
const URL_BYTES_MAX: usize = 32 * 1024;
/// Bytes of the value of a header at most.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// A request to one origin, with places for arguments.
#[derive(Clone)]
pub struct RequestTemplate {
    pub(crate) method: Method,
    /// The origin, such as `https://api.example.com`, without a slash at its end.
    pub(crate) origin: String,
    /// The segments of the path.
    pub(crate) path: Vec<Vec<PathPart>>,
    pub(crate) query: Vec<QueryPart>,
    /// Headers that do not depend on the call.
    pub(crate) headers: HeaderMap,
    pub(crate) header_parameters: Vec<HeaderParameter>,
    pub(crate) cookies: Vec<Parameter>,
    pub(crate) body: BodyTemplate,
}

/// A header whose value depends on the call.
#[derive(Clone, Debug)]
pub(crate) struct HeaderParameter {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderContent,
}

/// The value of a header.
#[derive(Clone, Debug)]
pub(crate) enum HeaderContent {
    /// A text with arguments.
    Template(Template),
    /// A parameter with a style.
    Parameter(Parameter),
}

/// A request that is ready to be sent.
#[derive(Clone)]
pub struct PreparedRequest {
    /// Its method.
    pub method: Method,
    /// Its URL.
    pub url: Url,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Option<Bytes>,
}

impl RequestTemplate {
    /// A request without path, headers and body.
    pub(crate) fn new(method: Method, origin: String) -> Self {
        Self {
            method,
            origin,
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            header_parameters: Vec::new(),
            cookies: Vec::new(),
            body: BodyTemplate::None,
        }
    }

    /// Builds the request of a call.
    ///
    /// # Errors
    ///
    /// An argument is missing or cannot stand in its place.
    pub fn build(&self, call: &Call) -> Result<PreparedRequest, Failure> {
        let url = self.build_url(call)?;
        let mut headers = self.headers.clone();
        for HeaderParameter { name, value } in &self.header_parameters {
            let text = match value {
                HeaderContent::Template(template) => render(template, call),
                HeaderContent::Parameter(parameter) => header_text(parameter, call),
            };
            if let Some(text) = text {
                headers.insert(name, header_value(name, &text)?);
            }
        }
        let cookies = cookies(&self.cookies, call);
        if !cookies.is_empty() {
            headers.insert(COOKIE, header_value(&COOKIE, &cookies)?);
        }
        let body = self.body.build(call)?;
        if let Some(body) = &body
            && !headers.contains_key(CONTENT_TYPE)
        {
            headers.insert(CONTENT_TYPE, header_value(&CONTENT_TYPE, &body.content_type)?);
        }
        let body = body.map(|body| body.bytes);
        Ok(PreparedRequest { method: self.method.clone(), url, headers, body })
    }

    fn build_url(&self, call: &Call) -> Result<Url, Failure> {
        let mut text = String::with_capacity(128);
        text.push_str(&self.origin);
        write_path(&mut text, &self.path, call)?;
        let path_end = text.len();
        write_query(&mut text, &self.query, call);
        if text.len() > URL_BYTES_MAX {
            return Err(Failure::invalid_argument(format_args!(
                "the arguments make a URL of {} bytes; at most {URL_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let url = Url::parse(&text)
            .map_err(|error| Failure::invalid_argument(format_args!("invalid URL: {error}")))?;
        // The parser has changed nothing: no segment was taken for a relative one.
        if url.path() != &text[self.origin.len()..path_end] || url.fragment().is_some() {
            let reason = "an argument in the path of the URL changes the path";
            return Err(Failure::invalid_argument(reason));
        }
        Ok(url)
    }
}

fn header_value(name: &HeaderName, text: &str) -> Result<HeaderValue, Failure> {
    let refuse = |reason: &str| Failure::invalid_argument(format_args!("header {name}: {reason}"));
    if text.len() > HEADER_BYTES_MAX {
        let reason = format!("{} bytes; at most {HEADER_BYTES_MAX} are allowed", text.len());
        return Err(refuse(&reason));
    }
    let mut value = HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| refuse("an argument has a line feed or a control character"))?;
    value.set_sensitive(true);
    Ok(value)
}
