//! All workers of a run, and what they have seen together.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::num::{NonZero, NonZeroU64};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::capacity::descriptors_max;
use corelane::engine::clock::Clock;
use corelane::engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Ring, RingOptions};

use super::job::Job;
use super::period::Period;
use super::rings::Rings;
use super::seconds::{Second, Seconds};
use super::spawning::Spawning;
use super::staffing::{Staff, sizes};
use super::worker::Worker;
use crate::children::Keeper;
use crate::measure::fanout::{Gathering, Publication};
use crate::measure::group::{Group, LOOKS_MAX, Programs};
use crate::measure::host::CoreTime;
use crate::measure::process::{Process, Sample};
use crate::measure::second::SecondResult;
use crate::schedule::Share;
use crate::wire::trust::TlsClient;

/// From the moment at which all connections are open to the first request.
const START_AFTER: Duration = Duration::from_millis(50);

/// What to do about a server that is not there.
pub(super) const ADVICE: &str = "start the server, or correct the address";

/// What a run has seen.
#[derive(Clone, Debug)]
pub struct Finding {
    /// All that was measured.
    pub total: Period,
    /// What of it was measured before slow readers began, where they began later than the rest.
    pub before: Option<Box<Period>>,
    /// Second by second, warm-up included; in that nothing is recorded but connections.
    pub seconds: Vec<SecondResult>,
    /// The most resident memory that the server's process was seen with; zero where none is.
    pub resident_bytes_max: u64,
    /// CPU time of the generator, from the first request on.
    pub cpu: Duration,
    /// CPU time of the server's process in the same time, where it is watched.
    pub server_cpu: Option<Duration>,
    /// The part of the time of all cores in that time which the machine's host kept from it; none
    /// where the system does not tell.
    pub stolen: Option<f64>,
    /// What became of the programs that were started, where connections are processes.
    pub programs: Option<Programs>,
    /// Connections that were open when the first request left.
    pub opened: u64,
    /// How long opening them took, from the start of the workers on.
    pub opening: Duration,
    /// Local addresses that they came from; none where the kernel chose.
    pub sources: Vec<IpAddr>,
    /// Streams that listened then.
    pub listening: u64,
    /// How publications reached them.
    pub publications: Vec<Publication>,
    /// What drove it: the ring and what the kernel granted.
    pub ring: String,
    /// Threads that drove it: as many as were asked for, or one for each connection.
    pub workers: u32,
    /// What was agreed on in the first handshake of TLS, and how certificates were checked, where
    /// the target is encrypted.
    pub tls: Option<String>,
}

/// Why a run came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Fruitless {
    /// A worker could not be started, or its ring.
    #[error("the load could not start: {0}")]
    Start(#[from] io::Error),
    /// No connection came about.
    #[error("no connection could be opened: {0}")]
    Unreachable(String),
    /// There are more connections than files, and no ring that needs none for them.
    #[error(
        "{connections} connections do not fit into the {files} files that this process may open, \
         and without io_uring each takes one: raise the limit (ulimit -n), allow io_uring, or ask \
         for at most {possible} connections"
    )]
    Crowded {
        /// How many were asked for.
        connections: u32,
        /// Files that the process may have open.
        files: u32,
        /// Connections that would fit.
        possible: u32,
    },
    /// Connections opened, and nobody was let listen.
    #[error("no stream could be opened: {0}; name something that this server lets listen to")]
    Unheard(String),
    /// No program came up.
    #[error("the program did not come up: {0}; correct the command")]
    Unstarted(String),
    /// A worker has ended before its time.
    #[error("a worker of the load has failed")]
    Failed,
}

/// What a worker tells.
enum Report {
    /// It has opened what it could.
    Connected { open: u64, listening: u64, refused: Option<String>, ring: String },
    /// About a second has gone by: the number of this second, and what happened.
    Period { second: usize, period: Box<Period> },
    /// It could not start.
    Failed(io::Error),
}

/// What a worker is told.
enum Order {
    /// Begin at this moment.
    Begin(Moment),
    /// An empty period to write into.
    Empty(Box<Period>),
}

