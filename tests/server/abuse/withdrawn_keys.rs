//! Credentials that are withdrawn during a flood of unknown tokens: no flood delays the end of what
//! was opened with them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use corelane::options::AuthOptions;
use corelane_test_support::messages::{LEGACY, echo, listen, modern, result_text};
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{Request, TestServer, WebSocketClient, over_each_ring, sockets};
use serde_json::{Value, json};
use tungstenite::protocol::frame::coding::Control;

use crate::abuse::honest_clients::{all_transports, expect_healthy};
use crate::authorization::hash_of;
use crate::authorization::http::post;

/// Threads that send unknown tokens.
const FLOODS: usize = 2;

fn write_keys(path: &Path, names: &[&str]) {
    let line = |name: &&str| format!("{name}:{}:user\n", hash_of(&format!("key-{name}")));
    fs::write(path, names.iter().map(line).collect::<String>()).expect("keys are written");
}

fn call_of(name: &str) -> Value {
    let mut call = modern(echo(1, name));
    call["params"]["_meta"]["auth_token"] = json!(format!("key-{name}"));
    call
}

/// Sends unknown tokens, each over a new connection, until the end.
fn flood(address: SocketAddr, number: usize, is_over: &AtomicBool) {
    let call = modern(echo(1, "hostile"));
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        let token = format!("unknown-{number}-{sent}");
        assert_eq!(post(address, &call, Some(&token)).status, 401);
        sent += 1;
    }
    assert!(sent > 0);
}

#[test]
fn withdrawn_key_ends_during_flood_of_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.txt");
    over_each_ring(all_transports(), |mut options| {
        write_keys(&keys, &["ada", "bob"]);
        options.auth = AuthOptions::default();
        options.auth.api_keys = vec![keys.clone()];
        options.auth.check_interval = Duration::from_millis(20);
        let server = TestServer::start(options);
        let mut clients = ["ada", "bob"].map(|name| {
            let mut client = server.connect_tcp();
            assert_eq!(result_text(&client.exchange(call_of(name))), name);
            client
        });
        let upgrade = upgrade_request().field("Authorization", "Bearer key-bob");
        let stream = sockets::connect(server.http());
        let mut websocket = WebSocketClient::upgrade(stream, &upgrade.bytes()).1.handshake(LEGACY);
        let mut stream = server.connect_http().with_revision("2026-07-28");
        let request = Request::modern(&listen(7, json!({"toolsListChanged": true})));
        stream.request_stream(&request.add_field("Authorization", "Bearer key-bob"));
        assert!(stream.read_event().is_some());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..FLOODS {
                let (address, is_over) = (server.http(), &is_over);
                scope.spawn(move || flood(address, number, is_over));
            }
            write_keys(&keys, &["ada"]);
            let [ada, bob] = &mut clients;
            bob.expect_end_or_reset();
            assert_eq!(websocket.read_control(Control::Close)[..2], 1008_u16.to_be_bytes());
            while stream.read_event().is_some() {}
            assert_eq!(post(server.http(), &modern(echo(1, "bob")), Some("key-bob")).status, 401);
            assert_eq!(result_text(&ada.exchange(call_of("ada"))), "ada");
            expect_healthy(&server);
            is_over.store(true, Ordering::Relaxed);
        });
        drop((clients, websocket, stream));
        server.close();
    });
}
