//! How the server says that it stands: the same on every connection, whichever shard has it.

use serde_json::Value;

use crate::messages::LEGACY;
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two};

/// Connections and sessions enough that some come to each of two shards.
const MANY: u64 = 24;

/// Waits until the server stands like this, and asks it over many connections.
#[track_caller]
fn expect_everywhere(stage: &Stage, sessions: u64, streams: u64) {
    let fits = |status: &Value| status["sessions"] == sessions && status["streams"] == streams;
    stage.until(fits);
    for _ in 0..MANY {
        let status = stage.connect().ask(&Request::new("GET", "/status")).message();
        assert!(fits(&status), "{sessions} sessions and {streams} streams: {status}");
    }
}

#[test]
fn every_shard_tells_the_sessions_and_streams_of_all() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let sessions: Vec<_> = (0..MANY).map(|_| Session::begin(stage.address(), LEGACY)).collect();
        expect_everywhere(&stage, MANY, 0);
        let mut listeners: Vec<_> = sessions.iter().map(Session::attend).collect();
        expect_everywhere(&stage, MANY, MANY);
        drop(listeners.split_off(8));
        expect_everywhere(&stage, MANY, 8);
        for session in &sessions[..16] {
            session.connect().ask(&session.end()).expect_bare(204);
        }
        expect_everywhere(&stage, MANY - 16, 0);
        drop(listeners);
        stage.close();
    });
}
