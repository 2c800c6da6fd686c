//! What the server is, found out before the run: its protocol version.
//!
//! One connection of its own, with blocking calls, which is closed before the run.

mod byte_stream;
mod request_error;

mod peer;

mod negotiation;

use self::negotiation::negotiate;
use self::peer::Peer;
pub use self::request_error::RequestError;
use crate::generator::RunConfig;
use crate::mcp::HttpField;
use crate::plan::Plan;

/// Why a server cannot be measured.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DiscoveryError {
    /// No connection.
    #[error("{0}")]
    Unreachable(RequestError),
    /// The server requires credentials.
    #[error(
        "{0}; pass credentials with --bearer-file, --header or the variable CORELANE_LOAD_BEARER"
    )]
    Unauthorized(RequestError),
    /// Neither era is spoken.
    #[error(
        "no MCP server answers here: server/discover: {discover}; initialize: {initialize}; correct \
         the address, or name the version with --era"
    )]
    NotMcp {
        /// Answer to `server/discover`.
        discover: String,
        /// Answer to `initialize`.
        initialize: RequestError,
    },
    /// The handshake of the chosen version failed.
    #[error("initialize: {0}; choose another version with --era")]
    Initialize(RequestError),
    /// The program of a stdio target ended.
    #[error("the program did not come up: {0}; correct the command")]
    Program(String),
    /// Only versions that this program does not know.
    #[error("the server supports only MCP {0}, which this program does not speak")]
    UnknownVersion(String),
}

/// A plan that is complete, and what was chosen for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// The plan with its protocol version.
    pub plan: Plan,
    /// What was chosen, a line each.
    pub notes: Vec<String>,
}

/// Completes `plan`, whose run has this configuration.
///
/// # Errors
///
/// If the server does not answer, or speaks no known version.
pub fn discover(plan: &Plan, config: &RunConfig) -> Result<Discovery, DiscoveryError> {
    let mut peer = Peer::new(config);
    let mut plan = plan.clone();
    let mut notes = Vec::new();
    if plan.era.is_some() {
        return Ok(Discovery { plan, notes });
    }
    let negotiated = negotiate(&mut peer, plan.era).map_err(|error| match error {
        DiscoveryError::NotMcp { initialize: RequestError::Closed(why), .. }
            if config.endpoint.program().is_some() =>
        {
            DiscoveryError::Program(why)
        }
        error => error,
    })?;
    peer.close();
    plan.era = Some(negotiated.era);
    let version = negotiated.era.mcp_version();
    notes.push(match negotiated.reason {
        Some(reason) => format!("MCP {version}, since server/discover was answered by: {reason}"),
        None => format!("MCP {version}"),
    });
    let fields = &config.request_settings.fields;
    let redact =
        |note: String| fields.iter().fold(note, |note, field| HttpField::redact(field, note));
    Ok(Discovery { plan, notes: notes.into_iter().map(redact).collect() })
}
