//! Calls: both eras, many at once, in batches and in lines, cancelled.

use serde_json::{Value, json};

use crate::messages::{
    BATCHED, LEGACY, WITH_SESSIONS, bare, call, cancelled, echo, expect_error, modern, request,
    text,
};
use crate::peer::{FINAL, Peer, TEXT, handshake, text_frame};
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

#[test]
fn a_client_of_each_revision_with_a_handshake_is_served() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for revision in WITH_SESSIONS.into_iter().chain(["2024-11-05"]) {
            let mut peer = Peer::begin(stage.address(), revision);
            let tools = peer.ask(&bare(1, "tools/list"));
            let tools = tools["result"]["tools"].as_array().expect("tools");
            assert!(tools.iter().any(|tool| tool["name"] == "echo"));
            assert_eq!(text(&peer.ask(&echo(2, "hi"))), "hi");
            assert_eq!(peer.ask(&bare("three", "ping"))["result"], json!({}));
            expect_error(&peer.ask(&bare(4, "nothing/here")), -32601, Some(json!(4)));
            peer.close(1000);
        }
        let counters = stage.close();
        let websockets = counters.websockets;
        assert_eq!((websockets.upgraded, websockets.closed_by_peer), (4, 4), "{counters}");
        // The notifications of the handshakes get no answer.
        assert_eq!((websockets.messages_in, websockets.messages_out), (24, 20), "{counters}");
        assert!(websockets.bytes_in > 0 && websockets.bytes_out > websockets.bytes_in);
    });
}

#[test]
fn a_client_without_a_handshake_is_served_and_both_kinds_share_a_connection() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address());
        let discovered = peer.ask(&modern(request(1, "server/discover", json!({}))));
        assert!(discovered["result"]["supportedVersions"].is_array(), "{discovered}");
        assert_eq!(text(&peer.ask(&modern(echo(2, "modern")))), "modern");
        expect_error(&peer.ask(&echo(3, "neither")), -32600, Some(json!(3)));
        peer.close(1000);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        assert_eq!(text(&peer.ask(&echo(1, "legacy"))), "legacy");
        let mut peer = peer.speaking(crate::messages::MODERN);
        assert_eq!(text(&peer.ask(&modern(echo(2, "modern")))), "modern");
        drop(peer);
        stage.close();
    });
}

#[test]
fn a_call_that_takes_long_holds_no_other_back() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        for id in 1..=4 {
            peer.say(&call(id, "hold", json!({})));
            assert_eq!(stage.told(), "begun");
        }
        assert_eq!(text(&peer.ask(&echo(5, "meanwhile"))), "meanwhile");
        stage.open_gate();
        let mut ids: Vec<u64> = (0..4)
            .map(|_| {
                let answer = peer.heard();
                assert_eq!(text(&answer), "held");
                answer["id"].as_u64().expect("a number")
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4]);
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn what_is_in_flight_on_many_connections_comes_to_its_own() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peers: Vec<Peer> = (0..16).map(|_| Peer::begin(stage.address(), LEGACY)).collect();
        for (number, peer) in peers.iter_mut().enumerate() {
            let calls = (0..32).map(|id| echo(id, &format!("{number}-{id}")));
            let frames: Vec<u8> = calls
                .flat_map(|call| {
                    peer.expect_answer_to(&call);
                    text_frame(call)
                })
                .collect();
            peer.send_bytes(&frames);
        }
        for (number, peer) in peers.iter_mut().enumerate() {
            for id in 0..32 {
                let answer = peer.heard();
                assert_eq!(
                    (answer["id"].as_u64(), text(&answer)),
                    (Some(id), &*format!("{number}-{id}"))
                );
            }
        }
        drop(peers);
        stage.close();
    });
}

