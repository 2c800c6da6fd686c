//! Rate limits over every transport: status, header and body of refusals, floods from many
//! addresses and over many shards, reload.
//!
//! Limits of one hour do not refill while a test runs.

mod connections;
mod evasion;
mod failures;
mod http;
mod lines;
mod pages;
mod reload;

use std::net::{IpAddr, Ipv4Addr};

use corelane::Options;
use corelane_test_support::{TestServer, http_and_tcp_options};
use serde_json::Value;

/// A client whose address counts: 127.0.0.1 is exempt.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
/// Another client.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 10));

/// Options of a server with one shard on free ports, over HTTP and TCP.
fn options(rules: &[&str]) -> Options {
    let mut options = http_and_tcp_options();
    options.engine.shards = Some(1);
    options.rate.rules = rules.iter().map(ToString::to_string).collect();
    options
}

/// A server with these rules.
fn start(rules: &[&str]) -> TestServer {
    TestServer::start(options(rules))
}

/// Checks the error of a request that exceeds `limit`, whose next request is admitted after
/// `seconds`; a few may have passed. Returns the milliseconds to wait.
#[track_caller]
fn expect_rate_limited(response: &Value, limit: &str, seconds: u64) -> u64 {
    let error = &response["error"];
    assert_eq!(error["code"], 1002, "{response}");
    let milliseconds = error["data"]["retryAfterMs"].as_u64().expect("a number");
    let expected = seconds.saturating_sub(20) * 1_000..=seconds * 1_000;
    assert!(expected.contains(&milliseconds), "{response}");
    let message = format!("rate limit exceeded: {limit}; retry in {milliseconds} ms");
    assert_eq!(error["message"], message, "{response}");
    assert_eq!(error["data"]["retryable"], true, "{response}");
    assert_eq!(error["data"].as_object().expect("an object").len(), 2, "{response}");
    milliseconds
}
