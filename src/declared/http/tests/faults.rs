//! Faults of servers and of the network.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::{
    HttpClient, HttpDeclaration, HttpTool, Reply, TestServer, arguments, block_on, call, failed,
    limits, tool, tool_with,
};
use crate::declared::call::{Failure, Output};
use crate::declared::limits::CallLimits;

const GET: &str = "url = \"ORIGIN/x\"";

fn redirect(status: &str, location: &str) -> Reply {
    Reply::new(status, &format!("Location: {location}"), "")
}

#[test]
fn redirect_within_origin_is_followed() {
    let server = TestServer::start(|_, target| match target {
        "/x" => redirect("301 Moved Permanently", "/y"),
        "/y" => redirect("307 Temporary Redirect", "z?a=b"),
        _ => Reply::json("{\"at\":\"z\"}"),
    });
    let output = call(&tool(&server, GET), &json!({})).unwrap();
    assert_eq!(output, Output::Json(json!({ "at": "z" })));
    let targets: Vec<String> = server.received().iter().map(|it| it.target().to_owned()).collect();
    assert_eq!(targets, ["/x", "/y", "/z?a=b"]);
}

#[test]
fn redirect_to_another_origin_is_refused() {
    let other = TestServer::always(Reply::json("{}"));
    let by_port = format!("{}/", other.origin());
    let by_name = format!("http://localhost:{}/", other.port());
    let targets = [
        by_port.as_str(),
        &by_name,
        "http://b.example/",
        "https://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "//b.example/",
        "file:///etc/passwd",
    ];
    for target in targets {
        let server = TestServer::always(redirect("302 Found", target));
        let text = failed(&tool(&server, GET), &json!({}));
        assert!(text.contains("302 Found with a redirect to "), "{target}: {text}");
        assert_eq!(server.received().len(), 1);
    }
    assert!(other.received().is_empty());
}

#[test]
fn redirects_are_bounded() {
    let server = TestServer::always(redirect("302 Found", "/x"));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.contains("302 Found too often"), "{text}");
    assert_eq!(server.received().len(), 6);
    let nowhere = TestServer::always(Reply::new("302 Found", "", ""));
    assert!(failed(&tool(&nowhere, GET), &json!({})).contains("without a valid Location"));
}

#[test]
fn name_with_private_address_is_refused() {
    let server = TestServer::always(Reply::json("{}"));
    let text = format!("url = \"http://localhost:{}/\"\n", server.port());
    let declare = |more: &str| {
        let declaration: HttpDeclaration = toml::from_str(&format!("{text}{more}")).unwrap();
        HttpTool::new(&declaration, &mut HttpClient::new(), limits()).unwrap()
    };
    let text = failed(&declare(""), &json!({}));
    assert!(text.contains("localhost has the address "), "{text}");
    assert!(text.contains("a loopback address, which private_addresses does not list"), "{text}");
    assert!(server.received().is_empty());
    for listed in ["localhost", "127.0.0.0/8"] {
        call(&declare(&format!("private_addresses = [\"{listed}\"]")), &json!({})).unwrap();
    }
    let others = declare("private_addresses = [\"10.0.0.0/8\", \"intranet.example\"]");
    assert!(failed(&others, &json!({})).contains("does not list"));
}

#[test]
fn too_many_requests_are_repeated_later() {
    let server = TestServer::start(|number, _| match number {
        0 => Reply::new("429 Too Many Requests", "Retry-After: 0", "slow down"),
        1 => Reply::new("503 Service Unavailable", "Retry-After: 0", "slow down"),
        _ => Reply::json("1"),
    });
    assert_eq!(call(&tool(&server, GET), &json!({})), Ok(Output::Json(json!(1))));
    assert_eq!(server.received().len(), 3);
}

#[test]
fn long_retry_after_is_a_failure() {
    let busy = Reply::new("429 Too Many Requests", "Retry-After: 3600", "{\"message\":\"quota\"}");
    let server = TestServer::always(busy);
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(
        text.contains("429 Too Many Requests (it asks to wait 3600 s): {\"message\":\"quota\"}"),
        "{text}"
    );
    assert_eq!(server.received().len(), 1);
}

#[test]
fn unsafe_methods_are_sent_once() {
    let busy = Reply::new("503 Service Unavailable", "Retry-After: 0", "");
    for (declaration, requests) in [
        ("method = \"POST\"", 1),
        ("method = \"PUT\"", 1),
        ("method = \"DELETE\"", 1),
        ("method = \"DELETE\"\nretry = { idempotent = true }", 3),
        ("method = \"POST\"\nretry = { idempotent = true }", 1),
        ("retry = { attempts = 2 }", 2),
        ("retry = { attempts = 1 }", 1),
    ] {
        let server = TestServer::always(busy.clone());
        let text = failed(&tool(&server, &format!("{GET}\n{declaration}")), &json!({}));
        assert!(text.contains("503 Service Unavailable"), "{text}");
        assert_eq!(server.received().len(), requests, "{declaration}");
    }
}

