//! MCP in an axum program, beside its other routes, with graceful shutdown.
//!
//! Run `cargo run --release --example axum --features tower`, then point an MCP client at
//! <http://127.0.0.1:8080/mcp>.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use corelane::model::Implementation;
use corelane::tower::McpService;
use corelane::{Catalog, Options, Server, Tool};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Tea {
    /// Steeping time in seconds.
    seconds: u8,
}

pub(crate) fn mcp_service() -> Result<McpService, Box<dyn Error>> {
    // Runs on the runtime of the program, as its other code does.
    let tea = Tool::new("tea").description("Makes tea.").tokio(|tea: Tea, ctx| async move {
        for second in 1..=tea.seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ctx.progress(second.into(), Some(tea.seconds.into()), Some("steeping"));
        }
        "Your tea is ready."
    });
    let catalog = Catalog::builder(Implementation::new("kitchen", "1.0.0")).tool(tea).build()?;
    let mut options = Options::default();
    // The names under which clients reach this program.
    options.http.hosts = vec!["localhost".into(), "127.0.0.1".into(), "mcp.example.com".into()];
    Ok(McpService::new(Server::builder(catalog).options(options))?)
}

pub(crate) fn router(service: McpService) -> Router {
    Router::new().route("/", get(|| async { "MCP is at /mcp" })).nest_service("/mcp", service)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = mcp_service()?;
    let server = service.handle();
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, router(service))
        .with_graceful_shutdown(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                // Ends event streams, which axum would wait for.
                server.drain();
            }
        })
        .await?;
    Ok(())
}
