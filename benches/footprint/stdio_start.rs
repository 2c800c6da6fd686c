//! The start of `corelane stdio`, and the memory of an idle one.
//!
//! Each run starts a process and calls a tool; the time ends with the response. Memory is read in
//! the last one when it has been idle: what the process has allocated or written to
//! (`Anonymous` of `/proc/PID/smaps_rollup`), without the pages of the program file, which all its
//! processes share.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use corelane_bench_support::requests::{Era, RequestTemplate};
use corelane_engine::clock::Clock;

const RUNS: usize = 50;
/// Time in which the process becomes idle.
const IDLE: Duration = Duration::from_secs(1);
const MESSAGE_BYTES: usize = 32;
/// Targets.
const RESPONSE_MAX: Duration = Duration::from_millis(5);
const MEMORY_KIB_MAX: u64 = 2048;
const THREADS_MAX: usize = 2;

/// Memory and threads of a process.
struct Footprint {
    anonymous_kib: u64,
    threads: usize,
}

/// Starts `program` several times, and prints its medians.
#[expect(clippy::disallowed_methods, reason = "the server has no event for an idle time")]
pub(crate) fn measure(program: &str) -> io::Result<()> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 1..RUNS {
        times.push(run(program, |_| Ok(()))?.0);
    }
    let (last, footprint) = run(program, |id| {
        thread::sleep(IDLE);
        footprint(id)
    })?;
    times.push(last);
    times.sort_unstable();
    let (median, most) = (times[RUNS / 2], times[RUNS - 1]);
    let Footprint { anonymous_kib, threads } = footprint;
    writeln!(
        io::stdout(),
        "stdio, {RUNS} starts: first response after {median:.1?} ({:.1?} to {most:.1?}; target \
         {RESPONSE_MAX:?}); idle: {anonymous_kib} KiB (target {MEMORY_KIB_MAX}), {threads} threads \
         (target {THREADS_MAX})",
        times[0],
    )
}

/// Starts `program`, calls a tool and returns the time until the response, and what `inspect`
/// returns for the process.
fn run<T>(program: &str, inspect: impl FnOnce(u32) -> io::Result<T>) -> io::Result<(Duration, T)> {
    let call = RequestTemplate::echo(Era::Modern, MESSAGE_BYTES).repeat(1);
    let clock = Clock::start();
    let begun = clock.now();
    let mut command = Command::new(program);
    command.arg("stdio").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(&call)?;
    let mut response = String::new();
    BufReader::new(stdout.ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut response)?;
    let time = clock.now().since(begun);
    if !response.contains("\"result\"") {
        return Err(io::Error::other(format!("unexpected response: {response}")));
    }
    let inspected = inspect(child.id());
    drop(stdin);
    child.wait()?;
    Ok((time, inspected?))
}

fn footprint(id: u32) -> io::Result<Footprint> {
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let anonymous = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let anonymous = anonymous.and_then(|row| row.split_whitespace().next()?.parse().ok());
    let anonymous_kib = anonymous.ok_or_else(|| io::Error::other("no row Anonymous"))?;
    Ok(Footprint { anonymous_kib, threads: fs::read_dir(format!("/proc/{id}/task"))?.count() })
}
