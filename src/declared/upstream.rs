//! `[[upstream]]`: a server behind this one, whose tools, resources and prompts this one offers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::declared::limits::Quantity;
use crate::declared::metadata::yes;

/// A server whose tools, resources and prompts are offered: a program, or an address.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamDeclaration {
    /// Its name: 1 to 32 characters of `a-z 0-9 -`, unique. It is the prefix of names that
    /// collide.
    pub name: String,
    /// The program and its arguments.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// The address, as `corelane call` has it: `https://…`, `wss://…`, `tcp://…`, `unix:…`.
    #[serde(default)]
    pub url: Option<String>,
    /// Working directory of the program. Default: the folder of the file.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Environment variables of the program, besides `HOME`, `LANG`, `LOGNAME`, `PATH`, `SHELL`,
    /// `TERM`, `TMPDIR` and `USER`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables that the program inherits besides.
    #[serde(default)]
    pub env_pass: Vec<String>,
    /// Headers of each HTTP request, such as `Authorization = "Bearer ${TOKEN}"`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Headers of callers that its HTTP requests have, too, by their names. The token of a caller
    /// is never passed on.
    #[serde(default)]
    pub headers_pass: Vec<String>,
    /// How the gateway gets access tokens for the upstream.
    #[serde(default)]
    pub oauth: Option<OAuthDeclaration>,
    /// Revision of MCP to speak: `auto` (2026-07-28, else what it answers to `initialize`),
    /// `modern` (only 2026-07-28), or a revision such as `2025-11-25`, without `server/discover`.
    /// Default `auto`.
    #[serde(default)]
    pub era: Option<String>,
    /// Who shares a program, or a session of an address. Default `auto`.
    #[serde(default)]
    pub share: Share,
    /// Whether calls of clients that can only be asked for roots get a program of their own where
    /// several callers share one. Default `false`: such requests get an error.
    #[serde(default)]
    pub roots: bool,
    /// Programs or sessions at once. Default 64.
    #[serde(default)]
    pub max_children: Option<u32>,
    /// Time from the start of a program to the end of its handshake. Default `30s`.
    #[serde(default)]
    pub init_timeout: Option<Quantity>,
    /// Time of a call, which begins anew with each progress notification. Default `60s`.
    #[serde(default)]
    pub call_timeout: Option<Quantity>,
    /// Time of a call in all. Default `10min`.
    #[serde(default)]
    pub call_max: Option<Quantity>,
    /// Time without a call after which a program is ended, or a connection closed. Default `10min`.
    #[serde(default)]
    pub idle_stop: Option<Quantity>,
    /// Calls of a program that all callers share. The next one starts another, and it ends when its
    /// calls in flight have ended. Default: no limit.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// Age of a program that all callers share. The next call after it starts another. Default: no
    /// limit.
    #[serde(default)]
    pub max_age: Option<Quantity>,
    /// File with its lists, which `corelane gateway manifest` writes. They are offered before the
    /// first call starts it.
    #[serde(default)]
    pub manifest: Option<PathBuf>,
    /// Tools, prompts and resources to offer, by patterns of their names or URIs, where `*` stands
    /// for any text. Default: all.
    #[serde(default)]
    pub only: Vec<String>,
    /// Tools, prompts and resources to leave out, by patterns of their names or URIs.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Tools that are listed where `gateway.expose` is `search`, by patterns of their names.
    #[serde(default)]
    pub pinned: Vec<String>,
    /// Other names of tools and prompts: `name = "new_name"`.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// Other descriptions of tools: `name = "What it does."`.
    #[serde(default)]
    pub describe: BTreeMap<String, String>,
    /// What happens to tools whose definitions have changed, with the option `gateway.pins`.
    /// Default `warn`.
    #[serde(default)]
    pub on_change: Option<OnChange>,
    /// Scopes that callers of its tools must have. Others do not see the tools.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Whether it is used. Default `true`.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl UpstreamDeclaration {
    /// A declaration with nothing but a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            command: None,
            url: None,
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            headers: BTreeMap::new(),
            headers_pass: Vec::new(),
            oauth: None,
            era: None,
            share: Share::Auto,
            roots: false,
            max_children: None,
            init_timeout: None,
            call_timeout: None,
            call_max: None,
            idle_stop: None,
            max_calls: None,
            max_age: None,
            manifest: None,
            only: Vec::new(),
            hide: Vec::new(),
            pinned: Vec::new(),
            rename: BTreeMap::new(),
            describe: BTreeMap::new(),
            on_change: None,
            scopes: Vec::new(),
            enabled: true,
        }
    }
}

/// How access tokens for an upstream are obtained (OAuth): for the client itself, with `client_id`
/// and `client_secret` or `private_key`, or by an earlier login.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthDeclaration {
    /// Client id at the authorization server.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Secret of the client, such as `"${file:/run/secrets/crm}"`. It needs `issuer`.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// Private key of the client in PEM (`private_key_jwt`), in place of a secret.
    #[serde(default)]
    pub private_key: Option<String>,
    /// How the key signs: `ES256`, `ES384`, `RS256`, `PS256` or `EdDSA`. Default `ES256`.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// The only authorization server that may be used: its issuer, exactly. Default: the one that
    /// the upstream names.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Scopes to ask for, separated by spaces. Default: those that the upstream names.
    #[serde(default)]
    pub scope: Option<String>,
    /// Uses the login that `corelane call URL --login` has stored, and refreshes it.
    #[serde(default)]
    pub login: bool,
}

/// Who shares a program, or a session of an address.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// All callers share a server of 2026-07-28, which has no state between requests; an older
    /// one is started for each session.
    #[default]
    Auto,
    /// All callers share it. What it remembers of one caller, others may see.
    All,
    /// Each principal has its own; callers without a token are one principal.
    Principal,
    /// Each session has its own. A request of 2026-07-28 has no session: its principal counts.
    Session,
}

/// What happens to tools whose definitions differ from those that were accepted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// The log has a warning, and the new definition is accepted.
    #[default]
    Warn,
    /// They are left out until an operator approves them, new ones too.
    Hide,
}

/// The debug format omits values that may be secret.
impl std::fmt::Debug for UpstreamDeclaration {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UpstreamDeclaration")
            .field("name", &self.name)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}
