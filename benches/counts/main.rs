//! Instructions per message, stop by stop: where the time of a call goes.
//!
//! ```text
//! cargo bench --bench counts
//! ```
//!
//! One process, one thread, bytes in memory, under `valgrind --tool=callgrind` (which must be
//! installed). The road is run as far as each stop with two numbers of messages; the difference of
//! the instructions, divided by the difference of the messages, is what one message costs, free of
//! start and end. Counts repeat to the last digit or nearly so, which wall time does not. That is
//! done over lines of TCP and over frames of WebSocket.
//!
//! Another table has the same call as a post over HTTP, of the legacy era in a session.
//!
//! The last table holds requests whose answers are framed beforehand against the call of the same
//! era: as far as the answer, and in turns of sixteen in a real shard.

#[expect(dead_code, reason = "whole processes are asked for more")]
#[path = "../rig/frames.rs"]
mod frames;
mod memory;
mod over;
mod post;
mod question;
#[expect(dead_code, reason = "whole processes are asked for more")]
#[path = "../rig/requests.rs"]
mod requests;
#[expect(dead_code, reason = "whole processes are asked for more")]
#[path = "../rig/responses.rs"]
mod responses;
mod road;
mod stage;
#[path = "../rig/wording.rs"]
mod wording;

use std::error::Error;
use std::io::{self, Write};
use std::process::Command;

use self::over::Over;
use self::question::Question;
use self::requests::Era;
use self::road::Stop;

const CHILD: &str = "--child";
/// Stands for posts on the command line of the child, among what questions travel over.
const POSTS: &str = "posts";
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
/// Both are multiples of whatever travels together.
const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, over, stop, place, messages] = arguments.as_slice()
        && word == CHILD
    {
        if over == POSTS {
            let stop = post::Stop::ALL.into_iter().find(|known| known.name() == stop);
            let stop = stop.ok_or("there is no such stop")?;
            let era = ERAS.get(place.parse::<usize>()?).ok_or("there is no such era")?;
            return post::run(stop, *era, messages.parse()?);
        }
        let over = Over::ALL.into_iter().find(|known| known.name() == over);
        let over = over.ok_or("nothing travels over this")?;
        let stop = Stop::ALL.into_iter().find(|known| known.name() == stop);
        let stop = stop.ok_or("there is no such stop")?;
        let question = questions().nth(place.parse()?).ok_or("there is no such question")?;
        return road::run(over, stop, question, messages.parse()?);
    }
    let mut out = io::stdout().lock();
    let calls = write_stops(&mut out, Over::Lines)?;
    write_stops(&mut out, Over::Frames)?;
    write_posts(&mut out)?;
    write_constants(&mut out, calls)
}

/// Every question there is, the calls first.
fn questions() -> impl Iterator<Item = Question> {
    ERAS.map(Question::call).into_iter().chain(Question::CONSTANT)
}

/// What a call costs as far as each stop; the last two are handed back, by era: as far as its
/// answer, and in a turn of sixteen.
fn write_stops(out: &mut impl Write, over: Over) -> Result<[[u64; 2]; 2], Box<dyn Error>> {
    let name = over.name();
    writeln!(
        out,
        "| stop over {name} | legacy: instructions | of them here | modern | of them here |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    let mut before = [0_u64; 2];
    let mut calls = [[0_u64; 2]; 2];
    for stop in Stop::ALL {
        let each =
            [per_message(over.name(), stop.name(), 0)?, per_message(over.name(), stop.name(), 1)?];
        let here = |era: usize| match stop {
            // The same road once more, in a shard.
            Stop::Turn | Stop::TurnOfSixteen => "–".to_owned(),
            _ => each[era].saturating_sub(before[era]).to_string(),
        };
        let (name, here) = (stop.name(), [here(0), here(1)]);
        writeln!(out, "| {name} | {} | {} | {} | {} |", each[0], here[0], each[1], here[1])?;
        before = each;
        for (era, known) in calls.iter_mut().enumerate() {
            match stop {
                Stop::Answer => known[0] = each[era],
                Stop::TurnOfSixteen => known[1] = each[era],
                _ => {}
            }
        }
    }
    writeln!(out)?;
    Ok(calls)
}

/// What a call as a post over HTTP costs as far as each stop.
fn write_posts(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "| over HTTP | in a session | modern |")?;
    writeln!(out, "| --- | --- | --- |")?;
    for name in post::Stop::ALL.map(post::Stop::name) {
        let (legacy, modern) = (per_message(POSTS, name, 0)?, per_message(POSTS, name, 1)?);
        writeln!(out, "| {name} | {legacy} | {modern} |")?;
    }
    writeln!(out)?;
    Ok(())
}

/// What constant answers cost, and that as a multiple of the call of the same era.
fn write_constants(out: &mut impl Write, calls: [[u64; 2]; 2]) -> Result<(), Box<dyn Error>> {
    writeln!(out, "| request | answer bytes | road | of a call | turn of 16 | of a call |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for (place, question) in questions().enumerate() {
        let call = calls[usize::from(question.era == Era::Modern)];
        let (era, method) = (question.era.name(), question.method.as_str());
        write!(out, "| {era} {method} | {} |", road::answer_bytes(question)?)?;
        for (stop, call) in [Stop::Answer, Stop::TurnOfSixteen].into_iter().zip(call) {
            if stop == Stop::TurnOfSixteen && !question.repeats() {
                write!(out, " – | – |")?;
                continue;
            }
            let each = per_message(Over::Lines.name(), stop.name(), place)?;
            let hundredths = each * 100 / call.max(1);
            write!(out, " {each} | {}.{:02} |", hundredths / 100, hundredths % 100)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What one message of question `place`, or of an era of posts, costs as far as `stop`.
fn per_message(over: &str, stop: &str, place: usize) -> Result<u64, Box<dyn Error>> {
    let few = instructions(over, stop, place, FEW)?;
    let many = instructions(over, stop, place, MANY)?;
    Ok(many.saturating_sub(few) / (MANY - FEW))
}

/// What a whole run costs, counted by callgrind.
fn instructions(
    over: &str,
    stop: &str,
    place: usize,
    messages: u64,
) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([CHILD, over, stop, &place.to_string(), &messages.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}; it must be installed for this bench"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find_map(|line| line.split("Collected :").nth(1));
    match counted {
        Some(counted) if output.status.success() => Ok(counted.trim().parse()?),
        _ => Err(format!("{stop} over {over} failed under callgrind: {said}").into()),
    }
}
