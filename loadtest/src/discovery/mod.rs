//! What the server is, found out before the run: its protocol version and its tools.
//!
//! The client of the library is used, with a connection of its own, which is closed before the run;
//! for the parity dialect, the generator.

mod arguments;
mod request_error;

mod calls;
mod event_stream;
mod parity;
mod server;

use corelane_client::ServerInfo;
use corelane_protocol::model::ServerCapabilities;

use self::calls::complete_calls;
use self::event_stream::find_event_stream;
use self::request_error::RequestCause;
pub use self::request_error::RequestError;
use self::server::{Server, check_address};
use crate::generator::{LoadMode, RunConfig};
use crate::mcp::HttpField;
use crate::plan::{CallPlan, Plan};
use crate::result::ServerIdentity;
use crate::sign_in::SignInError;
use crate::target::{Era, Target};
use crate::users::UsersConfig;

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
    /// The first user gets no access token.
    #[error("{0}")]
    SignIn(RequestError),
    /// No version is spoken.
    #[error("no MCP server answers here: {0}; correct the address, or name the version with --era")]
    NotMcp(RequestError),
    /// The server has the HTTP+SSE transport of 2024-11-05.
    #[error(
        "this server has the HTTP+SSE transport of 2024-11-05 (GET {path} opens its event stream), \
         which cannot be loaded: use its endpoint for Streamable HTTP, often /mcp, or start it \
         with that transport"
    )]
    EventStream {
        /// Path of the event stream.
        path: String,
    },
    /// The handshake of the chosen version failed.
    #[error("{0}; choose another version with --era")]
    Handshake(RequestError),
    /// The program of a stdio target ended.
    #[error("the program did not come up: {0}; correct the command")]
    Program(String),
    /// No list of tools.
    #[error("tools/list: {0}; name a tool with --tool and --arguments")]
    Tools(RequestError),
    /// The tool of the plan is not offered.
    #[error("the server has no tool '{name}'; {instead}")]
    UnknownTool {
        /// The tool of the plan.
        name: String,
        /// The tool that may be meant, or those of the server.
        instead: String,
    },
    /// The arguments of a tool cannot be made from its schema.
    #[error("the tool {name} needs arguments ({why}): pass {flags}, or --arguments @FILE")]
    Arguments {
        /// The tool.
        name: String,
        /// What cannot be made.
        why: String,
        /// Flags with arguments to fill in.
        flags: String,
    },
    /// An argument of a call is not one of its tool.
    #[error("the tool {tool} has no argument '{name}'; {instead}")]
    UnknownArgument {
        /// The tool.
        tool: String,
        /// The argument of the plan.
        name: String,
        /// The argument that may be meant, or those of the tool.
        instead: String,
    },
    /// A call lacks an argument that its tool requires.
    #[error("the tool {tool} needs the argument '{name}'")]
    MissingArgument {
        /// The tool.
        tool: String,
        /// The argument.
        name: String,
    },
    /// No tool can be called without further information, and a call needs one.
    #[error("no tool is chosen by itself: pass {flags}; the server has {tools}")]
    NoTool {
        /// Flags with a tool and its arguments.
        flags: String,
        /// The tools of the server, with the reason for each.
        tools: String,
    },
    /// The target is invalid.
    #[error("{0}")]
    Target(String),
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
        | Self::SignIn(error)
        | Self::NotMcp(error)
        | Self::Handshake(error)
        | Self::Tools(error)) = self
        else {
            return Readiness::Final;
        };
        match error.cause {
            RequestCause::Refused | RequestCause::Closed => Readiness::Absent,
            RequestCause::Timeout => Readiness::Silent,
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
    /// Name and version of the server, if it was asked and sent them.
    pub server: Option<ServerIdentity>,
}

/// Completes `plan`, whose run has this configuration.
///
/// # Errors
///
/// If the server does not answer, speaks no known version, or offers no tool that can be called.
pub fn discover(plan: &Plan, config: &RunConfig) -> Result<Discovery, DiscoveryError> {
    let config = &as_first_user(config)?;
    let mut plan = plan.clone();
    let sends_requests = !matches!(config.mode, LoadMode::Hold { .. });
    let tools = if sends_requests { Necessity::of_tools(&plan) } else { Necessity::Useless };
    let (mut notes, mut identity) = (Vec::new(), None);
    if plan.is_parity() && tools != Necessity::Useless {
        let found = parity::list_tools(config);
        let found = found.and_then(|listed| complete_calls(&mut plan, &listed));
        match found {
            Ok(chosen) => notes.extend(chosen),
            Err(error) => notes.push(unchecked(error, tools)?),
        }
    } else if plan.era.is_none() || tools != Necessity::Useless {
        let target = Target::parse(&plan.target, plan.era.unwrap_or_default())
            .map_err(|error| DiscoveryError::Target(format!("{error}")))?;
        let server = Server::new(&target, config, plan.era).map_err(DiscoveryError::Unreachable)?;
        let mut found = Found { notes, server: None };
        let outcome = discover_with(&server, &mut plan, tools, &mut found);
        Found { notes, server: identity } = found;
        let exit = server.close();
        let outcome = outcome.map_err(|error| name_event_stream(error, &target, config));
        match (outcome, exit) {
            (Err(error @ DiscoveryError::EventStream { .. }), _) => return Err(error),
            (Err(DiscoveryError::NotMcp(error)), Some(exit))
                if error.cause == RequestCause::Closed =>
            {
                return Err(DiscoveryError::Program(exit));
            }
            (Err(error), _) if plan.era.is_some() => notes.push(unchecked(error, tools)?),
            (outcome, _) => outcome?,
        }
    } else if let Err(error) = check_address(config) {
        return Err(DiscoveryError::Unreachable(RequestError::unopened(&error)));
    }
    let fields = &config.request_settings.fields;
    let redact = |note| HttpField::redact_all(fields, note);
    Ok(Discovery { plan, notes: notes.into_iter().map(redact).collect(), server: identity })
}

