//! Golden transcripts of each feature in each revision that has it.
//!
//! A transcript records the messages of one connection, `>` from the client and `<` from the
//! server. Every message of the server is validated against the schema of its revision, the
//! transcripts over TCP and stdio must be equal, and both must equal `golden/REVISION/FEATURE.txt`.
//! Volatile values (`requestState`, task ids, times) are replaced by placeholders: `<state 1>`.
//!
//! `TRANSCRIPTS=write cargo test --test server transcripts` updates the golden files. Review the
//! difference before committing it: it is what clients see.

mod features;
mod golden;
mod transcript_client;
mod volatile;

use corelane_test_support::{Process, SMALL_RINGS, ServeProcess};
use features::Feature;
use transcript_client::TranscriptClient;

use crate::CORELANE;

/// Offers each feature once.
const FIXTURE: [&str; 2] = ["--demo", "conformance"];

/// Runs a feature over TCP and stdio and compares its transcripts with the golden file.
fn check_transcript(feature: &Feature) {
    let mut differences = Vec::new();
    for &revision in feature.revisions {
        let over_tcp = over_tcp(feature, revision);
        let over_pipes = over_stdio(feature, revision);
        if let Some(difference) = golden::difference(&over_tcp, &over_pipes) {
            panic!("{} {revision}: tcp and stdio differ: {difference}", feature.name);
        }
        if let Err(difference) = golden::compare(feature.name, revision, &over_tcp) {
            differences.push(difference);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn over_tcp(feature: &Feature, revision: &'static str) -> String {
    // The ids of client requests contain the shard number, and stdio has one shard.
    let arguments = [&FIXTURE, ["--shards", "1"].as_slice(), feature.arguments].concat();
    let server = ServeProcess::tcp(CORELANE, &arguments);
    let mut client = TranscriptClient::new(server.connect(), revision);
    (feature.scenario)(&mut client);
    client.finish()
}

fn over_stdio(feature: &Feature, revision: &'static str) -> String {
    let arguments = [["stdio"].as_slice(), &FIXTURE, &SMALL_RINGS, feature.arguments].concat();
    let mut process = Process::start(CORELANE, &arguments);
    let mut client = TranscriptClient::new(process.take_pipes(), revision);
    (feature.scenario)(&mut client);
    let transcript = client.finish();
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    transcript
}
