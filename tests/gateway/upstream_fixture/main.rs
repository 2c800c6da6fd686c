//! An MCP server over standard input and output for tests of the gateway, with faults by name:
//! `upstream_fixture --era legacy --fault dies-in-call`.
//!
//! It ends when standard input ends, unless a fault states otherwise, and in any case after
//! `--life` seconds without input.

mod listings;
mod options;
mod output;
mod random;
mod server;
mod subscriptions;
mod tasks;
mod tools;

use std::env;
use std::io::{self, BufRead};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::options::{Fault, Options, USAGE};
use crate::server::Server;

/// The first argument of the process that [`Fault::Grandchild`] starts.
const HOLD: &str = "hold";
/// Status of a process that has had no input for too long.
const EXPIRED: u8 = 70;
/// How often the release file is looked for.
const POLL: Duration = Duration::from_millis(10);
/// Without such a file.
const NO_POLL: Duration = Duration::from_hours(1);

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == HOLD) {
        ignore_term();
        let seconds = arguments.nth(1).and_then(|seconds| seconds.parse().ok());
        return expire(seconds.map_or(Duration::from_mins(1), Duration::from_secs));
    }
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("upstream_fixture: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(code) => code,
        // The other end has closed its pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("upstream_fixture: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> io::Result<ExitCode> {
    if options.has(Fault::DiesAtStart) {
        eprintln!("upstream_fixture: cannot start");
        return Ok(ExitCode::from(3));
    }
    if options.has(Fault::IgnoresTerm) {
        ignore_term();
    }
    let grandchild = options.has(Fault::Grandchild).then(|| start_grandchild(options.life));
    let grandchild = grandchild.transpose()?;
    let (line_tx, lines) = mpsc::channel();
    let (pulse_tx, pulses) = mpsc::channel();
    let life = options.life;
    thread::spawn(move || read_lines(&line_tx, &pulse_tx));
    // In a thread of its own: a write may wait for a reader that does not read.
    thread::spawn(move || watch(&pulses, life));
    let survives = options.has(Fault::IgnoresTerm) || options.has(Fault::SurvivesStdin);
    let mut server = Server::new(options, grandchild.as_ref().map(Child::id))?;
    loop {
        let wait = if server.is_waiting() { POLL } else { NO_POLL };
        match lines.recv_timeout(wait) {
            Ok(line) => server.receive(&line)?,
            Err(RecvTimeoutError::Timeout) => {
                server.poll()?;
                server.poll_random()?;
            }
            Err(RecvTimeoutError::Disconnected) if survives => return Ok(expire(life)),
            Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Sends the lines of standard input until it ends.
fn read_lines(lines: &Sender<Vec<u8>>, pulses: &Sender<()>) {
    for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
        // The main thread may have ended.
        let is_sent = pulses.send(()).is_ok() && lines.send(line).is_ok();
        if !is_sent {
            return;
        }
    }
}

/// Ends the process if there is no input for `life`, which begins anew when input ends.
fn watch(pulses: &Receiver<()>, life: Duration) {
    let end = loop {
        if let Err(end) = pulses.recv_timeout(life) {
            break end;
        }
    };
    if end == RecvTimeoutError::Disconnected {
        expire(life);
    }
    process::exit(EXPIRED.into());
}

/// Waits for `life`.
fn expire(life: Duration) -> ExitCode {
    let (_tx, never) = mpsc::channel::<()>();
    let ended = never.recv_timeout(life);
    debug_assert!(ended.is_err(), "nothing is sent");
    ExitCode::from(EXPIRED)
}

/// SIGTERM sets a flag from now on.
fn ignore_term() {
    let flag = Arc::new(AtomicBool::new(false));
    let registered = signal_hook::flag::register(signal_hook::consts::SIGTERM, flag);
    registered.expect("SIGTERM can be handled");
}

/// Starts a process that lives for `life`.
fn start_grandchild(life: Duration) -> io::Result<Child> {
    let seconds = life.as_secs().to_string();
    Command::new(env::current_exe()?).args([HOLD, &seconds]).stdin(Stdio::null()).spawn()
}
