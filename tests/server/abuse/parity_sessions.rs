//! Sessions of the parity dialect under attack: handshakes over HTTP without a request after
//! them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpStream};

use corelane::Options;
use corelane_test_support::{TestServer, http_options, over_each_ring, sockets};
use serde_json::{Value, json};

use crate::abuse::honest_clients::expect_healthy;
use crate::authorization::http::{Response, read};

const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// More than a server of these options has sessions.
const HANDSHAKES: u32 = 600;

fn small() -> Options {
    let mut options = http_options();
    options.http.connections_max = 16;
    options.websocket.connections_max = 1;
    options
}

/// Sends a message over a connection that is kept, with these header fields.
fn send(stream: &mut TcpStream, fields: &str, message: &Value) -> Response {
    let body = message.to_string();
    let head = format!("POST /parity HTTP/1.1\r\nHost: localhost\r\n{fields}");
    let content = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
    let request = format!("{head}{content}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the server reads");
    read(stream)
}

/// Begins a session. Returns its id, or `None` if it is refused.
fn begin(stream: &mut TcpStream) -> Option<String> {
    let handshake = json!({
        "type": "handshake",
        "protocolVersion": "1.0",
        "capabilities": {"tools": true},
    });
    send(stream, "", &handshake).field("Mcp-Session-Id").map(str::to_owned)
}

/// Returns the status of a ping in a session.
fn ping(stream: &mut TcpStream, session: &str) -> u16 {
    let ping = json!({"type": "request", "id": 1, "method": "ping"});
    send(stream, &format!("Mcp-Session-Id: {session}\r\n"), &ping).status
}

#[test]
fn handshakes_of_others_leave_session_and_place() {
    over_each_ring(small(), |options| {
        let server = TestServer::start(options);
        let connect = |from| sockets::connect_from(from, server.http());
        let mut honest = connect(HONEST);
        let own = begin(&mut honest).expect("a session");
        let attackers = [[127, 0, 0, 2], [127, 0, 0, 10], [127, 0, 1, 2], [127, 0, 0, 1]];
        for address in attackers {
            let mut attacker = connect(IpAddr::from(address));
            for _ in 0..HANDSHAKES {
                begin(&mut attacker);
            }
        }
        assert_eq!(ping(&mut honest, &own), 200);
        for address in [[127, 0, 0, 4], [127, 0, 2, 2], [127, 0, 0, 1]] {
            let mut late = connect(IpAddr::from(address));
            let session = begin(&mut late).expect("a place");
            assert_eq!(ping(&mut late, &session), 200);
        }
        expect_healthy(&server);
        drop(honest);
        server.close();
    });
}
