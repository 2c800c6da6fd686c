//! The declaration of an HTTP request, as it stands in the file.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::declared::limits::Quantity;

/// A request to an HTTP server. `{name}` stands for an argument of the call, `{principal}` for the
/// name of the caller; what depends on an argument that a call does not have is left out.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpDeclaration {
    /// Method of the request. Default: `POST` with a body, `GET` without.
    pub method: Option<String>,
    /// URL, such as `https://api.example.com/items/{id}`. Placeholders stand in the path and in
    /// values of the query. In the path each must have a value, which is encoded so that it stays
    /// in its segment.
    pub url: String,
    /// Parameters of the query. A list as the value repeats the parameter.
    #[serde(default)]
    pub query: BTreeMap<String, TextTemplates>,
    /// Headers. Line feeds and control characters in values are refused.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body in JSON. A string that is one placeholder, such as `"{count}"`, becomes the argument
    /// with its type.
    pub body: Option<Value>,
    /// Body as `application/x-www-form-urlencoded`. A list as the value repeats the field.
    pub form: Option<BTreeMap<String, TextTemplates>>,
    /// Body as `multipart/form-data`.
    pub multipart: Option<BTreeMap<String, PartDeclaration>>,
    /// Body as text: `text/plain`, unless `headers` has a `Content-Type`.
    pub text: Option<String>,
    /// Part of the JSON response that is the result, as a JSON Pointer such as `/data/name`.
    /// Default: the whole response.
    pub result: Option<String>,
    /// What the response must be. Default: what its `Content-Type` says, JSON with `result` or
    /// `pages`.
    pub format: Option<ResultFormat>,
    /// Further pages of the result.
    pub pages: Option<PagesDeclaration>,
    /// When the request is sent again.
    #[serde(default)]
    pub retry: RetryDeclaration,
    /// Time for a connection, in milliseconds or such as `5s`. Default `10s`.
    pub connect_timeout: Option<Quantity>,
    /// Private, loopback and link-local addresses that may be connected to: networks such as
    /// `10.1.0.0/16`, addresses, and names of hosts. Default: none.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// Root certificates in PEM that are trusted beside those of the system, such as
    /// `${file:/etc/ssl/company.pem}`. Default: none.
    pub root_certificates: Option<String>,
    /// Value of the header `User-Agent`. Default `corelane/` and its version.
    pub user_agent: Option<String>,
    /// URL of a proxy, such as `http://proxy.example.com:3128`. The proxy then resolves the name of
    /// the server. Default: none; the environment is not read.
    pub proxy: Option<String>,
}

impl fmt::Debug for HttpDeclaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URL, query, headers and body may have secrets.
        formatter
            .debug_struct("HttpDeclaration")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// One text or several, each with placeholders.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TextTemplates {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text.
    One(String),
    /// Several texts.
    Several(Vec<String>),
}

impl TextTemplates {
    /// The texts.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Bool(value) => vec![value.to_string()],
            Self::Integer(value) => vec![value.to_string()],
            Self::Number(value) => vec![value.to_string()],
            Self::One(text) => vec![text.clone()],
            Self::Several(texts) => texts.clone(),
        }
    }
}

/// A part of a body in `multipart/form-data`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PartDeclaration {
    /// Text with placeholders.
    Text(String),
    /// A part with more than its text.
    Table(PartTable),
}

/// A part of a body in `multipart/form-data` with its file name and media type.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartTable {
    /// Content, with placeholders.
    pub value: String,
    /// Name of the file, with placeholders.
    pub filename: Option<String>,
    /// Media type. Default: none; `application/octet-stream` with `base64`.
    pub content_type: Option<String>,
    /// Whether `value` is base64 of the content. Default `false`.
    #[serde(default)]
    pub base64: bool,
}

/// What a response must be.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// JSON.
    Json,
    /// Text of any kind.
    Text,
    /// Bytes of the media type that the response has.
    Media,
}

/// Pages of a result. One of `next` and `link` says where the next page is. The result is an object
/// with `items`, those of all pages, and `complete`, `false` if there are more pages than `max`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct PagesDeclaration {
    /// JSON Pointer to the URL of the next page, or with `parameter` to its token.
    pub next: Option<String>,
    /// Parameter of the query that takes the token at `next`.
    pub parameter: Option<String>,
    /// Whether the header `Link` has the URL of the next page with `rel="next"`. Default `false`.
    pub link: bool,
    /// Pages at most. Default 10.
    pub max: Option<u32>,
}

/// When a request is sent again: after a failed connection and after the statuses 429 and 503, for
/// `GET`, `HEAD` and `OPTIONS`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct RetryDeclaration {
    /// Requests at most, the first included. Default 3.
    pub attempts: Option<u32>,
    /// Longest wait before one request, in milliseconds or such as `10s`; a server that asks for
    /// more with `Retry-After` is not asked again. Default `10s`.
    pub wait: Option<Quantity>,
    /// Send `PUT` and `DELETE` again, too. Default `false`.
    pub idempotent: bool,
}
