//! Transcripts: each feature in each revision that has it, word for word.
//!
//! A transcript is what was said over one connection, `>` by the client and `<` by the server. The
//! same play runs over TCP and over pipes and must read the same, byte for byte; every message of
//! the server is judged by the schema of its revision; and the whole must be what stands in
//! `golden/REVISION/FEATURE.txt`. What differs from run to run (sealed states, ids of tasks,
//! moments) stands there as `<name 1>`.
//!
//! To make the golden files anew: `TRANSCRIPTS=write cargo test --test transcripts`. Read the
//! difference before it is committed: it is what clients will see.

#[path = "../support/judge.rs"]
mod judge;

mod dialogue;
mod features;
mod golden;
#[path = "../process/peer.rs"]
#[expect(dead_code, reason = "shared with the tests of the process, which do more with a peer")]
mod peer;
#[path = "../process/process.rs"]
#[expect(dead_code, reason = "shared with the tests of the process, which look at more of it")]
mod process;
mod volatile;

use dialogue::Dialogue;
use features::Feature;
use process::{Process, SMALL_RINGS, Server};

/// Revisions with a handshake, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision in which every request stands alone.
const MODERN: &str = "2026-07-28";

/// Every revision, oldest first.
const ALL: [&str; 5] = [LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3], MODERN];

/// Plays a feature over both transports and holds it against its golden file.
fn hold(feature: &Feature) {
    let mut differences = Vec::new();
    for &revision in feature.revisions {
        let over_tcp = over_tcp(feature, revision);
        let over_pipes = over_pipes(feature, revision);
        if let Some(difference) = golden::difference(&over_tcp, &over_pipes) {
            panic!("{} {revision}: tcp and stdio differ: {difference}", feature.name);
        }
        if let Err(difference) = golden::hold(feature.name, revision, &over_tcp) {
            differences.push(difference);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn over_tcp(feature: &Feature, revision: &'static str) -> String {
    // A shard tells its number in the ids of what it asks, and over pipes there is one.
    let server = Server::start(&[&["--shards", "1"], feature.arguments].concat());
    let mut dialogue = Dialogue::new(server.connect(), revision);
    (feature.play)(&mut dialogue);
    dialogue.end()
}

fn over_pipes(feature: &Feature, revision: &'static str) -> String {
    let arguments = [&["stdio"], SMALL_RINGS.as_slice(), feature.arguments].concat();
    let mut process = Process::start(&arguments);
    let mut dialogue = Dialogue::new(process.pipes(), revision);
    (feature.play)(&mut dialogue);
    let transcript = dialogue.end();
    let ended = process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    transcript
}
