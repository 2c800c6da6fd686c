//! The opening handshake: accepted and rejected requests, and the response as tungstenite reads it.

use std::rc::Rc;

use corelane_transport::http::checks::{CheckId, CheckProfile, RequestKind, check_head};
use corelane_transport::http::head::{Head, RequestLimits};
use corelane_transport::http::head_template::{Date, HeadTemplate};
use corelane_transport::http::response::{self, BodyKind, Response};
use corelane_transport::http::status::Status;
use corelane_transport::websocket::handshake::{self, HandshakeOptions, Rejection, Upgrade};

use super::Memory;

/// The request of RFC 6455, section 1.3, as lines.
const REQUEST: [&str; 6] = [
    "GET /mcp/ws HTTP/1.1",
    "Host: localhost",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
];

const WITHOUT_DEFLATE: HandshakeOptions = HandshakeOptions { deflate: false };
const WITH_DEFLATE: HandshakeOptions = HandshakeOptions { deflate: true };

fn profile() -> CheckProfile {
    CheckProfile { websocket: Some(Rc::from("/mcp/ws")), ..CheckProfile::default() }
}

/// Builds the request with `lines` replacing those of the same name; a name alone removes its line.
fn request(lines: &[&str]) -> String {
    let name = |line: &str| line.split([':', ' ']).next().unwrap_or_default().to_lowercase();
    let kept = REQUEST.iter().filter(|line| !lines.iter().any(|new| name(new) == name(line)));
    let first = lines.iter().filter(|line| line.contains(" HTTP/"));
    let others = lines.iter().filter(|line| !line.contains(" HTTP/") && line.contains(": "));
    let all: Vec<&str> = first.chain(kept).chain(others).copied().collect();
    all.join("\r\n") + "\r\n\r\n"
}

