//! What the simulated server offers, whom it knows, and where it listens.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::{
    CallToolResult, Catalog, CatalogError, NoArguments, RequestContext, TaskSupport, Tool,
};
use corelane_protocol::model::Implementation;
use schemars::JsonSchema;
use serde::Deserialize;

/// Address of the TCP listeners.
pub(crate) const TCP_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8888));
/// Address of the HTTP listeners.
pub(crate) const HTTP_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));

/// Every token is that of the caller of its name, but none is longer than a name.
pub(crate) struct Tokens;

impl TokenVerifier for Tokens {
    fn verify(&self, token: &str, _now: u64) -> Result<Principal, TokenError> {
        let name = token.strip_prefix("token-").ok_or(TokenError::Unknown)?;
        Ok(Principal::new(name))
    }
}

/// Builds the catalog: a tool that answers at once, one that waits, and one whose calls become
/// tasks.
///
/// # Errors
///
/// The catalog is invalid.
pub(crate) fn build_catalog() -> Result<Catalog, CatalogError> {
    let echo = Tool::new("echo").inline_writer(|arguments: EchoInput, result, _| {
        result.text(&arguments.text);
        Ok(())
    });
    let wait = Tool::new("wait").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.cancelled().await;
        Ok(CallToolResult::text("cancelled"))
    });
    let required = Tool::new("task").task_support(TaskSupport::Required);
    let task = required.local(|arguments: TaskInput, ctx: RequestContext| async move {
        if arguments.waits {
            ctx.cancelled().await;
        }
        Ok(CallToolResult::text("done"))
    });
    Catalog::builder(Implementation::new("sim", "1")).tools([echo, wait, task]).build()
}

#[derive(Deserialize, JsonSchema)]
struct EchoInput {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct TaskInput {
    waits: bool,
}
