//! CPU instructions per message, by phase of request processing.
//!
//! ```text
//! cargo bench --bench counts
//! ```
//!
//! One process, one thread, bytes in memory, under `valgrind --tool=callgrind` (which must be
//! installed). The request path is run up to each phase with two numbers of messages; the
//! difference of the instructions divided by the difference of the messages is the cost of one
//! message without start and end. Unlike wall time, the counts are almost exactly reproducible.
//! This is done for TCP lines and for WebSocket frames.
//!
//! A second table has the same call as a POST request over HTTP, in the legacy era in a session,
//! and with a message of 4 KiB.
//!
//! The last table compares requests with pre-encoded responses with a call of the same era: up to
//! the response, and in a real shard with sixteen messages a turn.

mod codec;
mod memory;
mod memory_shard;
mod post;
mod request_kind;
mod request_path;

use std::error::Error;
use std::io::{self, Write};
use std::process::Command;

use corelane_bench_support::requests::{Era, MESSAGE_BYTES};

use self::codec::Codec;
use self::request_kind::RequestKind;
use self::request_path::Phase;

const CHILD: &str = "--child";
/// Stands for HTTP POST requests in place of a codec on the command line of the child.
const POSTS: &str = "posts";
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
/// The POST requests, in the order of their columns.
const POST_CALLS: [post::Call; 4] = [
    post::Call { era: Era::Legacy, message_bytes: MESSAGE_BYTES },
    post::Call { era: Era::Modern, message_bytes: MESSAGE_BYTES },
    post::Call { era: Era::Legacy, message_bytes: 4096 },
    post::Call { era: Era::Modern, message_bytes: 4096 },
];
/// Both are multiples of all numbers of messages per turn.
const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, codec, phase, index, messages] = arguments.as_slice()
        && word == CHILD
    {
        if codec == POSTS {
            let phase = post::Phase::ALL.into_iter().find(|known| known.name() == phase);
            let phase = phase.ok_or("unknown phase")?;
            let call = POST_CALLS.get(index.parse::<usize>()?).ok_or("unknown call")?;
            return post::run(phase, *call, messages.parse()?);
        }
        let codec = Codec::ALL.into_iter().find(|known| known.name() == codec);
        let codec = codec.ok_or("unknown codec")?;
        let phase = Phase::ALL.into_iter().find(|known| known.name() == phase);
        let phase = phase.ok_or("unknown phase")?;
        let kind = request_kinds().nth(index.parse()?).ok_or("unknown request")?;
        return request_path::run(codec, phase, kind, messages.parse()?);
    }
    let mut out = io::stdout().lock();
    let calls = write_phases(&mut out, Codec::Ndjson)?;
    write_phases(&mut out, Codec::WebSocket)?;
    write_posts(&mut out)?;
    write_constants(&mut out, calls)
}

/// Returns all kinds of requests, the calls first.
fn request_kinds() -> impl Iterator<Item = RequestKind> {
    ERAS.map(RequestKind::call).into_iter().chain(RequestKind::CONSTANT)
}

/// Writes the cost of a call up to each phase; returns, by era, the cost up to the response and in
/// a turn of sixteen.
fn write_phases(out: &mut impl Write, codec: Codec) -> Result<[[u64; 2]; 2], Box<dyn Error>> {
    let name = codec.name();
    writeln!(
        out,
        "| phase over {name} | legacy: instructions | in this phase | modern | in this phase |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    let mut before = [0_u64; 2];
    let mut calls = [[0_u64; 2]; 2];
    for phase in Phase::ALL {
        let each = [
            per_message(codec.name(), phase.name(), 0)?,
            per_message(codec.name(), phase.name(), 1)?,
        ];
        let here = |era: usize| match phase {
            // The whole path again, in a shard.
            Phase::Turn | Phase::TurnWithRate | Phase::TurnOfSixteen | Phase::TurnWithBreakers => {
                "–".to_owned()
            }
            _ => each[era].saturating_sub(before[era]).to_string(),
        };
        let (name, here) = (phase.name(), [here(0), here(1)]);
        writeln!(out, "| {name} | {} | {} | {} | {} |", each[0], here[0], each[1], here[1])?;
        before = each;
        for (era, known) in calls.iter_mut().enumerate() {
            match phase {
                Phase::Response => known[0] = each[era],
                Phase::TurnOfSixteen => known[1] = each[era],
                _ => {}
            }
        }
    }
    writeln!(out)?;
    Ok(calls)
}

/// Writes the cost of a call as a POST request up to each phase.
fn write_posts(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "| over HTTP | in a session | modern | in a session, 4 KiB | modern, 4 KiB |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for name in post::Phase::ALL.map(post::Phase::name) {
        write!(out, "| {name} |")?;
        for index in 0..POST_CALLS.len() {
            write!(out, " {} |", per_message(POSTS, name, index)?)?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    Ok(())
}

/// Writes the cost of pre-encoded responses, also as a multiple of a call of the same era.
fn write_constants(out: &mut impl Write, calls: [[u64; 2]; 2]) -> Result<(), Box<dyn Error>> {
    writeln!(out, "| request | response bytes | path | of a call | turn of 16 | of a call |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for (index, kind) in request_kinds().enumerate() {
        let call = calls[usize::from(kind.era == Era::Modern)];
        let (era, method) = (kind.era.name(), kind.method.as_str());
        write!(out, "| {era} {method} | {} |", request_path::response_bytes(kind)?)?;
        for (phase, call) in [Phase::Response, Phase::TurnOfSixteen].into_iter().zip(call) {
            if phase == Phase::TurnOfSixteen && !kind.is_repeatable() {
                write!(out, " – | – |")?;
                continue;
            }
            let each = per_message(Codec::Ndjson.name(), phase.name(), index)?;
            let hundredths = each * 100 / call.max(1);
            write!(out, " {each} | {}.{:02} |", hundredths / 100, hundredths % 100)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the cost of one message up to `phase`: of the request kind or the POST request at
/// `index`.
fn per_message(codec: &str, phase: &str, index: usize) -> Result<u64, Box<dyn Error>> {
    let few = instructions(codec, phase, index, FEW)?;
    let many = instructions(codec, phase, index, MANY)?;
    Ok(many.saturating_sub(few) / (MANY - FEW))
}

/// Returns the instructions of a whole run, counted by callgrind.
fn instructions(
    codec: &str,
    phase: &str,
    index: usize,
    messages: u64,
) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([CHILD, codec, phase, &index.to_string(), &messages.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}; this bench needs valgrind"))?;
    let output_text = String::from_utf8_lossy(&output.stderr);
    let counted = output_text.lines().find_map(|line| line.split("Collected :").nth(1));
    match counted {
        Some(counted) if output.status.success() => Ok(counted.trim().parse()?),
        _ => Err(format!("{phase} over {codec} failed under callgrind: {output_text}").into()),
    }
}
