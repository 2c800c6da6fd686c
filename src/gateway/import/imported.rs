//! What is imported from a file of another client.

use std::fmt;
use std::path::PathBuf;

use crate::declared::Fault;

/// A server of another client.
#[derive(Clone, Eq, PartialEq)]
pub struct ImportedUpstream {
    /// The name: 1 to 32 characters of `[a-z0-9-]`, unique in the file.
    pub name: String,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// Variables of the program, with those of `envFile`; each name once.
    pub env: Vec<(String, String)>,
    /// The working directory; a relative one is taken from the folder of `${workspaceFolder}`.
    pub cwd: Option<PathBuf>,
    /// The URL, if there is no command.
    pub url: Option<String>,
    /// Whether the URL is that of an event stream of 2024-11-05 (`"type": "sse"`).
    pub is_sse: bool,
    /// Header fields of each request.
    pub headers: Vec<(String, String)>,
    /// Whether the server is not `disabled`.
    pub is_enabled: bool,
}

/// What a file of another client holds.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The servers that can be used, in the order of the file.
    pub upstreams: Vec<ImportedUpstream>,
    /// Keys that have no effect.
    pub warnings: Vec<Fault>,
    /// Why servers are left out; one fault without a server if the file cannot be read at all.
    pub faults: Vec<Fault>,
}

impl fmt::Debug for ImportedUpstream {
    /// Without the values of variables and header fields, arguments, and user and query of the URL:
    /// each may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|pair| pair.0.clone()).collect()
        };
        let url = self.url.as_deref().map(|url| {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            let authority_end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        });
        formatter
            .debug_struct("ImportedUpstream")
            .field("name", &self.name)
            .field("program", &self.command.as_ref().and_then(|command| command.first()))
            .field("arguments", &self.command.as_ref().map(|it| it.len().saturating_sub(1)))
            .field("env", &names(&self.env))
            .field("cwd", &self.cwd)
            .field("url", &url)
            .field("is_sse", &self.is_sse)
            .field("headers", &names(&self.headers))
            .field("is_enabled", &self.is_enabled)
            .finish()
    }
}
