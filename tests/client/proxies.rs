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

/// A SOCKS proxy that wants `user` and `secret`, answers a request with `reply`, and connects to
/// `server`. Sends the requests, from the type of the address on.
fn start_socks(server: SocketAddr, reply: u8) -> (SocketAddr, Receiver<Vec<u8>>) {
    let (sender, requests) = channel();
    let address = serve(move |mut stream| {
        let sender = sender.clone();
        thread::spawn(move || {
            let read = |stream: &mut TcpStream, length: usize| {
                let mut bytes = vec![0; length];
                stream.read_exact(&mut bytes).expect("a request");
                bytes
            };
            assert_eq!(read(&mut stream, 4), [5, 2, 0, 2]);
            stream.write_all(&[5, 2]).expect("the client reads");
            assert_eq!(read(&mut stream, 2), [1, 4]);
            let login = read(&mut stream, 4 + 1 + 6);
            let is_right = login == b"user\x06secret";
            stream.write_all(&[1, u8::from(!is_right)]).expect("the client reads");
            if !is_right {
                return;
            }
            assert_eq!(read(&mut stream, 3), [5, 1, 0]);
            let mut request = read(&mut stream, 1);
            let length = match request[0] {
                1 => 4,
                4 => 16,
                3 => {
                    request.extend(read(&mut stream, 1));
                    usize::from(request[1])
                }
                other => panic!("{other}"),
            };
            request.extend(read(&mut stream, length + 2));
            sender.send(request).ok();
            stream.write_all(&[5, reply, 0, 1, 127, 0, 0, 1, 0, 1]).expect("the client reads");
            if reply == 0 {
                relay(stream, TcpStream::connect(server).expect("the server listens"));
            }
        });
    });
    (address, requests)
}

fn socks_at(scheme: &str, password: &str, address: SocketAddr) -> ProxyOptions {
    ProxyOptions::all(&format!("{scheme}://user:{password}@{address}")).expect("a proxy")
}

#[test]
fn server_is_reached_through_socks() {
    let mut options = http_options();
    options.http.hosts = vec!["mcp.example:8080".to_owned()];
    let server = TestServer::start(options);
    let (proxy, requests) = start_socks(server.http(), 0);
    for scheme in ["http", "ws"] {
        // Only the proxy knows the name.
        let target = format!("{scheme}://mcp.example:8080");
        let proxies = socks_at("socks5h", "secret", proxy);
        assert_eq!(echo(Client::builder(target.as_str()).proxy(proxies)).unwrap(), "hi");
        let mut expected = b"\x03\x0bmcp.example".to_vec();
        expected.extend(8080_u16.to_be_bytes());
        assert_eq!(requests.recv().unwrap(), expected, "{scheme}");
    }
    let server = TestServer::start(http_options());
    let (proxy, requests) = start_socks(server.http(), 0);
    let target = format!("http://localhost:{}/mcp", server.http().port());
    let proxies = socks_at("socks5", "secret", proxy);
    assert_eq!(echo(Client::builder(target.as_str()).proxy(proxies)).unwrap(), "hi");
    let request = requests.recv().unwrap();
    assert_eq!(request[request.len() - 2..], server.http().port().to_be_bytes());
    // The client has resolved the name.
    assert_ne!(request[0], 3);
}

#[test]
fn refusal_of_socks_proxy_is_named() {
    let server = TestServer::start(http_options());
    for (password, reply, text) in [
        ("secrat", 0, "refused the user name and password"),
        ("secret", 2, "not allowed by its rules"),
        ("secret", 5, "the connection was refused"),
        ("secret", 77, "an unknown reply"),
    ] {
        let (proxy, _requests) = start_socks(server.http(), reply);
        let builder =
            Client::builder("ws://mcp.example").proxy(socks_at("socks5h", password, proxy));
        let error = echo(builder).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains(password), "{error}");
    }
    let error = ProxyOptions::all("https://proxy.example:3128").unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    assert!(error.to_string().contains("use an http://, socks5h:// or socks5:// proxy"), "{error}");
}
