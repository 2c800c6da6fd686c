//! Hostile peers: what they cost honest clients, and what they make the server hold.
//!
//! ```text
//! cargo bench --bench hostile -- [--scene NAME] [--origin NAME] [--seconds 4] [--memory 256]
//!     [--rounds 1] [--priority idle|other|equal] [--program PATH] [--other-server]
//! ```
//!
//! For each scene and each origin a `corelane` process serves the demo services and a directory.
//! Honest clients of every transport call it at fixed rates: first alone, then while hostile peers
//! run the scene, `--seconds` each, then alone again. `--memory` is `memory_bytes_max` in MiB;
//! scenes of the memory guard have at least 1 GiB. `--program` measures another `corelane`. With
//! several rounds, medians are printed, and the sums of calls and failures.
//!
//! An origin is the set of addresses of the hostile peers: `loopback` (127.0.0.1, which has no
//! limits by address), `one`, `two` and `forty` IPv4 addresses, each of another /24, and
//! `prefixes`, an IPv6 address of each of 300 prefixes of 64 bits. Honest clients have an address
//! of their own that is not exempt from limits. The bench runs in a network namespace of its own,
//! which has these addresses. Where the machine does not permit one, it says so and leaves out
//! `prefixes`.
//!
//! Server, honest clients and hostile peers share the machine. So the hostile peers are a process
//! of their own with the policy `SCHED_IDLE`, which leaves the processor to the others. With
//! `--priority equal` they have the priority of everything else. On a machine with other load,
//! start the bench with a real-time policy, and the hostile peers with `--priority other`:
//! `chrt --rr 1 cargo bench --bench hostile -- --priority other`.
//!
//! With `--other-server` the hostile peers attack another server of the same machine, whose
//! processor they share: what the honest clients of the first one see then is the least that is
//! possible beside these peers.
//!
//! With the memory guard, memory is short from 1 % of the machine's on. Its latencies begin once it
//! is, and no honest client of it opens new connections, which are refused then.
//!
//! The rules, of which each broken one is in the last column, and makes the exit status 1:
//!
//! - `failed`: no call of an honest client fails.
//! - `memory`: the resident memory of the server stays below `memory_bytes_max` and 64 MiB.
//! - `p99`: of the small calls in the attack at most 3 times that before, or 10 ms with
//!   `--priority equal`. Latencies begin when a call is due.
//! - `health`: p99 of `/healthz` and `/readyz` in the attack is at most 100 ms.
//! - `recovery`: from one second after the last hostile peer has closed its connections on, no call
//!   fails, and in four of five tenths of a second the median of the small calls is below the bound
//!   of p99.

mod schedule;

mod sockets;

mod credentials;

mod introspection;

mod conversation;

mod honest_client;

mod attack;

mod origin;

mod scenes;

mod scripts;

mod attackers;

mod measurement;

mod table;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use corelane_bench_support::{arguments, process};
use corelane_engine::process::raise_open_files_limit;

use self::attackers::Priority;
use self::credentials::Files;
use self::measurement::Measurement;
use self::origin::{NAMESPACE, Origin};
use self::scenes::Scene;

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

/// The flags that a value follows.
const VALUES: [&str; 7] =
    ["--scene", "--origin", "--seconds", "--memory", "--rounds", "--priority", "--program"];

fn main() -> io::Result<ExitCode> {
    raise_open_files_limit();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [first, program, rest @ ..] if first == process::CHILD => {
            process::setup_child(&[0, 1])?;
            Err(process::exec_program(program, rest))
        }
        [first, rest @ ..] if first == attackers::ATTACK => {
            attackers::run(rest).map(|()| ExitCode::SUCCESS)
        }
        [first, rest @ ..] if first == NAMESPACE => {
            origin::configure_namespace()?;
            measure(rest, true)
        }
        all => {
            arguments::check(all, &VALUES, &["--other-server"])?;
            match origin::enter_namespace(all) {
                Ok(never) => match never {},
                Err(error) => {
                    eprintln!("no network namespace, so no origin prefixes: {error}");
                    measure(all, false)
                }
            }
        }
    }
}

/// Measures what the arguments name.
fn measure(arguments: &[String], has_namespace: bool) -> io::Result<ExitCode> {
    let value = |flag: &str| {
        let position = arguments.iter().position(|argument| argument == flag);
        position.and_then(|position| arguments.get(position + 1)).map(String::as_str)
    };
    let number = |flag: &str, default: u64| {
        value(flag).map_or(Ok(default), |text| text.parse::<u64>().map_err(io::Error::other))
    };
    let priority = match value("--priority") {
        None | Some("idle") => Priority::Idle,
        Some("other") => Priority::Other,
        Some("equal") => Priority::Equal,
        Some(other) => return Err(io::Error::other(format!("no priority {other}"))),
    };
    let measurement = Measurement {
        program: value("--program").unwrap_or(CORELANE),
        files: Files::create()?,
        span: Duration::from_secs(number("--seconds", 4)?.clamp(1, 60)),
        rounds: usize::try_from(number("--rounds", 1)?.clamp(1, 100)).map_err(io::Error::other)?,
        priority,
        attacks_other: arguments.iter().any(|argument| argument == "--other-server"),
        memory_bytes_max: number("--memory", 256)?.clamp(16, 1 << 20) << 20,
    };
    if !Path::new(measurement.program).exists() {
        return Err(io::Error::other(format!("{} does not exist", measurement.program)));
    }
    let scenes = match value("--scene") {
        None => Scene::ALL.to_vec(),
        Some(names) => names.split(',').map(Scene::named).collect::<io::Result<_>>()?,
    };
    let origins = match value("--origin") {
        None => Origin::ALL.to_vec(),
        Some(names) => names.split(',').map(Origin::named).collect::<io::Result<_>>()?,
    };
    let origins: Vec<Origin> =
        origins.into_iter().filter(|origin| has_namespace || !origin.needs_namespace()).collect();
    if origins.is_empty() {
        return Err(io::Error::other("no origin is left"));
    }
    table::print(scenes.iter().flat_map(|scene| {
        let (measurement, scene) = (&measurement, *scene);
        origins.iter().map(move |origin| measurement.run(scene, *origin))
    }))
}
