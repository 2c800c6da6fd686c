//! haproxy, nginx and Caddy in front of a server, with the configurations of docs/operators.md: two
//! clients behind each are two to the server.
//!
//! `./test.sh` installs them and runs these tests.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use corelane::Options;
use corelane::options::ProxyProtocol;
use corelane_test_support::messages::{modern, result_text};
use corelane_test_support::sockets::connect_from;
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{HttpClient, Process, Request, TestServer, WebSocketClient};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::proxies::{catalog, options, peer_call, peer_request};

const OPERATORS: &str = include_str!("../../../docs/operators.md");
/// The address of the server in the documented configurations.
const UPSTREAM: &str = "127.0.0.1:8080";
/// The name of the server there.
const HOST: &str = "mcp.example.com";
const CLIENTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 21)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 22))];

/// Attempts to connect to a proxy before a test fails; they take several seconds.
const ATTEMPTS_MAX: usize = 1_000_000;

/// A running proxy, until the end of the test.
struct Proxy {
    _process: Process,
    _directory: TempDir,
    _reserved: Socket,
    address: SocketAddr,
}

/// Returns the configuration behind a line of the documentation that begins with `start`.
fn documented(start: &str) -> String {
    let section = OPERATORS.split_once("### Behind a proxy").expect("the documented text").1;
    let behind = section.split_once(&format!("\n{start}")).expect("the documented text").1;
    let (_, block) = behind.split_once("\n```").expect("the documented text");
    let (_, block) = block.split_once('\n').expect("the documented text");
    block.split_once("```").expect("the documented text").0.to_owned()
}

/// Replaces a part of a configuration, which it has once.
fn replace(text: &str, part: &str, other: &str) -> String {
    assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    text.replace(part, other)
}

impl Proxy {
    /// Starts `program` with the configuration that `configure` writes for its address.
    fn start(
        arguments: &[&str],
        configure: impl FnOnce(&Path, SocketAddr) -> String,
        is_ready: impl Fn(&str) -> bool,
    ) -> Self {
        // A proxy may listen on it (SO_REUSEPORT), and no other port 0 becomes it.
        let reserved = Socket::new(Domain::IPV4, Type::STREAM, None).expect("the proxy starts");
        reserved.set_reuse_port(true).expect("the proxy starts");
        reserved
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .expect("the proxy starts");
        let address =
            reserved.local_addr().expect("the proxy starts").as_socket().expect("the proxy starts");
        let directory = tempfile::tempdir().expect("the proxy starts");
        let text = configure(directory.path(), address);
        fs::write(directory.path().join("proxy.conf"), text).expect("the proxy starts");
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]).current_dir(directory.path()).env_clear();
        command.env("PATH", program_path()).env("HOME", directory.path());
        let mut process = Process::spawn(&mut command);
        process.wait_for(is_ready);
        // haproxy does not tell when it listens.
        let mut attempts = (0..ATTEMPTS_MAX).map(|_| TcpStream::connect(address));
        assert!(attempts.any(|it| it.is_ok()), "{arguments:?} does not listen");
        Self { _process: process, _directory: directory, _reserved: reserved, address }
    }
}

/// Returns where programs are searched. Debian has some where users other than root have none.
#[expect(clippy::disallowed_methods, reason = "programs are found as the shell finds them")]
fn program_path() -> String {
    format!("{}:/usr/sbin", env::var("PATH").unwrap_or_default())
}

/// Options of a server behind a proxy on this machine.
fn behind_proxy() -> Options {
    let mut options = options();
    options.proxies.trusted = vec!["127.0.0.1".to_owned()];
    options.http.hosts = vec![HOST.to_owned()];
    options.rate.rules = vec!["tools/call rate=2/h per=address".to_owned()];
    options
}

