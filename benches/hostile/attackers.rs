//! The process of the hostile peers: this program again, with arguments that name the scene.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam::channel::{self, Receiver};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::attack::{Attack, AttackCounts};
use crate::conversation::Addresses;
use crate::credentials::{tls_client, write_api_keys};
use crate::origin::Origin;
use crate::scenes::{Scene, Target};

/// First argument of the process.
pub(crate) const ATTACK: &str = "--attack";

/// Runs a program with a scheduling policy: chrt(1) of util-linux, sched(7).
const CHRT: &str = "chrt";
/// Time for which the key of hostile peers is valid, and is not.
const KEY_TIME: Duration = Duration::from_secs(1);
/// Time in which hostile peers end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The priority of hostile peers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Priority {
    /// `SCHED_IDLE`: they run while no other thread wants the processor.
    Idle,
    /// `SCHED_OTHER`: lower than that of the server if the bench has a real-time policy.
    Other,
    /// That of the server and of the honest clients: `SCHED_OTHER` without a policy of the bench.
    Equal,
}

impl Priority {
    /// Returns the words of a command line that runs `program` with this priority.
    pub(crate) fn command(self, program: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Idle => &[CHRT, "--idle", "0", program],
            Self::Other => &[CHRT, "--other", "0", program],
            Self::Equal => &[program],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// Hostile peers in a process of their own, which ends with this value.
#[derive(Debug)]
pub(crate) struct Attackers {
    child: Child,
    /// They stop at its end.
    stdin: Option<ChildStdin>,
    /// What the process has written when it ends.
    output: Receiver<String>,
}

impl Attackers {
    /// Starts the hostile peers of a scene.
    pub(crate) fn start(
        scene: Scene,
        origin: Origin,
        target: &Target<'_>,
        priority: Priority,
    ) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let words = priority.command(&program.to_string_lossy());
        let Addresses { tcp, http } = target.addresses;
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args([ATTACK, scene.name(), origin.name(), &tcp.to_string(), &http.to_string()])
            .arg(target.directory)
            .arg(target.memory_bytes_max.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut stdout = stdout.ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, output) = channel::bounded(1);
        thread::spawn(move || {
            let mut text = String::new();
            // What was read before an error is incomplete, and reported as that.
            drop(stdout.read_to_string(&mut text));
            // After a failure it is not received.
            sender.send(text).unwrap_or(());
        });
        Ok(Self { child, stdin, output })
    }

    /// Has all peers close their connections, and returns what they have done.
    pub(crate) fn stop(mut self) -> io::Result<AttackCounts> {
        drop(self.stdin.take());
        let text = self.output.recv_timeout(STOP_TIMEOUT).map_err(io::Error::other)?;
        self.child.wait()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        match [numbers.next(), numbers.next()] {
            [Some(Ok(connections)), Some(Ok(sent_bytes))] => {
                Ok(AttackCounts { connections, sent_bytes })
            }
            _ => Err(io::Error::other("the hostile peers have failed")),
        }
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        self.child.kill().unwrap_or(());
        drop(self.child.wait());
    }
}

/// Runs the hostile peers that [`Attackers::start`] names until the end of standard input.
pub(crate) fn run(arguments: &[String]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let [scene, origin, tcp, http, directory, memory_bytes_max] = arguments else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let address = |text: &str| text.parse().map_err(io::Error::other);
    let target = Target {
        addresses: Addresses { tcp: address(tcp)?, http: address(http)? },
        directory: Path::new(directory),
        memory_bytes_max: memory_bytes_max.parse().map_err(io::Error::other)?,
        attackers: Origin::named(origin)?.attackers(),
    };
    let scene = Scene::named(scene)?;
    let scripts = scene.scripts(&target)?;
    if scene == Scene::WithdrawnKeys {
        let directory = target.directory.to_owned();
        thread::spawn(move || change_api_keys(&directory));
    }
    let tls = tls_client(target.directory)?;
    let (attack, end) = Attack::new(target.addresses, target.attackers, tls);
    let attack = Arc::new(attack);
    let running = Arc::clone(&attack);
    thread::spawn(move || running.run(&scripts));
    // An error is an end, too. The end of the process closes all connections at once.
    drop(io::copy(&mut io::stdin(), &mut io::sink()));
    drop(end);
    let AttackCounts { connections, sent_bytes } = attack.counts();
    writeln!(io::stdout(), "{connections} {sent_bytes}")
}

/// Withdraws the key of hostile peers and makes it valid again, until the process ends.
fn change_api_keys(directory: &Path) {
    for has_hostile in [true, false].into_iter().cycle() {
        // The directory is removed at the end of the bench.
        if write_api_keys(directory, has_hostile).is_err() {
            return;
        }
        if channel::after(KEY_TIME).recv().is_err() {
            return;
        }
    }
}
