//! A minimal server: two tools over TCP and HTTP, until SIGINT or SIGTERM.
//!
//! Run `cargo run --release --example server`, then send newline-delimited JSON-RPC to
//! 127.0.0.1:8888, or point an MCP client at <http://127.0.0.1:8080/mcp>.

use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Name of the person to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Tea {
    /// Steeping time in minutes.
    minutes: u8,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = Tool::new("greet")
        .description("Greets a person.")
        .inline(|Greet { name }, _| format!("Hello, {name}!"));
    let tea = Tool::new("tea").description("Makes tea.").local(async |tea: Tea, ctx| {
        for minute in 1..=tea.minutes {
            ctx.sleep(Duration::from_mins(1)).await?;
            ctx.progress(minute.into(), Some(tea.minutes.into()), Some("steeping"));
        }
        Ok("Your tea is ready.")
    });
    let info = Implementation::new("example", env!("CARGO_PKG_VERSION"));
    Server::builder(Catalog::builder(info).tool(greet).tool(tea).build()?).serve()?;
    Ok(())
}
