//! What the simulated server offers, and where it listens.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::{
    CallToolResult, Catalog, CatalogError, NoArguments, RequestContext, Resource, Tool,
};
use corelane_base::time::Instant;
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::Implementation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Knows the tokens `until-N`, which are valid before the second N since 1970. All are of one
/// caller.
pub(crate) struct Tokens;

impl TokenVerifier for Tokens {
    fn verify(&self, token: &str, now: u64) -> Result<Principal, TokenError> {
        let until = token.strip_prefix("until-").and_then(|until| until.parse().ok());
        let until: u64 = until.ok_or(TokenError::Unknown)?;
        if now < until {
            Ok(Principal::new("sim").with_expiry(until))
        } else {
            Err(TokenError::Expired)
        }
    }
}

/// Returns a token that is valid for so long from `now` on.
pub(crate) fn token_for(valid: Duration, now: Instant) -> String {
    let since = now.since(Instant::ORIGIN) + valid;
    format!("until-{}", ORIGIN_UNIX_MS / 1_000 + since.as_secs())
}

/// The time at the beginning of a run, in milliseconds since 1970.
pub(crate) const ORIGIN_UNIX_MS: u64 = 1_800_000_000_000;

/// Address of the TCP listeners.
pub(crate) const TCP_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8888));
/// Address of the HTTP listeners.
pub(crate) const HTTP_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));

/// URI of the only resource.
pub(crate) const RESOURCE: &str = "note://one";

/// Builds the catalog: tools and a resource, and no prompts.
///
/// # Errors
///
/// The catalog is invalid.
pub(crate) fn build_catalog() -> Result<Catalog, CatalogError> {
    let emit = Tool::new("emit").local(|arguments: EmitInput, ctx: RequestContext| async move {
        let EmitInput { count, log_every, pause_us } = arguments;
        for step in 1..=count {
            if pause_us > 0 {
                ctx.sleep(Duration::from_micros(pause_us.into())).await?;
            }
            ctx.progress(step.into(), Some(count.into()), None);
            if step % log_every == 0 {
                ctx.log(LoggingLevel::Warning, None, json!({"step": step}));
            }
        }
        Ok(CallToolResult::text(emitted(count)))
    });
    let echo = Tool::new("echo").inline_writer(|arguments: EchoInput, result, _| {
        result.text(&arguments.text);
        Ok(())
    });
    let wait = Tool::new("wait").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.progress(1.0, Some(1.0), None);
        ctx.cancelled().await;
        Ok(CallToolResult::text("cancelled"))
    });
    let builder = Catalog::builder(Implementation::new("sim", "1")).tools([emit, echo, wait]);
    builder.resource(Resource::new(RESOURCE, "one").text("text")).build()
}

/// The result of the tool `emit`.
pub(crate) fn emitted(count: u32) -> String {
    format!("emitted {count}")
}

#[derive(Deserialize, JsonSchema)]
struct EmitInput {
    count: u32,
    log_every: u32,
    pause_us: u32,
}

#[derive(Deserialize, JsonSchema)]
struct EchoInput {
    text: String,
}