#[test]
fn error_has_status_and_start_of_body() {
    let body = format!("{{\"message\":\r\n\t\"no\0 such {}\"}}", "item ".repeat(2000));
    let server = TestServer::always(Reply::new("500 Internal Server Error", "", &body));
    let text = failed(&tool(&server, GET), &json!({}));
    let host = &server.origin()[7..];
    let start =
        format!("GET {host}: the server answered 500 Internal Server Error: {{\"message\":");
    assert!(text.starts_with(&format!("{start} \"no such item item")), "{text}");
    assert!(text.len() < 1200 && text.ends_with('…'), "{text}");
    assert!(!text.contains(['\0', '\n', '\r', '\t']));
    let page = "<html><title>502 Bad Gateway</title><body>nginx";
    let server = TestServer::always(Reply::new("502 Bad Gateway", "Content-Type: text/html", page));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.ends_with("answered 502 Bad Gateway: 502 Bad Gateway"), "{text}");
}

#[test]
fn endless_body_is_refused() {
    let heads = ["Transfer-Encoding: chunked\r\n", "Content-Length: 99999999999\r\n", ""];
    for head in heads {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{head}\r\n");
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        let server = TestServer::always(Reply::Endless(head.into_bytes(), chunk.into_bytes()));
        let text = failed(&tool(&server, GET), &json!({}));
        assert!(text.contains("more than the 1048576 bytes that are allowed"), "{text}");
        server.wait_for_close();
    }
    let head = b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let server = TestServer::always(Reply::Endless(head, b"3\r\nabc\r\n".to_vec()));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.contains("500 Internal Server Error: abcabc"), "{text}");
    server.wait_for_close();
}

#[test]
fn endless_head_is_refused() {
    let server = TestServer::always(Reply::Endless(
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"X-Header: value\r\n".repeat(100),
    ));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.contains("the connection failed"), "{text}");
    server.wait_for_close();
}

#[test]
fn compressed_body_is_bounded_after_decompression() {
    let compress = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let headers = "Content-Type: application/json\nContent-Encoding: gzip";
    let small = TestServer::always(Reply::new("200 OK", headers, compress(b"[1,2]")));
    assert_eq!(call(&tool(&small, GET), &json!({})), Ok(Output::Json(json!([1, 2]))));
    assert_eq!(small.request().header("accept-encoding"), Some("gzip"));
    let bomb = compress(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < 1 << 20);
    let server = TestServer::always(Reply::new("200 OK", headers, bomb));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.contains("more than the 1048576 bytes"), "{text}");
    let server = TestServer::always(Reply::new("200 OK", headers, "not gzip"));
    let text = failed(&tool(&server, GET), &json!({}));
    assert!(text.contains("broke off"), "{text}");
}

#[test]
fn slow_response_ends_at_the_timeout() {
    let limits = CallLimits { timeout: Duration::from_millis(300), ..limits() };
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    for bytes in ["", "HTTP/1.1 200", head, "HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\nabc"] {
        let server = TestServer::always(Reply::Hang(bytes.as_bytes().to_vec()));
        let text = failed(&tool_with(&server, GET, limits), &json!({}));
        assert!(text.contains("no complete response within 0.3 s"), "{text}");
        server.wait_for_close();
    }
}

#[test]
fn broken_response_is_a_failure() {
    let cases = [
        ("", "the connection failed"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "the response broke off"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the response broke off"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "the connection failed"),
    ];
    for (bytes, expected) in cases {
        let server = TestServer::always(Reply::Close(bytes.as_bytes().to_vec()));
        let text = failed(&tool(&server, GET), &json!({}));
        assert!(text.contains(expected), "{bytes:?}: {text}");
    }
}

#[test]
fn refused_connection_is_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let text = format!(
        "url = \"http://{address}/\"\nprivate_addresses = [\"127.0.0.1\"]\n\
         retry = {{ attempts = 2, wait = 1 }}"
    );
    let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
    let tool = HttpTool::new(&declaration, &mut HttpClient::new(), limits()).unwrap();
    let text = failed(&tool, &json!({}));
    assert!(text.contains("no connection: Connection refused"), "{text}");
    assert!(text.ends_with("(after 2 requests)"), "{text}");
}

#[test]
fn server_without_tls_is_named() {
    let server = TestServer::always(Reply::json("{}"));
    let text = format!(
        "url = \"https://127.0.0.1:{}/\"\nprivate_addresses = [\"127.0.0.1\"]\nmethod = \"POST\"",
        server.port()
    );
    let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
    let tool = HttpTool::new(&declaration, &mut HttpClient::new(), limits()).unwrap();
    let handle = std::thread::spawn(move || failed(&tool, &json!({})));
    drop(server);
    let text = handle.join().unwrap();
    assert!(text.contains("no connection: "), "{text}");
}

#[test]
fn dropped_call_closes_its_connection() {
    let server = TestServer::always(Reply::Hang(Vec::new()));
    let tool = tool(&server, GET);
    block_on(async {
        let task =
            tokio::spawn(async move { super::run(&tool, arguments(&json!({})), 1 << 20).await });
        while server.received().is_empty() {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        server.wait_for_close();
    });
}

#[test]
fn failure_shows_no_url() {
    let server = TestServer::always(Reply::Close(Vec::new()));
    let tool = tool(&server, "url = \"ORIGIN/bot-s3cr3t/x?key=s3cr3t\"");
    let Err(Failure::Failed(text)) = call(&tool, &json!({})) else { panic!("the call succeeded") };
    assert!(!text.contains("s3cr3t"), "{text}");
}