#[test]
fn a_cancelled_call_gets_no_answer_and_its_handler_hears_of_it() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        peer.say(&call("it", "until-cancelled", json!({})));
        assert_eq!(stage.told(), "begun");
        peer.say(&cancelled("it"));
        assert_eq!(stage.told(), "cancelled");
        assert_eq!(text(&peer.ask(&echo(2, "next"))), "next");
        peer.close(1000);
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn a_batch_is_answered_in_one_message_where_the_revision_has_batches() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), BATCHED);
        let batch = json!([echo(1, "one"), bare(2, "ping"), echo(3, "three")]);
        let answers = peer.ask(&batch);
        let ids: Vec<_> = answers.as_array().expect("answers").iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [1, 2, 3]);
        peer.close(1000);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        peer.say(&batch);
        assert_eq!(peer.heard()["error"]["code"], -32600);
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn several_messages_in_one_frame_are_told_apart_by_newlines() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let calls: Vec<Value> = (0..5).map(|id| echo(id, &format!("line {id}\n"))).collect();
        let lines: Vec<String> = calls.iter().map(Value::to_string).collect();
        for text_of_frame in [
            lines.join("\n"),
            lines.join("\n") + "\n",
            format!("\n\r\n{}\r\n\n", lines.join("\r\n")),
        ] {
            peer.expect_answers_to(&calls);
            peer.send_bytes(&text_frame(text_of_frame));
            for id in 0..5 {
                // Each answer is a message of its own.
                assert_eq!(text(&peer.heard()), format!("line {id}\n"));
            }
        }
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn frames_that_come_with_the_handshake_are_read_behind_it() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let calls: Vec<Value> = (0..3).map(|id| modern(echo(id, "early"))).collect();
        let bytes: Vec<u8> = calls.iter().flat_map(text_frame).collect();
        let whole = [handshake().bytes(), bytes].concat();
        // Wherever the handshake is cut off, too.
        for cut in (0..whole.len()).step_by(37) {
            let stream = std::net::TcpStream::connect(stage.address()).expect("a connection");
            stream.set_nodelay(true).expect("an option of TCP");
            let mut writer = &stream;
            std::io::Write::write_all(&mut writer, &whole[..cut]).expect("a server that reads");
            let (_, mut peer) = Peer::upgrade(stream.try_clone().expect("a socket"), &whole[cut..]);
            for call in &calls {
                peer.expect_answer_to(call);
                assert_eq!(text(&peer.heard()), "early");
            }
            peer.close(1000);
        }
        stage.close();
    });
}

#[test]
fn a_connection_that_asked_by_http_before_may_be_upgraded() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        client.expect_alive();
        client.send(&crate::request::Request::modern(&modern(call(1, "hold", json!({})))));
        assert_eq!(stage.told(), "begun");
        // The upgrade waits behind the answer that is owed, with a message behind it.
        let early = text_frame(modern(echo(2, "behind")));
        client.send_bytes(&[handshake().bytes(), early].concat());
        stage.open_gate();
        assert_eq!(text(&client.answer().message()), "held");
        let rest = client.socket().try_clone().expect("a socket");
        let head = client.head();
        assert_eq!(head.status, 101, "{head:?}");
        drop(rest);
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.websockets.upgraded, 1, "{counters}");
    });
}

#[test]
fn calls_beyond_those_that_may_be_in_flight_are_refused_and_the_others_answered() {
    let mut options = options();
    options.limits.requests_in_flight_max = 2;
    let stage = Stage::open(options);
    let mut peer = Peer::begin(stage.address(), LEGACY);
    for id in 1..=2 {
        peer.say(&call(id, "hold", json!({})));
        assert_eq!(stage.told(), "begun");
    }
    expect_error(&peer.ask(&call(3, "hold", json!({}))), -32603, Some(json!(3)));
    stage.open_gate();
    assert_eq!(text(&peer.heard()), "held");
    assert_eq!(text(&peer.heard()), "held");
    peer.send(FINAL | TEXT, b"\n");
    peer.close(1000);
    stage.close();
}
