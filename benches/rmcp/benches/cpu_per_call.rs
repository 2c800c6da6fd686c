//! CPU time of the servers for each tool call over HTTP, in rounds that alternate.
//!
//! Run `cargo bench --manifest-path benches/rmcp/Cargo.toml`. Linux only: reads /proc.

#![expect(clippy::disallowed_methods, reason = "a round of the measurement ends by the clock")]

use std::error::Error;
use std::time::{Duration, Instant};

use corelane_rmcp_comparison::process::Server;
use serde_json::json;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(3);
const TICK_MICROSECONDS: u64 = 10_000;

/// Calls a tool on all connections for a round. Returns microseconds of CPU time for each call.
async fn measure(server: &Server) -> Result<(u64, f64), Box<dyn Error>> {
    let start = server.cpu_ticks()?;
    let end = Instant::now() + ROUND;
    let loops = (0..CONNECTIONS).map(async |_| -> Result<u64, Box<dyn Error>> {
        let client = reqwest::Client::new();
        let mut calls = 0;
        while Instant::now() < end {
            let params = json!({"name": "product", "arguments": {"id": 2}});
            let response = server.exchange(&client, "tools/call", params).await?;
            if response["result"]["structuredContent"]["name"] != "teapot" {
                return Err(format!("unexpected response: {response}").into());
            }
            calls += 1;
        }
        Ok(calls)
    });
    let mut calls = 0;
    for result in futures_util::future::join_all(loops).await {
        calls += result?;
    }
    let ticks = server.cpu_ticks()? - start;
    Ok((calls, (ticks * TICK_MICROSECONDS) as f64 / calls as f64))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let corelane = Server::start(env!("CARGO_BIN_EXE_shop_corelane"), "")?;
    let rmcp = Server::start(env!("CARGO_BIN_EXE_shop_rmcp"), "")?;
    println!("{:>5} {:>10} {:>10} {:>6}", "round", "corelane", "rmcp", "ratio");
    for round in 0..ROUNDS {
        let (our_calls, ours) = measure(&corelane).await?;
        let (their_calls, theirs) = measure(&rmcp).await?;
        println!(
            "{round:>5} {ours:>7.1} us {theirs:>7.1} us {:>6.2}  {our_calls}, {their_calls} calls",
            theirs / ours
        );
    }
    Ok(())
}
