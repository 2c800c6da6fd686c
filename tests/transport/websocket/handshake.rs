//! The opening handshake: which requests become a WebSocket, what the others are told, and that
//! another implementation takes the answer.

use std::rc::Rc;

use corelane::transport::http::date::Date;
use corelane::transport::http::head::Head;
use corelane::transport::http::ladder::{Kind, Looker, Profile, RUNGS, Step, admit_head};
use corelane::transport::http::limits::Limits;
use corelane::transport::http::response::{self, Body, Response};
use corelane::transport::http::status::Status;
use corelane::transport::websocket::handshake::{self, Accepts, Refusal, Upgrade};

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

const PLAIN: Accepts = Accepts { deflate: false };
const DEFLATING: Accepts = Accepts { deflate: true };

fn profile() -> Profile {
    Profile { websocket: Some(Rc::from("/mcp/ws")), ..Profile::default() }
}

/// The request with some lines in the place of others, found by their first words.
fn request(lines: &[&str]) -> String {
    let name = |line: &str| line.split([':', ' ']).next().unwrap_or_default().to_lowercase();
    let kept = REQUEST.iter().filter(|line| !lines.iter().any(|new| name(new) == name(line)));
    let first = lines.iter().filter(|line| line.contains(" HTTP/"));
    let others = lines.iter().filter(|line| !line.contains(" HTTP/") && line.contains(": "));
    let all: Vec<&str> = first.chain(kept).chain(others).copied().collect();
    all.join("\r\n") + "\r\n\r\n"
}

