//! What the server is, found out before the run: its protocol version and its tools.
//!
//! One connection of its own, with blocking calls, which is closed before the run.

mod arguments;
mod byte_stream;
mod request_error;

mod peer;

mod negotiation;
mod tools;

mod calls;

use self::calls::complete_calls;
use self::negotiation::negotiate;
use self::peer::Peer;
pub use self::request_error::RequestError;
use self::tools::list_tools;
use crate::generator::{LoadMode, RunConfig};
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
        "no MCP server answers here: server/discover: {discover}; initialize: {initialize}; \
         correct the address, or name the version with --era"
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
    /// No list of tools.
    #[error("tools/list: {0}; name a tool with --tool and --arguments")]
    Tools(RequestError),
    /// The tool of the plan is not offered.
    #[error("the server has no tool '{name}'; it has {tools}")]
    UnknownTool {
        /// The tool of the plan.
        name: String,
        /// The tools of the server.
        tools: String,
    },
    /// The arguments of a tool cannot be made from its schema.
    #[error("the tool {name} needs arguments ({why}): pass --arguments JSON or --arguments @FILE")]
    Arguments {
        /// The tool.
        name: String,
        /// What cannot be made.
        why: String,
    },
    /// No tool can be called without further information.
    #[error(
        "no tool is chosen by itself: name one with --tool NAME --arguments JSON; the server has \
         {tools}"
    )]
    NoTool {
        /// The tools of the server, with the reason for each.
        tools: String,
    },
    /// Only versions that this program does not know.
    #[error("the server supports only MCP {0}, which this program does not speak")]
    UnknownVersion(String),
}

/// What an error tells about a server that may be starting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Connections are refused, or closed without an answer.
    Absent,
    /// Connections open, but nothing is answered.
    Silent,
    /// The server answers, or will not do so later.
    Final,
}

impl DiscoveryError {
    /// Returns whether the server may be starting.
    pub const fn readiness(&self) -> Readiness {
        let (Self::Unreachable(error)
        | Self::NotMcp { initialize: error, .. }
        | Self::Initialize(error)
        | Self::Tools(error)) = self
        else {
            return Readiness::Final;
        };
        match error {
            RequestError::Refused(_) | RequestError::Closed(_) => Readiness::Absent,
            RequestError::Timeout(_) => Readiness::Silent,
            _ => Readiness::Final,
        }
    }
}

/// A plan that is complete, and what was chosen for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// The plan with its protocol version and its calls.
    pub plan: Plan,
    /// What was chosen, a line each.
    pub notes: Vec<String>,
}

/// Completes `plan`, whose run has this configuration.
///
/// # Errors
///
/// If the server does not answer, speaks no known version, or offers no tool that can be called.
pub fn discover(plan: &Plan, config: &RunConfig) -> Result<Discovery, DiscoveryError> {
    let mut peer = Peer::new(config);
    let mut plan = plan.clone();
    let sends_requests = !matches!(config.mode, LoadMode::Hold { .. });
    let tools = if sends_requests { Necessity::of_tools(&plan) } else { Necessity::Useless };
    let mut notes = Vec::new();
    if plan.era.is_none() || tools != Necessity::Useless {
        let found = discover_with(&mut peer, &mut plan, tools, &mut notes);
        match found {
            Err(DiscoveryError::NotMcp { initialize: RequestError::Closed(why), .. })
                if config.endpoint.program().is_some() =>
            {
                return Err(DiscoveryError::Program(why));
            }
            // What is missing is only the output schemas.
            Err(error)
                if plan.era.is_some()
                    && tools == Necessity::Useful
                    && !matches!(error, DiscoveryError::Unreachable(_)) =>
            {
                notes.push(format!("results are not checked against output schemas: {error}"));
            }
            found => found?,
        }
    } else if config.endpoint.program().is_none()
        && let Err(error) = peer.connect()
        && error.is_unopened()
    {
        return Err(DiscoveryError::Unreachable(error));
    }
    peer.close();
    let fields = &config.request_settings.fields;
    let redact = |note| HttpField::redact_all(fields, note);
    Ok(Discovery { plan, notes: notes.into_iter().map(redact).collect() })
}

/// Whether the list of tools is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Necessity {
    /// No tool is called.
    Useless,
    /// For the output schemas.
    Useful,
    /// For a tool or its arguments.
    Required,
}

impl Necessity {
    fn of_tools(plan: &Plan) -> Self {
        let calls = || plan.calls.iter().filter(|call| call.method.is_none());
        if plan.calls.is_empty() || calls().any(|call| call.arguments.is_none()) {
            Self::Required
        } else if calls().next().is_some() {
            Self::Useful
        } else {
            Self::Useless
        }
    }
}

/// Completes the version, then the calls.
fn discover_with(
    peer: &mut Peer<'_>,
    plan: &mut Plan,
    tools: Necessity,
    notes: &mut Vec<String>,
) -> Result<(), DiscoveryError> {
    let was_known = plan.era.is_some();
    let negotiated = negotiate(peer, plan.era)?;
    let version = negotiated.era.mcp_version();
    match negotiated.reason {
        Some(reason) => {
            notes.push(format!("MCP {version}, since server/discover was answered by: {reason}"));
        }
        None if was_known && plan.era == Some(negotiated.era) => {}
        None => notes.push(format!("MCP {version}")),
    }
    plan.era = Some(negotiated.era);
    if tools != Necessity::Useless {
        let listed = list_tools(peer).map_err(|error| match error {
            error if error.is_unopened() => DiscoveryError::Unreachable(error),
            error => DiscoveryError::Tools(error),
        })?;
        notes.extend(complete_calls(&mut plan.calls, &listed)?);
    }
    Ok(())
}