/// Returns the configuration with the token of the first user, if users have tokens or sign in.
fn as_first_user(config: &RunConfig) -> Result<RunConfig, DiscoveryError> {
    let mut config = config.clone();
    let users = config.users.as_deref();
    let authorization = match users.and_then(UsersConfig::first_sign_in) {
        None => users.and_then(UsersConfig::first_authorization),
        Some((sign_in, credentials)) => {
            let token = sign_in.sign_in(credentials).map_err(|error| match error {
                SignInError::Server(error) => match RequestError::new(&error, &config) {
                    error if error.is_unopened() => DiscoveryError::Unreachable(error),
                    error => DiscoveryError::SignIn(error),
                },
                error @ SignInError::Refused(_) => {
                    DiscoveryError::SignIn(RequestError::of_run(&error.to_string()))
                }
            })?;
            Some(token.authorization)
        }
    };
    let field = authorization.and_then(|it| HttpField::new("Authorization", it.reveal()).ok());
    config.request_settings.fields.extend(field);
    Ok(config)
}

/// Replaces the error of a server that speaks no MCP over Streamable HTTP, if it has the transport
/// that came before.
fn name_event_stream(error: DiscoveryError, target: &Target, config: &RunConfig) -> DiscoveryError {
    if !matches!(error, DiscoveryError::NotMcp(_) | DiscoveryError::Handshake(_)) {
        return error;
    }
    match find_event_stream(target, config) {
        Some(path) => DiscoveryError::EventStream { path },
        None => error,
    }
}

/// Returns the note that replaces an error if only output schemas are missing: the server is there,
/// but tells nothing of its tools.
fn unchecked(error: DiscoveryError, tools: Necessity) -> Result<String, DiscoveryError> {
    let is_without_tools = matches!(
        error,
        DiscoveryError::Unauthorized(_)
            | DiscoveryError::NotMcp(_)
            | DiscoveryError::Handshake(_)
            | DiscoveryError::Program(_)
            | DiscoveryError::Tools(_)
    );
    if tools == Necessity::Useful && is_without_tools {
        Ok(format!("results are not checked against output schemas: {error}"))
    } else {
        Err(error)
    }
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
        let mut plan = plan.clone();
        let calls = plan.calls_mut();
        let is_empty = calls.is_empty();
        let calls = || calls.iter().filter(|call| call.method.is_none());
        if is_empty || calls().any(|call| call.arguments.is_none()) {
            Self::Required
        } else if calls().next().is_some() {
            Self::Useful
        } else {
            Self::Useless
        }
    }
}

/// What a server told.
struct Found {
    notes: Vec<String>,
    server: Option<ServerIdentity>,
}

/// Completes the version, then the calls.
fn discover_with(
    server: &Server<'_>,
    plan: &mut Plan,
    tools: Necessity,
    found: &mut Found,
) -> Result<(), DiscoveryError> {
    let notes = &mut found.notes;
    let info = server.info().map_err(|error| match error.cause {
        _ if error.is_unopened() => DiscoveryError::Unreachable(error),
        RequestCause::Unauthorized => DiscoveryError::Unauthorized(error),
        RequestCause::UnknownRevision => DiscoveryError::Handshake(error),
        _ if plan.era.is_some() => DiscoveryError::Handshake(error),
        _ => DiscoveryError::NotMcp(error),
    })?;
    found.server = info.implementation.as_ref().and_then(ServerIdentity::of);
    let (era, version) = (Era::from(info.revision), info.revision);
    match &info.discover_error {
        Some(error) => notes.push(format!("MCP {version}, since server/discover: {error}")),
        None if plan.era == Some(era) => {}
        None => notes.push(format!("MCP {version}")),
    }
    plan.era = Some(era);
    if plan.calls_mut().is_empty()
        && tools == Necessity::Required
        && info.capabilities.tools.is_none()
    {
        let method = method_without_tools(&info);
        notes.push(format!("{method}, because the server has no tools (choose another in a plan)"));
        plan.calls.push(CallPlan { method: Some(method.into()), ..CallPlan::default() });
        return Ok(());
    }
    if tools != Necessity::Useless {
        let listed = server.tools().map_err(|error| match error {
            error if error.is_unopened() => DiscoveryError::Unreachable(error),
            error => DiscoveryError::Tools(error),
        })?;
        notes.extend(complete_calls(plan, &listed)?);
    }
    Ok(())
}

/// Returns the method that is called if the server has no tools.
fn method_without_tools(info: &ServerInfo) -> &'static str {
    match &info.capabilities {
        ServerCapabilities { resources: Some(_), .. } => "resources/list",
        ServerCapabilities { prompts: Some(_), .. } => "prompts/list",
        _ if Era::from(info.revision).is_modern() => "server/discover",
        _ => "ping",
    }
}
