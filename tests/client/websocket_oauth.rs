//! Authorization of the upgrade to WebSocket.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use corelane::Client;
use corelane::client::{
    ClientBuilder, ClientErrorKind, ConnectionEvent, OAuthOptions, ReconnectMode, ReconnectOptions,
    block_on,
};
use corelane_test_support::TIMEOUT;
use serde_json::json;

use super::http_peer::HttpPeer;
use super::oauth_server::{State, is_authorized, respond, unauthorized};
use super::response;
use super::websocket_peer::WebSocketPeer;

/// A server of WebSocket with its authorization server, for one connection at a time.
struct Server {
    address: SocketAddr,
    thread: JoinHandle<State>,
}

impl Server {
    /// Starts it. Each connection that is upgraded serves one call.
    fn start(state: State) -> Self {
        let peer = HttpPeer::bind();
        let address = peer.address();
        let thread = thread::spawn(move || {
            let mut state = state;
            loop {
                let mut connection = peer.accept();
                // A connection without a request ends the server.
                let Some(request) = connection.try_receive() else { return state };
                let Some(key) = request.header("Sec-WebSocket-Key") else {
                    connection.send(&respond(&mut state, &request));
                    continue;
                };
                *state.counts.entry("upgrade".to_owned()).or_default() += 1;
                if is_authorized(&state, &request) {
                    let mut peer =
                        WebSocketPeer::of_request(connection.into_stream(), key).handshake();
                    let call = peer.receive();
                    let content = json!([{ "type": "text", "text": "called" }]);
                    peer.send(&response(&call, &json!({ "content": content })));
                } else {
                    connection.send(&unauthorized());
                }
            }
        });
        Self { address, thread }
    }

    fn client(&self) -> ClientBuilder {
        let target = format!("ws://{}", self.address);
        Client::builder(target.as_str()).oauth(OAuthOptions::new().approve_automatically())
    }

    /// Ends the server; returns what it was asked.
    fn stop(self) -> State {
        drop(TcpStream::connect(self.address));
        self.thread.join().expect("the server has no complaint")
    }
}

fn count(state: &State, line: &str) -> usize {
    state.counts.get(line).copied().unwrap_or_default()
}

#[test]
fn refused_upgrade_is_authorized_and_repeated() {
    let server = Server::start(State::default());
    let (lost_tx, lost_rx) = mpsc::channel();
    let mut on_demand = ReconnectOptions::default();
    on_demand.mode = ReconnectMode::OnDemand;
    let client = server.client().reconnect(on_demand).on_connection_event(move |event| {
        if matches!(event, ConnectionEvent::Disconnected { .. }) {
            lost_tx.send(()).unwrap_or(());
        }
    });
    let client = client.connect_blocking().unwrap();
    // The connection ends with each call; the token stays.
    for _ in 0..2 {
        let result = client.call_tool("echo", &json!({})).wait().unwrap();
        assert_eq!(result.text(), "called");
        lost_rx.recv_timeout(TIMEOUT).unwrap();
    }
    block_on(client.close());
    let state = server.stop();
    assert_eq!(count(&state, "GET /authorize"), 1);
    assert_eq!(count(&state, "POST /register"), 1);
    assert_eq!(state.grants, ["authorization_code"]);
}

#[test]
fn endless_refusal_of_upgrade_ends() {
    let server = Server::start(State { refuses_all: true, ..State::default() });
    let error = server.client().connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization, "{error}");
    assert!(error.to_string().contains("401 after 3 authorizations"), "{error}");
    let state = server.stop();
    assert_eq!((count(&state, "GET /authorize"), count(&state, "upgrade")), (3, 4));
}

#[test]
fn denied_access_fails_upgrade() {
    let server = Server::start(State { denies: true, ..State::default() });
    let error = server.client().connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization, "{error}");
    assert!(error.to_string().contains("access_denied"), "{error}");
    assert_eq!(count(&server.stop(), "upgrade"), 1);
}
