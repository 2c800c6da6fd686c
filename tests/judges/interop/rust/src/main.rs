//! Uses one feature of MCP through the official Rust SDK and prints a JSON summary.
//!
//! Usage: `corelane-interop FEATURE MODE URL`, or `corelane-interop serve` for a server over
//! standard streams.
//!
//! FEATURE is a module in this directory. MODE is `legacy` (the initialize handshake), `auto`
//! (discover first) or a modern revision to pin. URL is a Streamable HTTP endpoint. The program
//! asserts nothing; the tests in `tests/judges/interop` check the summary.

#![expect(deprecated, reason = "the legacy era is deprecated, and tested here on purpose")]

mod changes;
mod client_requests;
mod greeting;
mod greeting_server;
mod host;
mod outcomes;
mod progress_and_logging;
mod resumption;
mod server;
mod session;

use std::env;
use std::time::Duration;

use serde_json::Value;

use crate::server::{Failure, Server};

/// Timeout of one feature.
const FEATURE_TIMEOUT: Duration = Duration::from_mins(2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1).peekable();
    if arguments.next_if_eq("serve").is_some() {
        return greeting_server::serve().await;
    }
    let (Some(feature), Some(mode), Some(url)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: corelane-interop FEATURE MODE URL, or corelane-interop serve".into());
    };
    let server = Server::new(mode, url);
    println!("{}", tokio::time::timeout(FEATURE_TIMEOUT, summary(&feature, &server)).await??);
    Ok(())
}

async fn summary(feature: &str, server: &Server) -> Result<Value, Failure> {
    match feature {
        "changes" => changes::summary(server).await,
        "client_requests" => client_requests::summary(server).await,
        "greeting" => greeting::summary(server).await,
        "progress_and_logging" => progress_and_logging::summary(server).await,
        "resumption" => resumption::summary(server).await,
        "session" => session::summary(server).await,
        _ => Err(format!("no such feature: {feature}").into()),
    }
}
