//! The declaration of an OpenAPI document, as it stands in the file.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::declared::http::{ConnectionDeclaration, RetryDeclaration, ToolSettings};
use crate::declared::limits::{CallLimits, LimitsDeclaration, Quantity};
use crate::declared::metadata::yes;
use crate::declared::problem::Problem;

/// An OpenAPI document (3.0, 3.1 or 3.2, in JSON or YAML) whose operations become tools.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenApiDeclaration {
    /// Path or URL of the document, at most 32 MiB.
    pub document: String,
    /// Whether the tools are offered. Default `true`.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Scopes that a caller must have in its token.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Limits of the calls of each tool.
    #[serde(default)]
    pub limits: LimitsDeclaration,
    /// Operations that become tools: those to which one of the filters applies. Default: all.
    #[serde(default)]
    pub include: Vec<OperationFilter>,
    /// Operations that do not become tools: those to which one of the filters applies.
    #[serde(default)]
    pub exclude: Vec<OperationFilter>,
    /// Make tools only of operations that change nothing: `GET` and `HEAD`. Default `false`.
    #[serde(default)]
    pub read_only: bool,
    /// Beginning of the names of the tools, such as `shop_`. Default: none.
    #[serde(default)]
    pub prefix: String,
    /// URL of the server, such as `https://api.example.com/v1`. Default: the first server of the
    /// document.
    pub server: Option<String>,
    /// Values of variables in the URL of the server. Default: those of the document.
    #[serde(default)]
    pub server_variables: BTreeMap<String, String>,
    /// Values for the security schemes of the document, by name. Operations that need others are
    /// skipped.
    #[serde(default)]
    pub security: BTreeMap<String, SecurityValue>,
    /// Make tools of operations for whose security there is no value, too. Default `false`.
    #[serde(default)]
    pub anonymous: bool,
    /// Headers of all requests, with `{principal}` for the name of the caller.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether tools have the output schemas of the document. Default `true`.
    pub output_schemas: Option<bool>,
    /// When requests are sent again.
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
    /// URL of a proxy, such as `http://proxy.example.com:3128`. The proxy then resolves the names
    /// of servers. Default: none; the environment is not read.
    pub proxy: Option<String>,
}

/// Time for the document, if it is at a URL.
const DOCUMENT_TIMEOUT: Duration = Duration::from_mins(1);

impl OpenApiDeclaration {
    /// What all requests have in common.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub(super) fn settings(&self, limits: CallLimits) -> Result<ToolSettings, Problem> {
        ConnectionDeclaration {
            retry: &self.retry,
            connect_timeout: self.connect_timeout.as_ref(),
            private_addresses: &self.private_addresses,
            user_agent: self.user_agent.as_deref(),
            proxy: self.proxy.as_deref(),
            root_certificates: self.root_certificates.as_deref(),
        }
        .settings(limits)
    }

    /// The settings of the request for the document.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub(super) fn document_settings(&self) -> Result<ToolSettings, Problem> {
        self.settings(CallLimits { timeout: DOCUMENT_TIMEOUT, ..CallLimits::default() })
    }
}

impl fmt::Debug for OpenApiDeclaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs, headers and security values may be secrets.
        formatter.debug_struct("OpenApiDeclaration").finish_non_exhaustive()
    }
}

/// Operations of a document: those that are as each key that is given. `*` stands for any text.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct OperationFilter {
    /// A tag of the operation.
    pub tag: Option<String>,
    /// Path, such as `/items/*`.
    pub path: Option<String>,
    /// Method, such as `GET`.
    pub method: Option<String>,
    /// `operationId`.
    pub operation: Option<String>,
}

/// The value for a security scheme.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SecurityValue {
    /// The API key, or the token of `http` `bearer`, `oauth2` or `openIdConnect`; for `http`
    /// `basic` the user name and the password with a colon between them.
    Value(String),
    /// User name and password of `http` `basic`.
    Basic(BasicCredentials),
}

/// User name and password.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicCredentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
}