/// Runs the checks of a request and of its handshake.
fn run_checks<T>(
    lines: &[&str],
    accepts: HandshakeOptions,
    inspect: impl FnOnce(Upgrade<'_>) -> T,
) -> Result<T, Rejection> {
    let text = request(lines);
    let head = Head::parse(text.as_bytes(), &RequestLimits::default()).unwrap().unwrap();
    let kind = check_head(&head, text.as_bytes(), &profile())?;
    assert_eq!(kind, RequestKind::Upgrade);
    handshake::check_upgrade(&head, text.as_bytes(), accepts).map(inspect)
}

fn failed_check(lines: &[&str]) -> CheckId {
    run_checks(lines, WITHOUT_DEFLATE, |upgrade| format!("{upgrade:?}")).unwrap_err().check
}

fn handshake_response(lines: &[&str], accepts: HandshakeOptions) -> String {
    run_checks(lines, accepts, |upgrade| {
        let mut out = Vec::new();
        handshake::write_response(&mut out, &upgrade, None, b"an-id", &Date::new(784_111_777));
        String::from_utf8(out).unwrap()
    })
    .unwrap()
}

#[test]
fn rfc_6455_example_handshake_is_answered() {
    let expected = "HTTP/1.1 101 Switching Protocols\r\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Request-ID: an-id\r\n\
                    Connection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert_eq!(handshake_response(&[], WITHOUT_DEFLATE), expected);
}

#[test]
fn handshake_response_has_session_id() {
    let response = run_checks(&[], WITHOUT_DEFLATE, |upgrade| {
        let mut out = Vec::new();
        handshake::write_response(
            &mut out,
            &upgrade,
            Some(b"a-name"),
            b"an-id",
            &Date::new(784_111_777),
        );
        String::from_utf8(out).unwrap()
    });
    assert!(response.unwrap().contains("\r\nMcp-Session-Id: a-name\r\n"));
}

#[test]
fn handshake_accepts_equivalent_header_forms() {
    for lines in [
        &["GET /mcp/ws?token=1 HTTP/1.1"][..],
        &["GET /mcp/ws/ HTTP/1.1"],
        &["connection: keep-alive, Upgrade", "upgrade: WebSocket"],
        &["Connection: UPGRADE", "Upgrade: h2c,websocket"],
        &["Content-Length: 0"],
        &["Sec-WebSocket-Extensions: permessage-deflate, x-unknown; a=b"],
    ] {
        assert!(run_checks(lines, WITHOUT_DEFLATE, |_| ()).is_ok(), "{lines:?}");
    }
}

#[test]
fn handshake_failing_one_check_is_rejected_by_it() {
    for (expected, lines) in FAILING_REQUESTS {
        let rejection =
            run_checks(lines, WITHOUT_DEFLATE, |upgrade| format!("{upgrade:?}")).unwrap_err();
        assert_eq!(rejection.check, expected, "{lines:?}");
        assert_eq!(rejection.status, expected.check().status, "{lines:?}");
    }
}

#[test]
fn handshake_failing_several_checks_reports_the_first() {
    let broken = |from: usize| {
        let lines: Vec<&str> = FAILING_LINES[from..].iter().map(|(_, line)| *line).collect();
        failed_check(&lines)
    };
    for (from, (expected, _)) in FAILING_LINES.iter().enumerate() {
        assert_eq!(broken(from), *expected);
    }
}

#[test]
fn websocket_path_exists_only_if_configured() {
    let text = request(&[]);
    let head = Head::parse(text.as_bytes(), &RequestLimits::default()).unwrap().unwrap();
    let admitted = |profile: &CheckProfile| {
        check_head(&head, text.as_bytes(), profile)
            .map(|kind| kind == RequestKind::Upgrade)
            .map_err(|rejection| rejection.check)
    };
    assert_eq!(admitted(&CheckProfile::default()), Err(CheckId::Path));
    assert_eq!(admitted(&profile()), Ok(true));
    let elsewhere = CheckProfile { websocket: Some(Rc::from("/ws")), ..CheckProfile::default() };
    assert_eq!(admitted(&elsewhere), Err(CheckId::Path));
}

#[test]
fn websocket_path_allows_only_get() {
    for verb in ["POST", "DELETE", "HEAD", "PUT"] {
        let line = format!("{verb} /mcp/ws HTTP/1.1");
        let text = request(&["GET", &line]);
        let head = Head::parse(text.as_bytes(), &RequestLimits::default()).unwrap().unwrap();
        let rejection = check_head(&head, text.as_bytes(), &profile()).unwrap_err();
        assert_eq!(
            (rejection.check, rejection.allow),
            (CheckId::HttpMethod, Some("GET, OPTIONS")),
            "{verb}"
        );
    }
}

#[test]
fn upgrade_required_response_names_the_protocol() {
    for (status, closes, connection) in [
        (Status::UPGRADE_REQUIRED, false, Some("Connection: Upgrade")),
        (Status::UPGRADE_REQUIRED, true, Some("Connection: close, Upgrade")),
        (Status::BAD_REQUEST, false, None),
    ] {
        let mut out = Vec::new();
        let response = Response { close: closes, ..Response::new(status, BodyKind::Json) };
        response::write_response(&mut out, &response, &mut HeadTemplate::new(0, 7, 0), b"{}");
        let text = String::from_utf8(out).unwrap();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name));
        assert_eq!(line("Connection:"), connection);
        let is_upgrade = status == Status::UPGRADE_REQUIRED;
        assert_eq!(line("Upgrade:"), is_upgrade.then_some("Upgrade: websocket"));
        let version = is_upgrade.then_some("Sec-WebSocket-Version: 13");
        assert_eq!(line("Sec-WebSocket-Version:"), version);
    }
}

#[test]
fn first_supported_subprotocol_is_selected() {
    let chosen = |offered: &[&str]| {
        run_checks(offered, WITHOUT_DEFLATE, |upgrade| upgrade.subprotocol).unwrap()
    };
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: mcp"]), Some("mcp"));
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: mcp.v1"]), Some("mcp.v1"));
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: soap, mcp , mcp.v1"]), Some("mcp"));
    let lines = ["Sec-WebSocket-Protocol: mcp.v2", "sec-websocket-protocol: mcp.v1,mcp"];
    assert_eq!(chosen(&lines), Some("mcp.v1"));
    let response = handshake_response(&["Sec-WebSocket-Protocol: mcp"], WITHOUT_DEFLATE);
    assert!(response.contains("\r\nSec-WebSocket-Protocol: mcp\r\n"), "{response}");
}

/// Returns the response to an offer of extensions.
fn negotiated_extensions(offer: &str, accepts: HandshakeOptions) -> Option<String> {
    let response = handshake_response(&[&format!("Sec-WebSocket-Extensions: {offer}")], accepts);
    let mut lines = response.lines();
    lines.find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: ").map(str::to_owned))
}

const NEGOTIATED: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

