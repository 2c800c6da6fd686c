//! A peer that listens and does not read.

use serde_json::json;

use crate::client::{Client, LEGACY, bare, request};
use crate::stage::{Stage, TOOLS, expect_silence, open_stream, plain, stream_of};

/// Changes told to a peer that does not read: far more than any queue holds.
const CHANGES: usize = 3000;

#[test]
fn a_peer_that_does_not_read_costs_no_queue_and_is_told_once_when_it_reads() {
    let stage = Stage::open(1, |options| {
        options.limits.outgoing_bytes_max = 16 << 10;
        options.limits.memory_bytes_max = 1 << 20;
        options.tcp.send_buffer_bytes = 16 << 10;
        options.tcp.receive_buffer_bytes = 16 << 10;
    });
    let mut slow = Client::connect_narrow(stage.address(), 16 << 10);
    let mut quick = stage.connect();
    let long = format!("test://{}", "x".repeat(1000));
    let uris = [long.as_str(), "test://last"];
    for id in 0..3 {
        open_stream(&mut slow, id, json!({"resourceSubscriptions": uris}));
    }
    open_stream(&mut quick, "q", json!({"resourceSubscriptions": uris}));
    for _ in 0..CHANGES {
        stage.handle().updated(&long);
        assert_eq!(quick.answer()["params"]["uri"], long.as_str());
    }
    stage.handle().updated("test://last");
    assert_eq!(quick.answer()["params"]["uri"], "test://last");
    // Each stream hears of both, as late as it may be, and of the last one exactly once.
    let mut last = [0; 3];
    let mut heard = 0;
    while last.iter().sum::<i32>() < 3 {
        let said = slow.answer();
        heard += 1;
        if said["params"]["uri"] == "test://last" {
            let id = stream_of(&said).as_u64().expect("an id that is a number");
            last[usize::try_from(id).unwrap()] += 1;
        }
    }
    assert_eq!(last, [1, 1, 1]);
    assert!(heard < CHANGES, "{heard} frames were queued for a peer that did not read");
    expect_silence(&mut slow);
    drop((slow, quick));
    let counters = stage.close();
    let streams = &counters.subscriptions;
    assert!(streams.frames_withheld >= 3, "{counters}");
    assert!(streams.frames_caught_up >= 3, "{counters}");
    assert_eq!(counters.faults.memory, 0, "{counters}");
}

#[test]
fn a_session_that_does_not_read_is_told_once_that_a_list_has_changed() {
    let stage = Stage::open(1, |options| {
        options.limits.outgoing_bytes_max = 4 << 10;
        options.tcp.send_buffer_bytes = 4 << 10;
        options.tcp.receive_buffer_bytes = 4 << 10;
    });
    let mut slow = Client::connect_narrow(stage.address(), 4 << 10);
    slow.handshake(LEGACY);
    slow.expect_alive();
    slow.send(request(1, "resources/subscribe", json!({"uri": "test://one"})));
    assert_eq!(slow.answer()["result"], json!({}));
    let mut quick = stage.connect();
    open_stream(&mut quick, "q", json!({"resourceSubscriptions": ["test://one"]}));
    // Whatever is told after the queue is full is withheld, the change of the list too.
    for number in 0..CHANGES {
        stage.handle().updated("test://one");
        quick.answer();
        if number % 1000 == 999 {
            let name = format!("more-{number}");
            stage.handle().change(|catalog| catalog.tool(plain(name))).unwrap();
        }
    }
    let mut lists = 0;
    slow.send(bare("behind", "ping"));
    let mut answered = false;
    while lists == 0 || !answered {
        let said = slow.answer();
        lists += u32::from(said["method"] == TOOLS);
        answered |= said["id"] == "behind";
    }
    assert!((1..=3).contains(&lists), "{lists}");
    drop((slow, quick));
    let counters = stage.close();
    assert!(counters.subscriptions.frames_withheld > 0, "{counters}");
}