/// Checks that two clients behind the proxy have their addresses and limits of their own, over
/// HTTP and WebSocket, whatever the first one writes into the fields of proxies.
fn expect_two_clients(proxy: &Proxy, server: TestServer) {
    let request = peer_request().field("Host", HOST);
    for (from, forges) in CLIENTS.into_iter().zip([true, false]) {
        let mut client = HttpClient::connect_from(from, proxy.address);
        let mut request = request.clone();
        if forges {
            request = request.field("X-Forwarded-For", "192.0.2.1");
            request = request.field("Forwarded", "for=192.0.2.2");
        }
        let response = client.exchange(&request);
        assert_eq!(response.status(), 200, "{response:?}");
        let message = response.message();
        let seen: SocketAddr = result_text(&message).parse().expect("an address");
        assert_eq!(seen.ip(), from);

        let upgrade = upgrade_request().field("Host", HOST).bytes();
        let (_, mut socket) = WebSocketClient::upgrade(connect_from(from, proxy.address), &upgrade);
        let message = socket.exchange(&modern(peer_call()));
        let seen: SocketAddr = result_text(&message).parse().expect("an address");
        assert_eq!(seen.ip(), from);

        assert_eq!(client.exchange(&request).status(), 429);
    }
    server.close();
}

/// What a request through a proxy that is not part of the documented paths gets.
fn expect_private_paths(proxy: &Proxy) {
    let mut client = connect_from(CLIENTS[0], proxy.address);
    let request = Request::new("GET", "/metrics").field("Host", HOST).field("Connection", "close");
    client.write_all(&request.bytes()).expect("the proxy answers");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("the proxy answers");
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
}

#[test]
#[ignore = "needs haproxy"]
fn two_clients_behind_haproxy_are_two() {
    let mut options = behind_proxy();
    options.http.proxy_protocol = ProxyProtocol::Required;
    let server = TestServer::with_catalog(options, catalog());
    let upstream = server.http().to_string();
    let arguments = ["haproxy", "-V", "-f", "proxy.conf"];
    let proxy = Proxy::start(
        &arguments,
        |_, address| {
            let text = replace(&documented("haproxy;"), UPSTREAM, &upstream);
            let bind = "bind :443 ssl crt /etc/haproxy/mcp.pem";
            replace(&text, bind, &format!("bind {address}"))
        },
        |line| line.contains("[TRACE] trace"),
    );
    expect_private_paths(&proxy);
    expect_two_clients(&proxy, server);
}

#[test]
#[ignore = "needs nginx"]
fn two_clients_behind_nginx_are_two() {
    let server = TestServer::with_catalog(behind_proxy(), catalog());
    let upstream = server.http().to_string();
    let arguments = ["nginx", "-p", ".", "-c", "proxy.conf", "-e", "stderr"];
    let proxy = Proxy::start(
        &arguments,
        |_, address| {
            let text = replace(&documented("nginx, in a"), UPSTREAM, &upstream);
            let listen = format!("server {{\n    listen {address} reuseport;");
            let text = replace(&text, "server {", &listen);
            let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
            let temporary = kinds.map(|kind| format!("{kind}_temp_path {kind};\n")).concat();
            format!(
                "daemon off; master_process off; pid nginx.pid; error_log stderr notice;
                 events {{ worker_connections 1024; }}
                 http {{ access_log off; {temporary} {text} }}\n"
            )
        },
        |line| line.contains(": nginx/"),
    );
    expect_private_paths(&proxy);
    expect_two_clients(&proxy, server);
}

#[test]
#[ignore = "needs Caddy"]
fn two_clients_behind_caddy_are_two() {
    let server = TestServer::with_catalog(behind_proxy(), catalog());
    let upstream = server.http().to_string();
    let arguments = ["caddy", "run", "--adapter", "caddyfile", "--config", "proxy.conf"];
    let proxy = Proxy::start(
        &arguments,
        |_, address| {
            let text = replace(&documented("Caddy:"), UPSTREAM, &upstream);
            let site = format!("http://{HOST}:{} {{\n    bind {}", address.port(), address.ip());
            let text = replace(&text, "mcp.example.com {", &site);
            format!("{{\n    admin off\n    auto_https off\n}}\n{text}")
        },
        |line| line.contains("serving initial configuration"),
    );
    expect_private_paths(&proxy);
    expect_two_clients(&proxy, server);
}
