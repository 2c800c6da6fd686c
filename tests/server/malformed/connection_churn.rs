//! Ten thousand connections opened and closed in quick succession.

use corelane::Options;
use corelane_test_support::messages::{
    LEGACY, echo, endless, expect_error, initialize, notification,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use rustix::process::{Resource, getrlimit};

/// Connections in total.
const CONNECTIONS: usize = 10_000;

/// Connections open at once: bounded by the limit of file descriptors, two for each connection,
/// shared with the other tests of this process.
fn connections_per_round() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 8).unwrap_or(usize::MAX).clamp(50, 1000)
}

/// Options with capacity for one round of connections.
fn with_capacity(mut options: Options) -> Options {
    options.tcp.connections_max = u32::try_from(connections_per_round()).expect("at most 1000");
    options.engine.ring_sizes.sockets_max = options.tcp.connections_max + 128;
    options
}

/// Ends a connection in one of five ways.
fn close_connection(number: usize, mut client: LineClient) {
    match number % 5 {
        0 => drop(client),
        1 => client.reset(),
        2 => client.send_bytes(br#"{"jsonrpc":"2.0","id":1,"met"#),
        3 => {
            client.send(initialize(1, LEGACY));
            client.send(notification("notifications/initialized"));
            client.send(endless(2));
            client.reset();
        }
        _ => {
            client.send_bytes(b"{}\n{\n\xff\n");
            client.reset();
        }
    }
}

#[test]
fn ten_thousand_short_connections_free_all_slots() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(with_capacity(options));
        let mut other = server.connect_initialized(LEGACY);
        let mut number = 0;
        while number < CONNECTIONS {
            let clients: Vec<LineClient> =
                (0..connections_per_round()).map(|_| server.connect_tcp()).collect();
            for client in clients {
                close_connection(number, client);
                number += 1;
            }
            assert_eq!(other.exchange(echo(number, "unaffected"))["id"], number);
        }
        // Fills the limit: every slot is free again.
        let mut clients: Vec<LineClient> =
            (1..connections_per_round()).map(|_| server.connect_accepted()).collect();
        clients.iter_mut().for_each(LineClient::ping);
        expect_error(&server.connect_tcp().receive(), 1001, None);
        drop((clients, other));
        server.close();
    });
}