/// Does a job with so many workers, or with one for each connection where those are fewer, pinned
/// to these cores in turn where any are named. `watched` is the server's process; without one, the
/// programs that the job starts are watched themselves. `tell` hears of each second when it is
/// over.
///
/// # Errors
///
/// Where no connection comes about, or a worker fails. A run that came about is a finding, however
/// badly it went.
pub fn run(
    job: &Job,
    (workers, cores): (u32, &[usize]),
    watched: Option<&Process>,
    tell: impl FnMut(usize, &Second),
) -> Result<Finding, Fruitless> {
    let clock = Clock::start();
    let files = descriptors_max();
    let Staff { workers, rings, may_poll } =
        Staff::of(job.connections_all(), workers, files, || has_uring(clock))?;
    let mut job = job.clone();
    if workers as usize > cores_for(cores) {
        // Whoever stays awake keeps another worker from its core.
        job.limits.spin_max = Duration::ZERO;
    }
    let (reports, heard) = channel();
    let mut crew = Crew { orders: Vec::new(), heard, threads: Vec::new() };
    let group = job.program.as_ref().map(|_| Arc::new(Group::default()));
    for worker in 0..workers {
        let (orders, ordered) = channel();
        crew.orders.push(orders);
        // Made here, where no thread is pinned: its children run on all cores.
        let keeper = job.program.clone().zip(group.clone());
        let keeper = keeper.map(|(program, group)| Keeper::new(program, group)).transpose()?;
        let post = Post {
            job: job.clone(),
            share: Share { worker, workers },
            clock,
            files,
            rings,
            may_poll,
            core: cores.get(worker as usize % cores.len().max(1)).copied(),
            reports: reports.clone(),
            ordered,
            keeper,
        };
        let thread = thread::Builder::new().name(format!("load-{worker}"));
        crew.threads.push(thread.spawn(move || post.work())?);
    }
    drop(reports);
    let look = |looks_max| match (watched, &group) {
        (None, Some(group)) => Some(group.sample(looks_max)),
        (watched, _) => watched.copied().and_then(Process::sample),
    };
    let found = crew.collect(&job, clock, look, tell);
    // Programs that were started have ended before anybody hears what came of the run.
    let is_well = (found.is_err() && group.is_none()) || crew.dismiss();
    match found {
        Ok(_) if !is_well => Err(Fruitless::Failed),
        Err(Fruitless::Unreachable(why)) if let Some(group) = &group => {
            let words = group.words().filter(|words| !why.contains(words.as_str()));
            let words = words.map_or_else(String::new, |words| format!("; it said: {words}"));
            Err(Fruitless::Unstarted(why + &words))
        }
        found => Ok(Finding {
            programs: group.map(|group| group.programs()),
            tls: job.tls.as_ref().map(TlsClient::describe),
            ..found?
        }),
    }
}

/// On how many cores the workers are.
fn cores_for(cores: &[usize]) -> usize {
    match cores.iter().collect::<BTreeSet<_>>().len() {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        count => count,
    }
}

/// What one worker is given.
struct Post {
    job: Job,
    share: Share,
    clock: Clock,
    /// Files that the process may have open.
    files: u32,
    /// How many rings of its own it has.
    rings: u32,
    /// Whether readiness, which takes a file for each connection, would do.
    may_poll: bool,
    core: Option<usize>,
    reports: Sender<(u32, Report)>,
    ordered: Receiver<Order>,
    keeper: Option<Keeper>,
}

impl Post {
    fn work(self) {
        if let Some(core) = self.core {
            pin(core);
        }
        // A thread's timers are late by 50 µs by default, so that several of them may share a wake.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).unwrap_or(());
        let crew = (self.share.workers, self.rings);
        let options = sizes(self.job.connections_all(), crew, self.files);
        let options =
            if self.keeper.is_some() { over_pipes(&options, self.files) } else { options };
        #[cfg(target_os = "linux")]
        match (0..self.rings).map(|_| UringRing::new(&options, self.clock)).collect() {
            Ok(rings) => return self.drive_all(rings, &options),
            Err(error) if !self.may_poll => return self.report(Report::Failed(error)),
            Err(_) => {}
        }
        match PollRing::new(&options, self.clock) {
            Ok(ring) => self.drive(ring),
            Err(error) => self.report(Report::Failed(error)),
        }
    }

    /// Drives with as many rings as it takes.
    #[cfg(target_os = "linux")]
    fn drive_all(self, mut rings: Vec<UringRing>, options: &RingOptions) {
        if rings.len() > 1 {
            return match Rings::new(rings, options) {
                Ok(rings) => self.drive(rings),
                Err(error) => self.report(Report::Failed(error)),
            };
        }
        if let Some(ring) = rings.pop() {
            self.drive(ring);
        }
    }

    fn drive<R: Ring>(mut self, ring: R) {
        let described = ring.describe();
        let waker = ring.waker();
        let mut worker = Worker::new(ring, self.job.clone(), self.share);
        worker.spawning = self.keeper.take().map(|keeper| Spawning::new(keeper, waker));
        let (open, refused) = worker.connect();
        let listening = worker.listening();
        self.report(Report::Connected { open, listening, refused, ring: described });
        let Ok(Order::Begin(begin)) = self.ordered.recv() else { return };
        let mut second = 0;
        worker.drive(begin, |period| {
            self.report(Report::Period { second, period });
            second += 1;
            match self.ordered.try_recv() {
                Ok(Order::Empty(period)) => period,
                _ => Box::default(),
            }
        });
        // The server is looked at once more, with all that was open, before anything closes.
        drop(self.reports);
        while self.ordered.recv().is_ok() {}
    }

    /// Tells the collector; where that has gone nobody wants to know.
    fn report(&self, report: Report) {
        drop(self.reports.send((self.share.worker, report)));
    }
}

/// Whether this machine has rings that take no file for a connection.
#[cfg(target_os = "linux")]
fn has_uring(clock: Clock) -> bool {
    let smallest = RingOptions {
        sockets_max: 1,
        submissions_max: 8,
        completions_max: 16,
        receive_buffers: 8,
        ..RingOptions::default()
    };
    UringRing::new(&smallest, clock).is_ok()
}

