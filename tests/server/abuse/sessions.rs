//! `http.sessions_max` under attack: clients at another address create sessions and leave them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use corelane_test_support::messages::{LEGACY, echo, initialize, notification, result_text};
use corelane_test_support::{HttpClient, Request, TestServer, http_options, over_each_ring};
use serde_json::Value;

use crate::abuse::honest_clients::expect_healthy;

const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const SESSIONS_MAX: u32 = 64;
/// An eighth of [`SESSIONS_MAX`].
const SHARE: u64 = 8;
/// Sessions that the attackers create.
const CREATED: u64 = 4 * SESSIONS_MAX as u64;

/// Runs `test` with a server of [`SESSIONS_MAX`] sessions for each ring backend.
fn on_small_servers(test: impl Fn(TestServer)) {
    over_each_ring(http_options(), |mut options| {
        options.http.sessions_max = SESSIONS_MAX;
        test(TestServer::start(options));
    });
}

/// A session with the connection of its client.
struct Session {
    client: HttpClient,
    id: String,
}

impl Session {
    /// Sends `initialize` and nothing else.
    fn create(client: HttpClient) -> Self {
        let mut client = client.with_revision(LEGACY);
        let response = client.exchange(&Request::post(initialize(0, LEGACY)));
        assert_eq!(response.status(), 200, "{response:?}");
        let id = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
        Self { client, id }
    }

    fn post(&self, message: &Value) -> Request {
        let request = Request::post(message).field("Mcp-Session-Id", &self.id);
        request.field("MCP-Protocol-Version", LEGACY)
    }

    fn confirm(&mut self) {
        let initialized = self.post(&notification("notifications/initialized"));
        self.client.exchange(&initialized).expect_empty_body(202);
    }

    #[track_caller]
    fn call(&mut self) {
        let response = self.client.exchange(&self.post(&echo(1, "honest")));
        assert_eq!(response.status(), 200, "{response:?}");
        assert_eq!(result_text(&response.message()), "honest");
    }
}

/// Creates [`CREATED`] sessions over four connections from `from`, and calls `then` after each.
fn create_sessions(
    server: &TestServer,
    from: IpAddr,
    has_messages: bool,
    mut then: impl FnMut(u64),
) {
    let connect = || HttpClient::connect_from(from, server.http());
    let mut clients = VecDeque::from([(); 4].map(|()| connect()));
    for number in 0..CREATED {
        let client = clients.pop_front().expect("four connections");
        let mut session = Session::create(client);
        if has_messages {
            session.confirm();
        }
        clients.push_back(session.client);
        then(number);
    }
}

#[test]
fn unused_sessions_do_not_evict_used_ones() {
    on_small_servers(|server| {
        let mut honest = Session::create(server.connect_http());
        honest.confirm();
        // All clients of a proxy on this machine have one address, which is exempt.
        create_sessions(&server, IpAddr::V4(Ipv4Addr::LOCALHOST), false, |_| ());
        honest.call();
        create_sessions(&server, ATTACKER, false, |_| ());
        honest.call();
        expect_healthy(&server);
        drop(honest);
        let counters = server.close();
        let sessions = &counters.sessions;
        assert_eq!(sessions.created, 1 + 2 * CREATED, "{counters}");
        assert_eq!(sessions.evicted, 1 + 2 * CREATED - u64::from(SESSIONS_MAX), "{counters}");
        // The attacker takes its share from the unused sessions of others, then only from itself.
        assert_eq!(sessions.evicted_address_share, CREATED - SHARE, "{counters}");
        assert_eq!((sessions.evicted_idle, sessions.refused), (0, 0), "{counters}");
    });
}

/// Connects from 40 addresses of one /24, and creates [`CREATED`] sessions.
fn create_from_many_addresses(server: &TestServer, has_messages: bool) {
    let address = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    let connect = |last| HttpClient::connect_from(address(last), server.http());
    let mut clients: VecDeque<HttpClient> = (100..140).map(connect).collect();
    for _ in 0..CREATED {
        let mut session = Session::create(clients.pop_front().expect("a connection"));
        if has_messages {
            session.confirm();
        }
        clients.push_back(session.client);
    }
}

#[test]
fn sessions_of_many_addresses_leave_used_ones() {
    on_small_servers(|server| {
        let same_prefix = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 200));
        let other_prefix = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 2));
        let connect = |from| HttpClient::connect_from(from, server.http());
        let clients = [server.connect_http(), connect(same_prefix), connect(other_prefix)];
        let mut honest = clients.map(Session::create);
        for session in &mut honest {
            session.confirm();
        }
        for has_messages in [false, true] {
            create_from_many_addresses(&server, has_messages);
            for session in &mut honest {
                session.call();
            }
        }
        // A new client finds a place, and keeps it.
        let mut late = Session::create(connect(other_prefix));
        create_from_many_addresses(&server, false);
        late.confirm();
        late.call();
        expect_healthy(&server);
        drop((honest, late));
        let counters = server.close();
        assert_eq!(counters.sessions.refused, 0, "{counters}");
    });
}

#[test]
fn used_sessions_beyond_share_evict_each_other() {
    on_small_servers(|server| {
        let mut honest = Session::create(server.connect_http());
        honest.confirm();
        let mut late = None;
        create_sessions(&server, ATTACKER, true, |number| {
            // A handshake during the attack.
            if number == CREATED / 2 {
                late = Some(Session::create(server.connect_http()));
            }
        });
        honest.call();
        let mut late = late.expect("created");
        late.confirm();
        late.call();
        expect_healthy(&server);
        drop((honest, late));
        let counters = server.close();
        let sessions = &counters.sessions;
        // The handshake evicted one of the attacker.
        assert_eq!(sessions.evicted, 2 + CREATED - u64::from(SESSIONS_MAX), "{counters}");
        assert_eq!(sessions.evicted_address_share, sessions.evicted, "{counters}");
    });
}
