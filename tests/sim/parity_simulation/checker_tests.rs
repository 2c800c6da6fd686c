//! Tests of the checkers: a run must fail if the messages of the server have one fault, and pass
//! without.

use std::time::Duration;

use serde_json::json;

use super::fault::ChunkFault;
use super::link::Carrier;
use super::plan::{Action, Opening, ParityPlan, Visit};
use super::resumption::ResumeKind;
use super::stream_model::{NewChunk, StreamModel};
use super::work::Work;

const HANDSHAKE: Opening = Opening::Handshake { exchanges: false };

/// A tool that emits several chunks.
const EMIT: Work = Work::Emit { count: 6, log_every: 2, pause_us: 200 };

/// Clients on every transport that call, stream, and resume, without other faults.
fn fault_plan(seed: u64, fault: Option<ChunkFault>) -> ParityPlan {
    let stream = Action::Request { work: EMIT, streams: true, key: None };
    let call = Action::Request { work: Work::Echo(8), streams: false, key: None };
    let begun = [Action::OpenEvents, stream, stream, Action::Wait(Duration::from_millis(1))];
    let rest = [Action::OpenEvents, call, stream, Action::Await];
    let peers = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http].map(|carrier| {
        let mut first = Visit::new(carrier, HANDSHAKE, &begun);
        first.ending = super::plan::Ending::Close;
        vec![first, Visit::new(carrier, Opening::Resume(ResumeKind::Right), &rest)]
    });
    ParityPlan { fault, ..ParityPlan::calm(seed, peers.to_vec()) }
}

/// Requires that runs with this fault fail with one of the `complaints`.
#[track_caller]
fn assert_detected(fault: ChunkFault, complaints: &[&str]) {
    for seed in 0..SEEDS {
        let failed = super::run(&fault_plan(seed, Some(fault)));
        let reason = failed.err().unwrap_or_else(|| panic!("seed {seed}: {fault:?} was not found"));
        let is_known = complaints.iter().any(|complaint| reason.contains(complaint));
        assert!(is_known, "seed {seed} with {fault:?}: {reason}");
    }
}

#[test]
fn parity_run_without_fault_passes() {
    for seed in 0..SEEDS {
        let report = super::run(&fault_plan(seed, None));
        let report = report.unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
        assert_eq!(report.totals.sessions_resumed, 3, "seed {seed}");
    }
}

#[test]
fn parity_chunk_lost_is_detected() {
    assert_detected(ChunkFault::Lost, &["is the next one on this connection"]);
    let complaints = ["does not follow", "it belongs behind progress"];
    assert_detected(ChunkFault::LostAndRenumbered, &complaints);
    assert_detected(ChunkFault::EndLost, &["waited for too long", "does not continue"]);
}

#[test]
fn parity_chunk_doubled_is_detected() {
    assert_detected(ChunkFault::Doubled, &["is the next one on this connection"]);
    assert_detected(ChunkFault::DoubledAndRenumbered, &["does not follow"]);
    assert_detected(ChunkFault::EndFollowed, &["follows eos"]);
}

#[test]
fn parity_chunks_reordered_are_detected() {
    assert_detected(ChunkFault::Reordered, &["is the next one on this connection"]);
}

#[test]
fn parity_response_lost_or_doubled_is_detected() {
    assert_detected(ChunkFault::ResponseLost, &["waited for too long"]);
    assert_detected(ChunkFault::ResponseDoubled, &["a second response"]);
}

#[test]
fn parity_message_outside_schema_is_detected() {
    assert_detected(ChunkFault::Malformed, &["minimum"]);
}

#[test]
fn stream_model_drops_repeated_chunks_only() {
    let progress = |seq: u64, step: u64| {
        json!({
            "type": "stream.chunk", "streamId": "s1", "seq": seq, "chunkType": "progress",
            "data": {"progress": step, "total": 6},
        })
    };
    let mut stream = StreamModel::of_request(json!(1), EMIT);
    assert_eq!(stream.receive(&progress(1, 1)), Ok(Some(NewChunk::Data)));
    assert_eq!(stream.receive(&progress(1, 1)), Ok(None));
    assert!(stream.receive(&progress(1, 2)).is_err(), "another chunk with its number");
    assert!(stream.receive(&progress(3, 2)).is_err(), "a gap");
    assert!(stream.receive(&progress(2, 1)).is_err(), "its contents came before");
    assert!(stream.receive(&progress(2, 3)).is_err(), "contents are missing");
    assert_eq!(stream.last_seq(), 1);
    let dropped = json!({
        "type": "stream.chunk", "streamId": "s1", "seq": 2, "chunkType": "log",
        "data": {"level": "warning", "logger": "corelane", "data": {"dropped": 1}},
    });
    assert_eq!(stream.receive(&dropped), Ok(Some(NewChunk::Data)));
    assert!(stream.receive(&progress(3, 4)).is_err(), "only one was dropped");
    assert_eq!(stream.receive(&progress(3, 3)), Ok(Some(NewChunk::Data)));
}

/// Runs with each fault.
const SEEDS: u64 = 4;
