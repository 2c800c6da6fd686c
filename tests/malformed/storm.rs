//! Ten thousand connections that come and go at once.

use corelane::server::Options;
use rustix::process::{Resource, getrlimit};

use crate::client::{Client, LEGACY, echo, endless};
use crate::door::let_in;
use crate::stage::{Stage, over_each_ring};

/// Connections of a storm.
const CONNECTIONS: usize = 10_000;

/// Connections of one gust: what the file limit lets stand at once, both ends of each counted, next
/// to the other tests of this process.
fn gust() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 8).unwrap_or(usize::MAX).clamp(50, 1000)
}

/// Room for one gust.
fn roomy(mut options: Options) -> Options {
    options.tcp.connections_max = u32::try_from(gust()).expect("a thousand at most");
    options.engine.ring_sizes.sockets_max = options.tcp.connections_max + 128;
    options
}

/// How a connection of the storm ends.
fn leave(number: usize, mut client: Client) {
    match number % 5 {
        0 => drop(client),
        1 => client.reset(),
        2 => client.send_bytes(br#"{"jsonrpc":"2.0","id":1,"met"#),
        3 => {
            client.send(crate::client::initialize(1, LEGACY));
            client.send(crate::client::notification("notifications/initialized"));
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
fn ten_thousand_connections_that_come_and_go_leave_no_place_behind() {
    over_each_ring(|options| {
        let stage = Stage::open(roomy(options));
        let mut other = stage.session(LEGACY);
        let mut number = 0;
        while number < CONNECTIONS {
            let clients: Vec<Client> = (0..gust()).map(|_| stage.connect()).collect();
            for client in clients {
                leave(number, client);
                number += 1;
            }
            assert_eq!(other.ask(echo(number, "unaffected"))["id"], number);
        }
        // As many as ever fit: every place is free again.
        let mut clients: Vec<Client> = (1..gust()).map(|_| let_in(&stage)).collect();
        clients.iter_mut().for_each(Client::expect_alive);
        crate::client::expect_error(&stage.connect().answer(), 1001, None);
        drop((clients, other));
        stage.close();
    });
}
