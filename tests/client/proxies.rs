//! HTTP proxies between the client and its server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientError, ClientErrorKind, ProxyOptions, TlsOptions};
use corelane_test_support::tls::{Issuer, Terminator, TlsFault, serve};
use corelane_test_support::{TestServer, http_options};
use serde_json::json;

/// A proxy that answers `CONNECT` with `status`, and passes everything else on to `server`.
/// Returns its address and the first line and the authorization of each connection.
fn start_proxy(server: SocketAddr, status: &'static str) -> (SocketAddr, Receiver<[String; 2]>) {
    let (sender, heads) = channel();
    let address = serve(move |stream| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && reader.read_until(b'\n', &mut head).is_ok() {}
            let text = String::from_utf8_lossy(&head).into_owned();
            let mut lines = text.lines();
            let first = lines.next().unwrap_or_default().to_owned();
            let named = lines.find(|line| line.starts_with("Proxy-Authorization"));
            let is_tunnel = first.starts_with("CONNECT ");
            sender.send([first, named.unwrap_or_default().to_owned()]).ok();
            let mut upstream = TcpStream::connect(server).expect("the server listens");
            let begun = if is_tunnel {
                let mut client = &stream;
                client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).ok();
                reader.buffer().to_vec()
            } else {
                // The server accepts the absolute form (RFC 9112, section 3.2.2).
                [&head, reader.buffer()].concat()
            };
            upstream.write_all(&begun).ok();
            relay(stream, upstream);
        });
    });
    (address, heads)
}

/// Passes on the bytes of both directions until both have ended.
pub(crate) fn relay(client: TcpStream, server: TcpStream) {
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        thread::spawn(move || {
            std::io::copy(&mut from, &mut to).ok();
            to.shutdown(Shutdown::Write).ok();
        })
    };
    let clone = |stream: &TcpStream| stream.try_clone().expect("a socket");
    let threads = [copy(clone(&client), clone(&server)), copy(server, client)];
    for thread in threads {
        thread.join().expect("it ends");
    }
}

fn proxy_at(address: SocketAddr) -> ProxyOptions {
    ProxyOptions::all(&format!("http://user:secret@{address}")).expect("a proxy")
}

fn echo(builder: ClientBuilder) -> Result<String, ClientError> {
    let client = builder.connect_blocking()?;
    let result = client.call_tool("echo", &json!({ "message": "hi" })).wait();
    result.map(|result| result.text())
}

const CREDENTIALS: &str = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=";

#[test]
fn encrypted_server_is_reached_by_tunnel() {
    let mut options = http_options();
    options.http.hosts = vec!["mcp.example:8443".to_owned()];
    let (issuer, server) = (Issuer::new(), TestServer::start(options));
    let terminator = Terminator::start(server.http(), issuer.good_server(), TlsFault::NoFault);
    let behind = SocketAddr::from(([127, 0, 0, 1], terminator.port()));
    for scheme in ["https", "wss"] {
        let (proxy, heads) = start_proxy(behind, "200 Connection established");
        // Only the proxy knows the name.
        let target = format!("{scheme}://mcp.example:8443");
        let tls = TlsOptions::new().ca(issuer.pem().into_bytes()).server_name("localhost");
        let builder = Client::builder(target.as_str()).tls(tls).proxy(proxy_at(proxy));
        assert_eq!(echo(builder).unwrap(), "hi", "{scheme}");
        let [first, authorization] = heads.recv().unwrap();
        assert_eq!(first, "CONNECT mcp.example:8443 HTTP/1.1");
        assert_eq!(authorization, CREDENTIALS);
    }
}

#[test]
fn plain_server_is_reached_by_whole_url() {
    let server = TestServer::start(http_options());
    let (proxy, heads) = start_proxy(server.http(), "500");
    let target = format!("http://{}/mcp", server.http());
    assert_eq!(echo(Client::builder(target.as_str()).proxy(proxy_at(proxy))).unwrap(), "hi");
    let [first, authorization] = heads.recv().unwrap();
    assert_eq!(first, format!("POST {target} HTTP/1.1"));
    assert_eq!(authorization, CREDENTIALS);
}

#[test]
fn excepted_server_is_reached_directly() {
    let server = TestServer::start(http_options());
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    let target = format!("http://{}/mcp", server.http());
    let builder = |proxies| Client::builder(target.as_str()).proxy(proxies);
    assert_eq!(echo(builder(proxy_at(closed).except("127.0.0.0/8"))).unwrap(), "hi");
    assert_eq!(echo(builder(ProxyOptions::none())).unwrap(), "hi");
    let error = echo(builder(proxy_at(closed))).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect);
    assert!(error.to_string().contains("through the proxy 127.0.0.1:1"), "{error}");
}

#[test]
fn refusal_of_proxy_is_named() {
    let server = TestServer::start(http_options());
    for (status, text) in [
        ("407 Proxy Authentication Required", "refused the user name and password (407)"),
        ("403 Forbidden", "refused to connect (403 Forbidden)"),
        ("garbage", "does not speak HTTP"),
    ] {
        let (proxy, _heads) = start_proxy(server.http(), status);
        let builder = Client::builder("ws://mcp.example").proxy(proxy_at(proxy));
        let error = echo(builder).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn proxy_that_closes_fails_connection() {
    let address = serve(|mut stream| drop(stream.read(&mut [0; 1_024])));
    let builder = Client::builder("ws://mcp.example").proxy(proxy_at(address));
    let error = echo(builder).unwrap_err();
    assert!(error.to_string().contains("closed the connection"), "{error}");
}
