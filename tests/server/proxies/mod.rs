//! Proxies in front of a server: the addresses that they name for their clients, in PROXY headers
//! and in HTTP requests, count wherever the address of a client does; what others name does not.

mod documented;
mod forwarded;
mod proxy_protocol;

use std::net::{IpAddr, Ipv4Addr};

use corelane::model::Implementation;
use corelane::{Catalog, NoArguments, Options, Tool};
use corelane_test_support::messages::{call, modern, result_text};
use corelane_test_support::{HttpClient, Request, http_and_tcp_options};
use serde_json::{Value, json};

/// A trusted proxy.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
/// A peer that is not trusted.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 10));

/// Tools that return where they are called from, on the shard and on a thread.
fn catalog() -> Catalog {
    let describe = |peer: Option<std::net::SocketAddr>| {
        peer.map_or_else(|| "none".to_owned(), |peer| peer.to_string())
    };
    let peer =
        Tool::new("peer").inline(move |_: NoArguments, ctx| describe(ctx.request().peer_addr()));
    let blocking = Tool::new("blocking_peer")
        .blocking(move |_: NoArguments, ctx| describe(ctx.request().peer_addr()));
    let builder = Catalog::builder(Implementation::new("proxies", "1"));
    builder.tools([peer, blocking]).build().expect("the catalog is valid")
}

/// Options of a server with one shard over HTTP and TCP that trusts [`PROXY`].
fn options() -> Options {
    let mut options = http_and_tcp_options();
    options.engine.shards = Some(1);
    options.proxies.trusted = vec!["127.0.0.9".to_owned(), "10.0.0.0/8".to_owned()];
    options
}

/// A call of the tool that returns the address of its caller.
fn peer_call() -> Value {
    call(7, "peer", json!({}))
}

/// A request that calls it.
fn peer_request() -> Request {
    Request::modern(&modern(peer_call()))
}

/// Returns the address that the handler of a request sees.
#[track_caller]
fn seen_peer(client: &mut HttpClient, request: &Request) -> String {
    let response = client.exchange(request);
    assert_eq!(response.status(), 200, "{response:?}");
    result_text(&response.message()).to_owned()
}
