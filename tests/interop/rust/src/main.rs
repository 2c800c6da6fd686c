//! One feature of MCP, used by the official Rust SDK and told as one JSON object.
//!
//! Usage: `corelane-interop FEATURE MODE URL`
//!
//! FEATURE is a module beside this file. MODE is `legacy` (the initialize handshake), `auto`
//! (discover first) or a modern revision to pin. URL is where a server speaks Streamable HTTP. The
//! program judges nothing: it does what a client does and says what came back; the tests above this
//! folder assert.

#![expect(deprecated, reason = "the legacy era is what this is about, however old it is")]

mod asking;
mod changes;
mod exchanges;
mod host;
mod server;
mod session;
mod telling;
mod told;

use std::env;
use std::time::Duration;

use serde_json::Value;

use crate::server::{Failure, Server};

/// Longer than any healthy feature, shorter than the patience of whoever waits for the test.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let (Some(feature), Some(mode), Some(url)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: corelane-interop FEATURE MODE URL".into());
    };
    let server = Server::new(mode, url);
    println!("{}", tokio::time::timeout(PATIENCE, summary(&feature, &server)).await??);
    Ok(())
}

async fn summary(feature: &str, server: &Server) -> Result<Value, Failure> {
    match feature {
        "asking" => asking::summary(server).await,
        "changes" => changes::summary(server).await,
        "exchanges" => exchanges::summary(server).await,
        "session" => session::summary(server).await,
        "telling" => telling::summary(server).await,
        _ => Err(format!("no such feature: {feature}").into()),
    }
}
