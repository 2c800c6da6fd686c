//! A server in thirty lines: two tools over TCP and HTTP, until a signal ends it.
//!
//! `cargo run --release --example server`, then send it lines of JSON-RPC on 127.0.0.1:8888, or
//! point a client at <http://127.0.0.1:8080/mcp>.

use std::time::Duration;

use corelane::protocol::message::ServerInfo;
use corelane::server::Server;
use corelane::service::{Catalog, Live, Outcome, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Tea {
    /// How long it steeps, in minutes.
    minutes: u8,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = Tool::new("greet").describe("Greets someone.").inline(|Greet { name }, answer| {
        answer.format(format_args!("Hello, {name}!"));
        Ok(())
    });
    let tea = Tool::new("tea").describe("Makes tea.").local(async |tea: Tea, live: Live| {
        for minute in 1..=tea.minutes {
            live.sleep(Duration::from_mins(1)).await?;
            live.progress(minute.into(), Some(tea.minutes.into()), Some("still steeping"));
        }
        Ok(Outcome::text("Your tea is ready."))
    });
    let info = ServerInfo::new("example", env!("CARGO_PKG_VERSION"));
    Server::new(Catalog::builder(info).tool(greet).tool(tea).build()?).serve()?;
    Ok(())
}
