//! Hostile peers: what they cost honest clients, and how much memory the server takes.
//!
//! ```text
//! cargo bench --bench hostile -- [--scene NAME] [--memory MIB] [--seconds 8] [--rounds 1]
//!     [--priority idle|other|equal] [--program PATH]
//! ```
//!
//! For each scene and memory limit (256 MiB and the default) a `corelane` process serves the demo
//! services and a directory. Honest clients of every transport call it at fixed rates from
//! 127.0.0.1: first alone, then while hostile peers at 127.0.0.2 run the scene against another
//! `corelane` (the control), then while they run it against this one, then alone again, `--seconds`
//! each. `--program` measures another `corelane`. With several rounds, medians are printed, and the
//! sums of calls and failures.
//!
//! Server, honest clients and hostile peers share the machine. So the hostile peers are a process
//! of their own with the policy `SCHED_IDLE`, which leaves the processor to the others, and so is
//! the server of the control. What is left of the machine's part in the latencies is in the
//! control: the ratio of attack to control is what the attack does to the server. With `--priority
//! equal` hostile peers have the priority of everything else. On a machine with other load, start
//! the bench with a real-time policy, and the hostile peers with `--priority other`:
//! `chrt --rr 1 cargo bench --bench hostile -- --priority other`.
//!
//! With the memory guard, memory is short from 1 % of the machine's on: half of the limit must be
//! more than that. Its latencies begin once it is, and no honest client of it opens new
//! connections, which are refused then.
//!
//! A scene holds if no request of an honest client fails and the server's resident memory stays
//! below 1.5 times its limit; the exit status is 1 if one does not. Latencies begin when a call is
//! due. They depend on the machine, so only the ratios to the other phases are of interest.

mod schedule;

mod conversation;

mod honest_client;

mod attack;

mod scenes;

mod attackers;

mod measurement;

mod table;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use corelane::Options;
use corelane_bench_support::process;
use corelane_engine::process::raise_open_files_limit;

use self::attackers::Priority;
use self::measurement::{Files, Measurement};
use self::scenes::Scene;

/// The small limit.
const SMALL_BYTES: u64 = 256 << 20;
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

fn main() -> io::Result<ExitCode> {
    raise_open_files_limit();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, program, rest @ ..] = arguments.as_slice()
        && first == process::CHILD
    {
        process::setup_child(&[0, 1])?;
        return Err(process::exec_program(program, rest));
    }
    if let [first, rest @ ..] = arguments.as_slice()
        && first == attackers::ATTACK
    {
        return attackers::run(rest).map(|()| ExitCode::SUCCESS);
    }
    let value = |flag: &str| {
        let position = arguments.iter().position(|argument| argument == flag);
        position.and_then(|position| arguments.get(position + 1)).map(String::as_str)
    };
    let number = |flag: &str| {
        value(flag).map(|text| text.parse::<u64>().map_err(io::Error::other)).transpose()
    };
    let limits = match number("--memory")? {
        Some(mebibytes) => vec![mebibytes << 20],
        None => vec![SMALL_BYTES, Options::default().limits.memory_bytes_max as u64],
    };
    let seconds = number("--seconds")?.unwrap_or(8).clamp(1, 60);
    let rounds = number("--rounds")?.unwrap_or(1).clamp(1, 100);
    let priority = match value("--priority") {
        None | Some("idle") => Priority::Idle,
        Some("other") => Priority::Other,
        Some("equal") => Priority::Equal,
        Some(other) => return Err(io::Error::other(format!("no priority {other}"))),
    };
    let measurement = Measurement {
        program: value("--program").unwrap_or(CORELANE),
        files: Files::create()?,
        span: Duration::from_secs(seconds),
        rounds: usize::try_from(rounds).map_err(io::Error::other)?,
        priority,
    };
    let scenes: Vec<Scene> = match value("--scene") {
        None => Scene::ALL.into(),
        Some(name) => vec![Scene::named(name)?],
    };
    if !Path::new(measurement.program).exists() {
        return Err(io::Error::other(format!("{} does not exist", measurement.program)));
    }
    table::print(limits.iter().flat_map(|limit| {
        let (measurement, limit) = (&measurement, *limit);
        scenes.iter().map(move |scene| measurement.run(*scene, limit))
    }))
}