/// What becomes of such a request on its way up.
fn climb<T>(
    lines: &[&str],
    accepts: Accepts,
    look: impl FnOnce(Upgrade<'_>) -> T,
) -> Result<T, Refusal> {
    let text = request(lines);
    let head = Head::parse(text.as_bytes(), &Limits::default()).unwrap().unwrap();
    let kind = admit_head(&head, text.as_bytes(), &profile())?;
    assert_eq!(kind, Kind::Upgrade);
    handshake::accept(&head, text.as_bytes(), &accepts).map(look)
}

fn step(lines: &[&str]) -> Step {
    climb(lines, PLAIN, |upgrade| format!("{upgrade:?}")).unwrap_err().step
}

fn answer(lines: &[&str], accepts: Accepts) -> String {
    climb(lines, accepts, |upgrade| {
        let mut out = Vec::new();
        handshake::write(&mut out, &upgrade, &Date::new(784_111_777));
        String::from_utf8(out).unwrap()
    })
    .unwrap()
}

#[test]
fn the_example_of_the_standard_is_answered_as_it_says() {
    let expected = "HTTP/1.1 101 Switching Protocols\r\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                    Connection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert_eq!(answer(&[], PLAIN), expected);
}

#[test]
fn what_clients_write_differently_means_the_same() {
    for lines in [
        &["GET /mcp/ws?token=1 HTTP/1.1"][..],
        &["GET /mcp/ws/ HTTP/1.1"],
        &["connection: keep-alive, Upgrade", "upgrade: WebSocket"],
        &["Connection: UPGRADE", "Upgrade: h2c,websocket"],
        &["Content-Length: 0"],
        &["Sec-WebSocket-Extensions: permessage-deflate, x-unknown; a=b"],
    ] {
        assert!(climb(lines, PLAIN, |_| ()).is_ok(), "{lines:?}");
    }
}

#[test]
fn a_request_that_breaks_one_rung_is_refused_there() {
    for (expected, lines) in BROKEN {
        let refusal = climb(lines, PLAIN, |upgrade| format!("{upgrade:?}")).unwrap_err();
        assert_eq!(refusal.step, expected, "{lines:?}");
        assert_eq!(refusal.status, expected.rung().status, "{lines:?}");
    }
}

#[test]
fn every_rung_of_the_handshake_is_broken_by_some_request() {
    for rung in RUNGS.iter().filter(|rung| rung.by == Looker::Handshake) {
        assert!(BROKEN.iter().any(|(step, _)| *step == rung.step), "{:?}", rung.step);
    }
}

#[test]
fn a_request_that_breaks_several_rungs_is_told_of_the_lowest() {
    let broken = |from: usize| {
        let lines: Vec<&str> = BROKEN_ALIKE[from..].iter().map(|(_, line)| *line).collect();
        step(&lines)
    };
    for (from, (expected, _)) in BROKEN_ALIKE.iter().enumerate() {
        assert_eq!(broken(from), *expected);
    }
}

#[test]
fn there_is_no_path_unless_the_server_has_one() {
    let text = request(&[]);
    let head = Head::parse(text.as_bytes(), &Limits::default()).unwrap().unwrap();
    let admitted = |profile: &Profile| {
        admit_head(&head, text.as_bytes(), profile)
            .map(|kind| kind == Kind::Upgrade)
            .map_err(|refusal| refusal.step)
    };
    assert_eq!(admitted(&Profile::default()), Err(Step::Path));
    assert_eq!(admitted(&profile()), Ok(true));
    let elsewhere = Profile { websocket: Some(Rc::from("/ws")), ..Profile::default() };
    assert_eq!(admitted(&elsewhere), Err(Step::Path));
}

#[test]
fn other_verbs_are_told_which_ones_there_are() {
    for verb in ["POST", "DELETE", "HEAD", "PUT"] {
        let line = format!("{verb} /mcp/ws HTTP/1.1");
        let text = request(&["GET", &line]);
        let head = Head::parse(text.as_bytes(), &Limits::default()).unwrap().unwrap();
        let refusal = admit_head(&head, text.as_bytes(), &profile()).unwrap_err();
        assert_eq!((refusal.step, refusal.allow), (Step::Verb, Some("GET, OPTIONS")), "{verb}");
    }
}

#[test]
fn an_answer_that_asks_to_upgrade_says_to_what() {
    for (status, closes, connection) in [
        (Status::UPGRADE_REQUIRED, false, Some("Connection: Upgrade")),
        (Status::UPGRADE_REQUIRED, true, Some("Connection: close, Upgrade")),
        (Status::BAD_REQUEST, false, None),
    ] {
        let mut out = Vec::new();
        let answer = Response { closes, ..Response::new(status, Body::Json) };
        response::whole(&mut out, &answer, &Date::new(0), b"{}");
        let text = String::from_utf8(out).unwrap();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name));
        assert_eq!(line("Connection:"), connection);
        let asks = status == Status::UPGRADE_REQUIRED;
        assert_eq!(line("Upgrade:"), asks.then_some("Upgrade: websocket"));
        assert_eq!(line("Sec-WebSocket-Version:"), asks.then_some("Sec-WebSocket-Version: 13"));
    }
}

#[test]
fn the_first_subprotocol_that_is_ours_is_chosen() {
    let chosen = |offered: &[&str]| climb(offered, PLAIN, |upgrade| upgrade.subprotocol).unwrap();
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: mcp"]), Some("mcp"));
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: mcp.v1"]), Some("mcp.v1"));
    assert_eq!(chosen(&["Sec-WebSocket-Protocol: soap, mcp , mcp.v1"]), Some("mcp"));
    let lines = ["Sec-WebSocket-Protocol: mcp.v2", "sec-websocket-protocol: mcp.v1,mcp"];
    assert_eq!(chosen(&lines), Some("mcp.v1"));
    let told = answer(&["Sec-WebSocket-Protocol: mcp"], PLAIN);
    assert!(told.contains("\r\nSec-WebSocket-Protocol: mcp\r\n"), "{told}");
}

/// What is answered to an offer of extensions.
fn agreed(offer: &str, accepts: Accepts) -> Option<String> {
    let told = answer(&[&format!("Sec-WebSocket-Extensions: {offer}")], accepts);
    told.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: ").map(str::to_owned))
}

const AGREED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

