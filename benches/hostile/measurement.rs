//! One scene on one server.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use corelane_bench_support::process::Server;
use tempfile::TempDir;

use crate::attack::AttackCounts;
use crate::attackers::{Attackers, Priority};
use crate::conversation::Addresses;
use crate::honest_client::{HonestClient, Kind};
use crate::scenes::{KEY_SET, Scene, Target};
use crate::schedule::{Phase, PhaseCalls, Schedule};

/// Size of the large file: the default of `resources.file_bytes_max`.
const LARGE_BYTES: usize = 8 << 20;

/// A directory with a small and a large file.
#[derive(Debug)]
pub(crate) struct Files(TempDir);

impl Files {
    /// Writes the files to a temporary directory, which is removed at the end.
    pub(crate) fn create() -> io::Result<Self> {
        let files = Self(TempDir::new()?);
        fs::write(files.0.path().join("large.txt"), "large ".repeat(LARGE_BYTES / 6))?;
        fs::write(files.0.path().join("small.txt"), "small")?;
        fs::write(files.0.path().join("keys.json"), KEY_SET)?;
        Ok(files)
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.0.path().join(name).display())
    }
}

/// What all scenes have in common.
#[derive(Debug)]
pub(crate) struct Measurement<'a> {
    /// The `corelane` program.
    pub(crate) program: &'a str,
    pub(crate) files: Files,
    /// Time of an attack, and of each phase that it is compared with.
    pub(crate) span: Duration,
    /// Measurements of each scene.
    pub(crate) rounds: usize,
    /// Priority of the hostile peers.
    pub(crate) priority: Priority,
}

/// The calls of one kind of honest client.
#[derive(Debug)]
pub(crate) struct KindCalls {
    pub(crate) kind: Kind,
    pub(crate) calls: PhaseCalls,
}

/// Resident memory of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) quiet: u64,
    pub(crate) peak: u64,
    /// After the hostile peers have left.
    pub(crate) after: u64,
}

/// Result of one scene.
#[derive(Debug)]
pub(crate) struct SceneResult {
    pub(crate) scene: Scene,
    pub(crate) memory_bytes_max: u64,
    /// Each round, or why the scene could not be measured.
    pub(crate) rounds: io::Result<Vec<Measured>>,
}

/// What was measured in one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) kinds: Vec<KindCalls>,
    pub(crate) memory: Memory,
    pub(crate) attack: AttackCounts,
}

impl Measurement<'_> {
    /// Measures a scene, each round on new servers with this memory limit.
    pub(crate) fn run(&self, scene: Scene, memory_bytes_max: u64) -> SceneResult {
        let rounds = (0..self.rounds).map(|_| self.measure(scene, memory_bytes_max)).collect();
        SceneResult { scene, memory_bytes_max, rounds }
    }

    fn measure(&self, scene: Scene, memory_bytes_max: u64) -> io::Result<Measured> {
        let server = self.start_server(scene, memory_bytes_max, Priority::Equal)?;
        let below = if self.priority == Priority::Equal { Priority::Idle } else { self.priority };
        let control = self.start_server(scene, memory_bytes_max, below)?;
        let (small_file, large_file) = (self.files.uri("small.txt"), self.files.uri("large.txt"));
        let attack = |server: &Server| {
            let addresses = addresses(server)?;
            let target = Target { addresses, large_file: &large_file, memory_bytes_max };
            Attackers::start(scene, &target, self.priority)
        };
        let addresses = addresses(&server)?;
        let schedule = Schedule::start(self.span, scene.onset());
        thread::scope(|scope| {
            let clients = Kind::ALL.into_iter().filter(|kind| scene.admits(*kind)).map(|kind| {
                let client = HonestClient::new(kind, addresses, &small_file);
                (kind, scope.spawn(|| client.run(&schedule)))
            });
            // All run before the first is waited for.
            let clients: Vec<_> = clients.collect();
            schedule.wait_for_end_of(Phase::Quiet);
            let attackers = attack(&control)?;
            schedule.wait_for_end_of(Phase::Control);
            attackers.stop()?;
            drop(control);
            schedule.wait_for_end_of(Phase::ControlAfter);
            let quiet = server.resident_bytes()?;
            server.reset_resident_peak()?;
            let attackers = attack(&server)?;
            schedule.wait_for_end_of(Phase::Attack);
            let attack = attackers.stop()?;
            schedule.wait_for_end_of(Phase::After);
            let kinds = clients.into_iter().map(|(kind, thread)| {
                let calls = thread.join().map_err(|_| io::Error::other("a client panicked"))?;
                Ok(KindCalls { kind, calls: calls? })
            });
            let kinds = kinds.collect::<io::Result<Vec<_>>>()?;
            let (peak, after) = (server.resident_peak_bytes()?, server.resident_bytes()?);
            scene.check_peak(peak)?;
            Ok(Measured { kinds, memory: Memory { quiet, peak, after }, attack })
        })
    }

    fn start_server(
        &self,
        scene: Scene,
        memory_bytes_max: u64,
        priority: Priority,
    ) -> io::Result<Server> {
        let directory = self.files.0.path().display();
        let others = scene.server_arguments(&format!("{directory}/keys.json"));
        let line = format!(
            "serve --tcp 127.0.0.1:0 --http 127.0.0.1:0 --memory-bytes-max {memory_bytes_max} \
             --demo conformance --resources {directory}{others}"
        );
        let mut arguments = priority.command(self.program);
        arguments.extend(line.split(' ').map(str::to_owned));
        Server::start_with_listeners(&arguments, 2)
    }
}

/// Returns the listeners of a server.
fn addresses(server: &Server) -> io::Result<Addresses> {
    match *server.addresses() {
        [tcp, http] => Ok(Addresses { tcp, http }),
        _ => Err(io::Error::other("the server has not two listeners")),
    }
}