#[test]
fn permessage_deflate_is_negotiated_if_enabled() {
    for offer in [
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; client_max_window_bits=9",
        "permessage-deflate;client_max_window_bits=\"15\";server_no_context_takeover",
        "x-webkit-deflate-frame, Permessage-Deflate; Client_No_Context_Takeover",
    ] {
        assert_eq!(
            negotiated_extensions(offer, WITH_DEFLATE).as_deref(),
            Some(NEGOTIATED),
            "{offer}"
        );
        assert_eq!(negotiated_extensions(offer, WITHOUT_DEFLATE), None);
    }
}

#[test]
fn requested_window_bits_are_accepted() {
    for bits in 9..=15 {
        let offer = format!("permessage-deflate; server_max_window_bits={bits}");
        let expected = format!("{NEGOTIATED}; server_max_window_bits={bits}");
        assert_eq!(negotiated_extensions(&offer, WITH_DEFLATE), Some(expected));
        let line = format!("Sec-WebSocket-Extensions: {offer}");
        let window =
            run_checks(&[&line], WITH_DEFLATE, |upgrade| upgrade.deflate.unwrap().window_bits());
        assert_eq!(window, Ok(bits));
    }
    // Windows of 8 bits are not supported, so the next offer is selected.
    let offer = "permessage-deflate; server_max_window_bits=8, permessage-deflate";
    assert_eq!(negotiated_extensions(offer, WITH_DEFLATE).as_deref(), Some(NEGOTIATED));
}

#[test]
fn invalid_deflate_offer_is_declined() {
    for offer in [
        "permessage-deflate; unknown",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=015",
        "permessage-deflate; client_max_window_bits=x",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate;",
        "permessage-bzip2",
        "",
    ] {
        assert_eq!(negotiated_extensions(offer, WITH_DEFLATE), None, "{offer}");
    }
}

#[test]
fn tungstenite_accepts_the_handshake_response() {
    use tungstenite::handshake::client::{Request, generate_key};

    for _ in 0..20 {
        let key = generate_key();
        let response = handshake_response(&[&format!("Sec-WebSocket-Key: {key}")], WITHOUT_DEFLATE);
        let accepted = tungstenite::handshake::derive_accept_key(key.as_bytes());
        assert!(response.contains(&format!("Sec-WebSocket-Accept: {accepted}\r\n")));
        let stream = Memory(response.as_bytes());
        let request = Request::builder()
            .uri("ws://localhost/mcp/ws")
            .header("Host", "localhost")
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", key)
            .body(())
            .unwrap();
        tungstenite::client(request, stream).unwrap();
    }
}

/// Requests that fail one check each.
const FAILING_REQUESTS: [(CheckId, &[&str]); 20] = [
    (CheckId::UpgradeRequested, &["Upgrade"]),
    (CheckId::UpgradeRequested, &["Upgrade: h2c"]),
    (CheckId::UpgradeRequested, &["Upgrade: websockets"]),
    (CheckId::UpgradeRequested, &["Connection"]),
    (CheckId::UpgradeRequested, &["Connection: keep-alive"]),
    (CheckId::UpgradeRequested, &["GET /mcp/ws HTTP/1.0"]),
    (CheckId::UpgradeBody, &["Content-Length: 2"]),
    (CheckId::UpgradeBody, &["Transfer-Encoding: chunked"]),
    (CheckId::UpgradeVersion, &["Sec-WebSocket-Version"]),
    (CheckId::UpgradeVersion, &["Sec-WebSocket-Version: 8"]),
    (CheckId::UpgradeVersion, &["Sec-WebSocket-Version: 13, 8"]),
    (CheckId::UpgradeVersion, &["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13"]),
    (CheckId::UpgradeKey, &["Sec-WebSocket-Key"]),
    (CheckId::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ="]),
    (CheckId::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQQQ"]),
    (CheckId::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j*Q=="]),
    (CheckId::UpgradeKey, &["Sec-WebSocket-Key: AAAA", "Sec-WebSocket-Key: BBBB"]),
    (CheckId::UpgradeProtocol, &["Sec-WebSocket-Protocol: soap"]),
    (CheckId::UpgradeProtocol, &["Sec-WebSocket-Protocol: MCP, mcp.v2"]),
    (CheckId::UpgradeProtocol, &["Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: wamp"]),
];

/// One line that fails each check, in order.
const FAILING_LINES: [(CheckId, &str); 5] = [
    (CheckId::UpgradeRequested, "Connection: close"),
    (CheckId::UpgradeBody, "Content-Length: 9"),
    (CheckId::UpgradeVersion, "Sec-WebSocket-Version: 12"),
    (CheckId::UpgradeKey, "Sec-WebSocket-Key: short"),
    (CheckId::UpgradeProtocol, "Sec-WebSocket-Protocol: other"),
];