#[test]
fn compressed_messages_are_agreed_on_where_they_are_offered_and_taken() {
    for offer in [
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; client_max_window_bits=9",
        "permessage-deflate;client_max_window_bits=\"15\";server_no_context_takeover",
        "x-webkit-deflate-frame, Permessage-Deflate; Client_No_Context_Takeover",
    ] {
        assert_eq!(agreed(offer, DEFLATING).as_deref(), Some(AGREED), "{offer}");
        assert_eq!(agreed(offer, PLAIN), None);
    }
}

#[test]
fn the_window_that_a_client_asks_for_is_kept() {
    for bits in 9..=15 {
        let offer = format!("permessage-deflate; server_max_window_bits={bits}");
        let expected = format!("{AGREED}; server_max_window_bits={bits}");
        assert_eq!(agreed(&offer, DEFLATING), Some(expected));
        let line = format!("Sec-WebSocket-Extensions: {offer}");
        let window = climb(&[&line], DEFLATING, |upgrade| upgrade.deflate.unwrap().window_bits());
        assert_eq!(window, Ok(bits));
    }
    // The compressor knows no window of 8 bits, so the next offer is looked at.
    let offer = "permessage-deflate; server_max_window_bits=8, permessage-deflate";
    assert_eq!(agreed(offer, DEFLATING).as_deref(), Some(AGREED));
}

#[test]
fn an_offer_that_is_not_understood_in_full_is_passed_over() {
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
        assert_eq!(agreed(offer, DEFLATING), None, "{offer}");
    }
}

#[test]
fn another_implementation_takes_the_answer() {
    use tungstenite::handshake::client::{Request, generate_key};

    for _ in 0..20 {
        let key = generate_key();
        let told = answer(&[&format!("Sec-WebSocket-Key: {key}")], PLAIN);
        let accepted = tungstenite::handshake::derive_accept_key(key.as_bytes());
        assert!(told.contains(&format!("Sec-WebSocket-Accept: {accepted}\r\n")));
        let stream = Memory(told.as_bytes());
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

/// What breaks one rung each.
const BROKEN: [(Step, &[&str]); 20] = [
    (Step::UpgradeAsked, &["Upgrade"]),
    (Step::UpgradeAsked, &["Upgrade: h2c"]),
    (Step::UpgradeAsked, &["Upgrade: websockets"]),
    (Step::UpgradeAsked, &["Connection"]),
    (Step::UpgradeAsked, &["Connection: keep-alive"]),
    (Step::UpgradeAsked, &["GET /mcp/ws HTTP/1.0"]),
    (Step::UpgradeAlone, &["Content-Length: 2"]),
    (Step::UpgradeAlone, &["Transfer-Encoding: chunked"]),
    (Step::UpgradeVersion, &["Sec-WebSocket-Version"]),
    (Step::UpgradeVersion, &["Sec-WebSocket-Version: 8"]),
    (Step::UpgradeVersion, &["Sec-WebSocket-Version: 13, 8"]),
    (Step::UpgradeVersion, &["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13"]),
    (Step::UpgradeKey, &["Sec-WebSocket-Key"]),
    (Step::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ="]),
    (Step::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQQQ"]),
    (Step::UpgradeKey, &["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j*Q=="]),
    (Step::UpgradeKey, &["Sec-WebSocket-Key: AAAA", "Sec-WebSocket-Key: BBBB"]),
    (Step::UpgradeProtocol, &["Sec-WebSocket-Protocol: soap"]),
    (Step::UpgradeProtocol, &["Sec-WebSocket-Protocol: MCP, mcp.v2"]),
    (Step::UpgradeProtocol, &["Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: wamp"]),
];

/// One line for each rung, lowest first.
const BROKEN_ALIKE: [(Step, &str); 5] = [
    (Step::UpgradeAsked, "Connection: close"),
    (Step::UpgradeAlone, "Content-Length: 9"),
    (Step::UpgradeVersion, "Sec-WebSocket-Version: 12"),
    (Step::UpgradeKey, "Sec-WebSocket-Key: short"),
    (Step::UpgradeProtocol, "Sec-WebSocket-Protocol: other"),
];
