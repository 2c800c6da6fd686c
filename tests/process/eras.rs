//! Both eras over TCP: every revision from its first message to its last.

use serde_json::{Value, json};

use crate::process::Server;
use crate::session::{Session, initialize};
use crate::{LEGACY, MODERN};

#[test]
fn every_legacy_revision_completes_a_session() {
    let server = Server::start(&[]);
    for revision in LEGACY {
        let mut session = Session::legacy(server.connect(), revision);
        session.try_everything();
        assert_eq!(session.succeed("ping", json!({})), json!({}));
    }
}

#[test]
fn the_modern_revision_completes_a_session_without_a_handshake() {
    let server = Server::start(&[]);
    let mut session = Session::modern(server.connect());
    session.try_everything();
    let discovered = session.succeed("server/discover", json!({}));
    let supported = discovered["supportedVersions"].as_array().expect("versions are a list");
    assert!(supported.iter().any(|revision| revision == MODERN), "{supported:?}");
    assert!(discovered["capabilities"]["tools"].is_object(), "{discovered}");
    for removed in ["initialize", "ping", "logging/setLevel"] {
        assert_eq!(session.fail(removed, json!({})), -32601, "{removed}");
    }
}

#[test]
fn both_eras_share_one_connection() {
    let server = Server::start(&[]);
    let mut legacy = Session::legacy(server.connect(), "2025-11-25");
    legacy.echo("legacy");
    let mut modern = Session::modern(legacy.peer);
    modern.echo("modern");
    let mut legacy = Session::bare(modern.peer, "2025-11-25");
    legacy.echo("legacy again");
}

#[test]
fn a_handshake_in_an_unknown_revision_is_answered_with_the_latest_legacy_one() {
    let server = Server::start(&[]);
    for asked in ["1900-01-01", "2099-12-31"] {
        let mut session = Session::bare(server.connect(), "2025-11-25");
        let result = session.succeed("initialize", initialize(asked));
        assert_eq!(result["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn nothing_but_ping_is_served_before_the_handshake() {
    let server = Server::start(&[]);
    let mut session = Session::bare(server.connect(), "2025-11-25");
    assert_eq!(session.fail("tools/list", json!({})), -32600);
    assert_eq!(session.fail("tools/call", json!({"name": "echo"})), -32600);
    assert_eq!(session.succeed("ping", json!({})), json!({}));
    session.succeed("initialize", initialize("2025-11-25"));
    assert_eq!(session.fail("tools/list", json!({})), -32600);
    session.peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    session.succeed("tools/list", json!({}));
    assert_eq!(session.fail("initialize", initialize("2025-11-25")), -32600);
}

#[test]
fn a_modern_request_must_say_what_it_is() {
    let server = Server::start(&[]);
    let mut session = Session::modern(server.connect());
    let mut ask = |meta: Value| {
        let params = json!({"_meta": meta});
        session.peer.say(&json!({
            "jsonrpc": "2.0", "id": "asked", "method": "tools/list", "params": params,
        }));
        session.hear(Some("tools/list"))["error"].take()
    };
    let revision = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(ask(json!({revision: MODERN}))["code"], -32602);
    let unsupported = ask(json!({revision: "1900-01-01", capabilities: {}}));
    assert_eq!(unsupported["code"], -32022);
    assert_eq!(unsupported["data"]["requested"], "1900-01-01");
    let supported = unsupported["data"]["supported"].as_array().expect("versions are a list");
    assert!(supported.iter().any(|revision| revision == MODERN), "{unsupported}");
}

#[test]
fn ids_come_back_as_they_were() {
    let server = Server::start(&[]);
    let mut session = Session::legacy(server.connect(), "2025-11-25");
    let ids = [json!(0), json!(-7), json!(i64::MAX), json!("7"), json!(""), json!("ünï \"☃\"")];
    for id in ids {
        session.peer.say(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(session.hear(Some("ping"))["id"], id);
    }
}

#[test]
fn bad_input_is_answered_in_every_revision_and_the_connection_goes_on() {
    let server = Server::start(&[]);
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let mut session = Session::of(server.connect(), revision);
        for (line, code) in [
            (&b"{\"jsonrpc\":"[..], -32700),
            (b"nonsense", -32700),
            (b"{}", -32600),
            (b"7", -32600),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
        ] {
            session.peer.say_line(line);
            // An unprepared connection has no revision; what it hears fits the latest ones.
            let answer = session.hear(None);
            assert_eq!(answer["error"]["code"], code, "{revision}: {answer}");
        }
        session.echo("still here");
    }
}

#[test]
fn a_batch_is_answered_by_a_batch_in_the_one_revision_that_has_them() {
    let server = Server::start(&[]);
    let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = json!([ping(1), ping(2)]);
    for revision in LEGACY {
        let mut session = Session::legacy(server.connect(), revision);
        session.peer.say(&batch);
        if revision == "2025-03-26" {
            let answer = session.peer.hear();
            let ids: Vec<&Value> =
                answer.as_array().into_iter().flatten().map(|one| &one["id"]).collect();
            assert_eq!(ids, [&json!(1), &json!(2)], "{answer}");
        } else {
            assert_eq!(session.hear(None)["error"]["code"], -32600, "{revision}");
        }
    }
}

#[test]
fn a_cancelled_call_says_nothing_more() {
    let server = Server::start(&[]);
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let mut session = Session::of(server.connect(), revision);
        let (id, _) = session.begin_slow(1_000, 20);
        session.hear(None);
        let params = json!({"requestId": id, "reason": "enough"});
        let method = "notifications/cancelled";
        session.peer.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        // Progress that was on its way may still be heard before the echo, and nothing after it.
        session.echo("still here");
        session.notifications.clear();
        session.echo("still here");
        assert!(session.notifications.is_empty(), "{:?}", session.notifications);
    }
}

#[test]
fn many_connections_are_served_side_by_side() {
    let server = Server::start(&[]);
    let mut sessions: Vec<Session> = (0..64)
        .map(|index| Session::of(server.connect(), [LEGACY[3], MODERN][index % 2]))
        .collect();
    let asked: Vec<u64> = sessions
        .iter_mut()
        .enumerate()
        .map(|(index, session)| {
            let arguments = json!({"message": format!("number {index}")});
            session.ask("tools/call", json!({"name": "echo", "arguments": arguments}))
        })
        .collect();
    for (index, (session, id)) in sessions.iter_mut().zip(asked).enumerate() {
        let answer = session.answer(id, "tools/call");
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(*text, format!("number {index}"));
    }
}
