//! Attempts to get around limits: many addresses, many connections, many shards.

use std::net::{IpAddr, Ipv4Addr};

use corelane_test_support::messages::request_without_params;
use corelane_test_support::{LineClient, TestServer};
use serde_json::json;

use crate::rate_limits::{CLIENT, options};

/// Sends a `ping` that needs no handshake; returns whether it is admitted.
fn ping(client: &mut LineClient) -> bool {
    let response = client.exchange(request_without_params(1, "ping"));
    let is_limited = response["error"]["code"] == 1002;
    assert!(is_limited || response["result"] == json!({}), "{response}");
    !is_limited
}

#[test]
fn connections_over_many_shards_share_one_limit() {
    const BURST: usize = 80;
    let mut options = options(&["ping rate=80/d per=address"]);
    options.engine.shards = Some(4);
    let server = TestServer::start(options);
    let mut clients: Vec<LineClient> =
        (0..64).map(|_| LineClient::connect_from(CLIENT, server.tcp())).collect();
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += clients.iter_mut().map(|it| usize::from(ping(it))).sum::<usize>();
    }
    assert!(admitted <= BURST, "{admitted}");
    // What is left of each share is less than one request.
    assert!(admitted >= BURST - 4, "{admitted}");
    drop(clients);
    server.close();
}

#[test]
fn one_connection_gets_burst_of_all_shards() {
    let mut options = options(&["ping rate=400/d per=address"]);
    options.engine.shards = Some(4);
    let server = TestServer::start(options);
    let mut client = LineClient::connect_from(CLIENT, server.tcp());
    // A quarter is the share of its shard; the rest comes from the others while it asks.
    let mut admitted = 0;
    for _ in 0..3_000 {
        admitted += usize::from(ping(&mut client));
    }
    assert!((396..=400).contains(&admitted), "{admitted}");
    drop(client);
    server.close();
}

#[test]
fn flood_of_addresses_shares_one_limit() {
    let mut options = options(&["ping rate=1/d per=address"]);
    options.rate.keys_max = 16;
    let server = TestServer::start(options);
    let mut honest = LineClient::connect_from(CLIENT, server.tcp());
    assert!(ping(&mut honest));
    let mut admitted = 0;
    for number in 0..300_u16 {
        let [high, low] = number.to_be_bytes();
        let from = IpAddr::V4(Ipv4Addr::new(127, 9, high, low));
        let mut client = LineClient::connect_from(from, server.tcp());
        admitted += usize::from(ping(&mut client));
    }
    // One for each place, and one for all that have none.
    assert!(admitted <= 16, "{admitted}");
    // The flood has not removed the state of another address.
    assert!(!ping(&mut honest));
    drop(honest);
    let counters = server.close();
    assert!(counters.requests.rate_overflows >= 280, "{counters}");
}