/// Whether this machine has rings that take no file for a connection.
#[cfg(not(target_os = "linux"))]
const fn has_uring(_clock: Clock) -> bool {
    false
}

/// A ring with two ends for each connection, and larger buffers: a pipe is read once at a time, so
/// that each read has to take as much as a pipe holds. Fewer of them, so as to stay in the caches.
fn over_pipes(options: &RingOptions, files: u32) -> RingOptions {
    let sockets_max = options.sockets_max.saturating_mul(2).min(files);
    let receive_buffers = (options.sockets_max / 8).next_power_of_two().clamp(8, 256);
    RingOptions {
        sockets_max,
        receive_buffers: u16::try_from(receive_buffers).unwrap_or(u16::MAX),
        receive_buffer_bytes: 64 * 1_024,
        ..*options
    }
}

/// Keeps the calling thread on a core, where the system lets it.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).unwrap_or(());
}

/// The workers, seen from the collector.
struct Crew {
    orders: Vec<Sender<Order>>,
    heard: Receiver<(u32, Report)>,
    threads: Vec<JoinHandle<()>>,
}

/// What came about before the first request.
struct Gathered {
    /// Connections that are open.
    opened: u64,
    /// Streams that listen.
    listening: u64,
    /// Over which ring.
    ring: String,
    /// Why another did not open.
    refused: Option<String>,
}

impl Crew {
    fn collect(
        &mut self,
        job: &Job,
        clock: Clock,
        look: impl Fn(usize) -> Option<Sample>,
        mut tell: impl FnMut(usize, &Second),
    ) -> Result<Finding, Fruitless> {
        let started = clock.now();
        let Gathered { opened, listening, ring, refused } = self.gather(job)?;
        let now = clock.now();
        let (opening, begin) = (now.since(started), now.after(START_AFTER));
        for order in &self.orders {
            drop(order.send(Order::Begin(begin)));
        }
        let core_time = CoreTime::look();
        let cpu_of_server = || look(usize::MAX).map(|sample| sample.cpu);
        let (cpu_before, server_before) = (Process::own_cpu(), cpu_of_server());
        let before = job.readers.map(|readers| readers.at).filter(|at| *at > job.warm_up);
        let mut seconds = Seconds::new(self.orders.len(), job.warm_up, before);
        let mut gathering = Gathering::default();
        while let Ok((worker, report)) = self.heard.recv() {
            let Report::Period { second, mut period } = report else { continue };
            let server = look(LOOKS_MAX);
            gathering.add(&mut period.listened.reaches, self.orders.len());
            seconds.add((second, &period), || [server, Process::own().sample()], &mut tell);
            period.clear();
            if let Some(order) = self.orders.get(worker as usize) {
                drop(order.send(Order::Empty(period)));
            }
        }
        // The connections are still open: closing them is none of the load's cost.
        let (cpu_after, server_after) = (Process::own_cpu(), cpu_of_server());
        let workers = u32::try_from(self.orders.len()).unwrap_or(u32::MAX);
        seconds.finish(&mut tell);
        // What was told later says more.
        seconds.total.refused = seconds.total.refused.or(refused);
        let spent = |(before, after): (Duration, Duration)| after.saturating_sub(before);
        Ok(Finding {
            total: seconds.total,
            before: seconds.before,
            seconds: seconds.kept,
            resident_bytes_max: seconds.resident_bytes_max,
            cpu: spent((cpu_before, cpu_after)),
            server_cpu: server_before.zip(server_after).map(spent),
            stolen: core_time.zip(CoreTime::look()).map(|(from, to)| to.stolen_since(from)),
            programs: None,
            opened,
            opening,
            sources: job.connect.sources.clone(),
            listening,
            publications: gathering.finish(),
            ring,
            workers,
            tls: None,
        })
    }

    /// Has every worker close what it has, and waits for that; whether all of them ended well.
    fn dismiss(&mut self) -> bool {
        self.orders.clear();
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        joined.iter().all(Result::is_ok)
    }

    /// Waits until every worker has opened what it could.
    fn gather(&self, job: &Job) -> Result<Gathered, Fruitless> {
        let (mut opened, mut streams, mut ring, mut why) = (0, 0, String::new(), None);
        for _ in &self.orders {
            match self.heard.recv() {
                Ok((_, Report::Connected { open, listening, refused, ring: described })) => {
                    opened += open;
                    streams += listening;
                    ring = described;
                    why = refused.or(why);
                }
                Ok((_, Report::Failed(error))) => return Err(error.into()),
                _ => return Err(Fruitless::Failed),
            }
        }
        let refused = why.clone();
        let advice = if job.program.is_some() { String::new() } else { format!(": {ADVICE}") };
        let why = || why.unwrap_or_else(|| format!("nothing answered in time{advice}"));
        if opened == 0 {
            return Err(Fruitless::Unreachable(why()));
        }
        if job.listen.is_some() && streams == 0 {
            return Err(Fruitless::Unheard(why()));
        }
        Ok(Gathered { opened, listening: streams, ring, refused })
    }
}
