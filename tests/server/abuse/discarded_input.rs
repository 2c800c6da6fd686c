//! Peers that go on to send after the response that ends their connection.

use std::io::Write;

use corelane_test_support::{Request, TestServer, over_each_ring};

use crate::abuse::honest_clients::{HonestClients, all_transports};

/// The server reads about 256 KiB, and what is received already when it stops.
const READ_MAX: u64 = 2 << 20;
/// More than the server reads and the kernel stores on both sides.
const SENT_MIN: usize = 64 << 20;

#[test]
fn refused_peer_is_read_up_to_limit() {
    over_each_ring(all_transports(), |options| {
        let server = TestServer::start(options);
        let mut honest = HonestClients::connect(&server);
        let mut refused = server.connect_http();
        let response = refused.exchange(&Request::new("GET", "/mcp ").field("Bad Name", "x"));
        assert_eq!(response.head.status, 400, "{response:?}");
        assert!(response.head.closes_connection(), "{response:?}");
        let chunk = vec![b'x'; 64 << 10];
        let mut sent = 0;
        // Ends when the server cuts the connection.
        while let Ok(length @ 1..) = refused.socket().write(&chunk) {
            sent += length;
            assert!(sent < SENT_MIN, "the server reads on");
        }
        honest.call_all();
        drop((honest, refused));
        let counters = server.close();
        assert!(counters.traffic.bytes_in < READ_MAX, "{counters}");
    });
}
