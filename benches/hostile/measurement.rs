//! One scene of one origin on one server.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_bench_support::process::Server;

use crate::attack::AttackCounts;
use crate::attackers::{Attackers, Priority};
use crate::conversation::{Addresses, Service};
use crate::credentials::{Files, tls_client};
use crate::honest_client::{HonestClient, Kind};
use crate::introspection::IntrospectionEndpoint;
use crate::origin::Origin;
use crate::scenes::{Scene, Target};
use crate::schedule::{Phase, PhaseCalls, Schedule};

/// What all scenes have in common.
#[derive(Debug)]
pub(crate) struct Measurement<'a> {
    /// The `corelane` program.
    pub(crate) program: &'a str,
    pub(crate) files: Files,
    /// Time of an attack, and of the phase that it is compared with.
    pub(crate) span: Duration,
    /// Measurements of each scene.
    pub(crate) rounds: usize,
    /// Priority of the hostile peers.
    pub(crate) priority: Priority,
    /// The memory limit of the server.
    pub(crate) memory_bytes_max: u64,
    /// The hostile peers attack another server on the same machine.
    pub(crate) attacks_other: bool,
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
    pub(crate) peak: u64,
    /// After the hostile peers have left.
    pub(crate) after: u64,
}

/// Processor time of the server in percent of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPercent {
    pub(crate) quiet: u64,
    pub(crate) attack: u64,
}

/// Result of one scene.
#[derive(Debug)]
pub(crate) struct SceneResult {
    pub(crate) scene: Scene,
    pub(crate) origin: Origin,
    pub(crate) priority: Priority,
    pub(crate) memory_bytes_max: u64,
    /// Each round, or why the scene could not be measured.
    pub(crate) rounds: io::Result<Vec<Measured>>,
}

/// What was measured in one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) kinds: Vec<KindCalls>,
    pub(crate) memory: Memory,
    pub(crate) cpu: CpuPercent,
    pub(crate) attack: AttackCounts,
    /// When the hostile peers had closed their connections.
    pub(crate) left_at: Instant,
}

impl Measurement<'_> {
    /// Measures a scene, each round on a new server.
    pub(crate) fn run(&self, scene: Scene, origin: Origin) -> SceneResult {
        let memory_bytes_max = scene.memory_bytes_max(self.memory_bytes_max);
        let measure = |_| self.measure(scene, origin, memory_bytes_max);
        let rounds = (0..self.rounds).map(measure).collect();
        SceneResult { scene, origin, priority: self.priority, memory_bytes_max, rounds }
    }

    fn measure(&self, scene: Scene, origin: Origin, memory_bytes_max: u64) -> io::Result<Measured> {
        let endpoint = IntrospectionEndpoint::start()?;
        let server = self.start_server(scene, origin, memory_bytes_max, &endpoint)?;
        let other = self
            .attacks_other
            .then(|| self.start_server(scene, origin, memory_bytes_max, &endpoint));
        let other = other.transpose()?;
        let directory = self.files.path();
        let attacked_addresses = addresses(other.as_ref().unwrap_or(&server))?;
        let addresses = addresses(&server)?;
        let tls = scene.has_tls().then(|| tls_client(directory)).transpose()?;
        let service = Service { addresses, from: origin.honest(), tls };
        let kinds = Kind::ALL.into_iter().filter(|kind| scene.admits(*kind));
        let clients = kinds.map(|kind| {
            let client = HonestClient::new(kind, &service, scene.credential(), directory);
            client.map(|client| (kind, client))
        });
        let clients = clients.collect::<io::Result<Vec<_>>>()?;
        let schedule = Schedule::start(self.span, scene.onset());
        thread::scope(|scope| {
            let schedule = &schedule;
            let clients = clients
                .into_iter()
                .map(|(kind, client)| (kind, scope.spawn(move || client.run(schedule))));
            // All run before the first is waited for.
            let clients: Vec<_> = clients.collect();
            schedule.wait_for_end_of(Phase::WarmUp);
            let begin = server.cpu_time()?;
            schedule.wait_for_end_of(Phase::Quiet);
            let quiet = server.cpu_time()?.saturating_sub(begin);
            server.reset_resident_peak()?;
            let attackers = origin.attackers();
            let addresses = attacked_addresses;
            let target = Target { addresses, directory, memory_bytes_max, attackers };
            let attackers = Attackers::start(scene, origin, &target, self.priority)?;
            schedule.wait_for_end_of(Phase::Onset);
            let begin = server.cpu_time()?;
            schedule.wait_for_end_of(Phase::Attack);
            let attacked = server.cpu_time()?.saturating_sub(begin);
            let attack = attackers.stop()?;
            let left_at = schedule.now();
            schedule.wait_for_end_of(Phase::After);
            let kinds = clients.into_iter().map(|(kind, thread)| {
                let calls = thread.join().map_err(|_| io::Error::other("a client panicked"))?;
                let calls = calls.map_err(|error| {
                    io::Error::other(format!("{}, before the attack: {error}", kind.name()))
                });
                Ok(KindCalls { kind, calls: calls? })
            });
            let kinds = kinds.collect::<io::Result<Vec<_>>>()?;
            let memory =
                Memory { peak: server.resident_peak_bytes()?, after: server.resident_bytes()? };
            scene.check_peak(memory.peak)?;
            let [quiet, attacked] = [quiet, attacked].map(|time| percent(time, self.span));
            let cpu = CpuPercent { quiet, attack: attacked };
            Ok(Measured { kinds, memory, cpu, attack, left_at })
        })
    }

    fn start_server(
        &self,
        scene: Scene,
        origin: Origin,
        memory_bytes_max: u64,
        endpoint: &IntrospectionEndpoint,
    ) -> io::Result<Server> {
        let listener = SocketAddr::new(origin.server(), 0);
        let directory = self.files.path();
        let served = directory.join("served").display().to_string();
        let line = format!(
            "{} serve --tcp {listener} --http {listener} --memory-bytes-max {memory_bytes_max} \
             --demo conformance --resources {served}",
            self.program
        );
        let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        arguments.extend(scene.server_arguments(directory, &endpoint.url()));
        Server::start_with_listeners(&arguments, 2)
    }
}

/// Returns processor time in percent of `span`.
fn percent(time: Duration, span: Duration) -> u64 {
    let percent = time.as_millis() * 100 / span.as_millis().max(1);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Returns the listeners of a server.
fn addresses(server: &Server) -> io::Result<Addresses> {
    match *server.addresses() {
        [tcp, http] => Ok(Addresses { tcp, http }),
        _ => Err(io::Error::other("the server has not two listeners")),
    }
}
