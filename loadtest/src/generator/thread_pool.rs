//! The load threads of a run, and the collection of their measurements.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::vec::IntoIter;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_engine::process::raise_open_files_limit;
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Ring, RingOptions};
use corelane_protocol::model::Implementation;

use super::cpu_window::{CpuReading, CpuWindow};
use super::load_thread::LoadThread;
use super::period::Period;
use super::processes::Processes;
#[cfg(target_os = "linux")]
use super::ring_set::RingSet;
use super::run_config::{CONNECT_HINT, LoadMode, RunConfig};
use super::run_error::RunError;
use super::second_summary::ProcessSamples;
use super::seconds::{Second, SecondCollector, WindowTotals};
use super::thread_plan::{ThreadPlan, ring_options};
use crate::children::ProcessPool;
use crate::metrics::control_group::throttled_time;
use crate::metrics::fanout::{DeliveryCollector, Publication};
use crate::metrics::host::{CoreTime, MachineUse};
use crate::metrics::process::{Process, Sample};
use crate::metrics::process_group::{Accounting, ProcessGroup, ProgramCounts, SAMPLES_MAX};
use crate::metrics::second::SecondResult;
use crate::schedule::Share;
use crate::sign_in::{NewToken, TokenRenewal};
use crate::wire::tls::RunTls;

/// Delay from the last opened connection to the first request.
const START_DELAY: Duration = Duration::from_millis(50);

/// Measurements of a run.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Whether the run was ended before its time.
    pub is_stopped: bool,
    /// Everything that was measured.
    pub total: Period,
    /// The part of it that lies in the measured window.
    pub window: WindowTotals,
    /// The part measured before slow readers began, if they began after the warm-up.
    pub before_slow_readers: Option<Box<Period>>,
    /// One entry per second, warm-up included; during warm-up only connections are counted.
    pub seconds: Vec<SecondResult>,
    /// CPU time and memory of the processes.
    pub usage: ResourceUsage,
    /// Counts of started and killed programs, if connections are child processes.
    pub programs: Option<ProgramCounts>,
    /// Connections that were open when the first request was sent.
    pub opened: u64,
    /// Time to open them, from the start of the load threads.
    pub connect_time: Duration,
    /// Subscription streams that were open when the first request was sent.
    pub open_streams: u64,
    /// Delivery of each publication to the streams.
    pub publications: Vec<Publication>,
    /// Why tokens of users were not renewed, if some were not.
    pub sign_in_note: Option<String>,
    /// What the load generator ran with.
    pub setup: GeneratorSetup,
}

/// CPU time and memory of a run. CPU times are those of the measured window.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    /// Time between the two readings of CPU times, about the length of the window.
    pub span: Duration,
    /// CPU time of the generator.
    pub cpu: Duration,
    /// CPU time of the server, if it is observed.
    pub server_cpu: Option<Duration>,
    /// Which processes count as the server's.
    pub server_accounting: Option<Accounting>,
    /// Highest resident memory of the server, in bytes, if it is observed.
    pub server_resident_bytes_max: Option<u64>,
    /// Use of all cores of the machine, if the system reports it.
    pub machine: Option<MachineUse>,
    /// Part of the window for which the generator waited because of the CPU limit of its control
    /// group, from 0 to 1, if it is in one.
    pub throttled_ratio: Option<f64>,
}

/// What the load generator ran with.
#[derive(Clone, Debug, Default)]
pub struct GeneratorSetup {
    /// Name of the ring implementation and the features granted by the kernel.
    pub ring: String,
    /// Number of load threads: as configured, but at most one per connection.
    pub threads: u32,
    /// Local addresses of the connections; empty if the kernel chose.
    pub sources: Vec<IpAddr>,
    /// TLS parameters negotiated in the first handshake and how certificates were verified; `None`
    /// without TLS.
    pub tls: Option<String>,
    /// Name and version of the server, if a handshake has had them.
    pub server: Option<Implementation>,
}

/// Report of a load thread to the collector.
enum ThreadReport {
    /// Opening the connections is finished.
    Connected { open: u64, open_streams: u64, last_error: Option<String>, ring: String },
    /// Measurements of the next second.
    Period(Box<Period>),
    /// The thread could not start.
    Failed(io::Error),
}

/// Command of the collector to a load thread.
enum ThreadCommand {
    /// Starts the run at this time.
    Start(Instant),
    /// Returns an empty period for reuse.
    ReusePeriod(Box<Period>),
}

/// Executes a run with `threads` load threads, or one per connection if those are fewer, pinned to
/// `cores` round-robin if there are any. `watched` are the processes of the server; without it, the
/// programs that the run starts are observed. `on_second` is called after each second.
///
/// # Errors
///
/// Returns an error if no connection opens or a load thread fails. A run with failed requests is
/// not an error.
pub fn run(
    config: &RunConfig,
    threads: u32,
    cores: &[usize],
    watched: Option<&ProcessGroup>,
    on_second: impl FnMut(usize, &Second),
) -> Result<Measurements, RunError> {
    let clock = Clock::start();
    let files = raise_open_files_limit();
    let ThreadPlan { threads, rings, can_use_poll } =
        ThreadPlan::new(config.total_connections(), threads, files, || has_uring(clock))?;
    let mut config = config.clone();
    if threads as usize > core_count(cores) {
        // A spinning thread would keep another load thread from its core.
        config.limits.spin_before = Duration::ZERO;
    }
    let (report_tx, report_rx) = channel();
    let mut pool = ThreadPool { commands: Vec::new(), reports: report_rx, threads: Vec::new() };
    let group = config.endpoint.program().map(|_| Arc::new(ProcessGroup::default()));
    let (renewal, mut tokens) = sign_in(&config, threads)?;
    for number in 0..threads {
        let (command_tx, command_rx) = channel();
        pool.commands.push(command_tx);
        // Created before any thread is pinned, so that children may run on all cores.
        let processes = config.endpoint.program().cloned().zip(group.clone());
        let processes =
            processes.map(|(program, group)| ProcessPool::new(program, group)).transpose()?;
        let setup = ThreadSetup {
            config: config.clone(),
            share: Share { thread: number, threads },
            clock,
            open_files_max: files,
            rings,
            can_use_poll,
            core: cores.get(number as usize % cores.len().max(1)).copied(),
            reports: report_tx.clone(),
            commands: command_rx,
            processes,
            tokens: tokens.next(),
        };
        let thread = thread::Builder::new().name(format!("load-{number}"));
        pool.threads.push(thread.spawn(move || setup.run())?);
    }
    drop(report_tx);
    let sample_server = |samples_max| match (watched, &group) {
        (None, Some(group)) => Some(group.sample(samples_max)),
        (watched, _) => watched.map(|watched| watched.sample(samples_max)),
    };
    let found = pool.collect_measurements(&config, clock, sample_server, on_second);
    // Child processes exit before the result is returned.
    let is_well = (found.is_err() && group.is_none()) || pool.shut_down();
    match found {
        Ok(_) if !is_well => Err(RunError::ThreadFailed),
        Err(RunError::Unreachable(why)) if let Some(group) = &group => {
            let stderr = group.last_stderr().filter(|lines| !why.contains(lines.as_str()));
            let stderr =
                stderr.map_or_else(String::new, |lines| format!("; standard error: {lines}"));
            Err(RunError::ProgramFailed(why + &stderr))
        }
        found => {
            let mut found = found?;
            found.usage.server_accounting = watched.map(ProcessGroup::accounting);
            let sign_in_note = renewal.and_then(|renewal| renewal.note());
            let programs = group.map(|group| group.program_counts());
            Ok(Measurements { programs, sign_in_note, ..found })
        }
    }
}

/// Lets the users sign in, if they do. Returns what renews their tokens, and for each load thread
/// where these arrive.
fn sign_in(
    config: &RunConfig,
    threads: u32,
) -> Result<(Option<TokenRenewal>, IntoIter<Receiver<NewToken>>), RunError> {
    let none = (None, Vec::new().into_iter());
    let Some(users) = &config.users else { return Ok(none) };
    let Some(sign_in) = &users.sign_in else { return Ok(none) };
    let (senders, receivers): (_, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let renewal =
        TokenRenewal::start(sign_in, &users.used_credentials(), || config.stop.is_made(), senders);
    if config.stop.is_made() {
        return Err(RunError::Stopped);
    }
    let renewal = renewal.map_err(|error| RunError::SignIn(error.to_string()))?;
    Ok((Some(renewal), receivers.into_iter()))
}

/// Returns the window of a run that begins at `begin`.
fn cpu_window(config: &RunConfig, begin: Instant) -> CpuWindow {
    let has_schedule = !matches!(config.mode, LoadMode::Closed { requests: Some(_), .. });
    let end = has_schedule.then(|| begin.after(config.mode.span()));
    CpuWindow::new(begin.after(config.warm_up), end)
}

/// Returns the usage between two readings.
fn resource_usage(
    [begin, end]: [CpuReading; 2],
    server_resident_bytes_max: Option<u64>,
) -> ResourceUsage {
    let span = end.at.since(begin.at).max(Duration::from_millis(1));
    let cores = begin.cores.zip(end.cores);
    let spent = |before: Duration, after: Duration| after.saturating_sub(before);
    let throttled = begin.throttled.zip(end.throttled);
    ResourceUsage {
        span,
        cpu: spent(begin.generator, end.generator),
        server_cpu: begin.server.zip(end.server).map(|(before, after)| spent(before, after)),
        server_accounting: None,
        server_resident_bytes_max,
        machine: cores.map(|(before, after)| MachineUse::between(before, after)),
        throttled_ratio: throttled
            .map(|(before, after)| spent(before, after).div_duration_f64(span)),
    }
}

/// Returns the number of cores that the load threads run on.
fn core_count(cores: &[usize]) -> usize {
    match cores.iter().collect::<BTreeSet<_>>().len() {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        count => count,
    }
}

/// Everything a load thread is created from.
struct ThreadSetup {
    config: RunConfig,
    share: Share,
    clock: Clock,
    /// Limit of open files of the process.
    open_files_max: u32,
    /// Rings of this thread.
    rings: u32,
    /// Whether a poll ring, which needs a file per connection, is sufficient.
    can_use_poll: bool,
    core: Option<usize>,
    reports: Sender<(u32, ThreadReport)>,
    commands: Receiver<ThreadCommand>,
    processes: Option<ProcessPool>,
    /// Where the tokens of users that sign in arrive.
    tokens: Option<Receiver<NewToken>>,
}

impl ThreadSetup {
    fn run(self) {
        if let Some(core) = self.core {
            pin_to_core(core);
        }
        // The default timer slack of 50 µs would delay every wake-up.
        #[cfg(target_os = "linux")]
        rustix::thread::set_current_timer_slack(NonZero::new(1)).unwrap_or(());
        let (connections, threads) = (self.config.total_connections(), self.share.threads);
        let options = ring_options(connections, threads, self.rings, self.open_files_max);
        let options = if self.processes.is_some() {
            pipe_ring_options(&options, self.open_files_max)
        } else {
            options
        };
        #[cfg(target_os = "linux")]
        match (0..self.rings).map(|_| UringRing::new(&options, self.clock)).collect() {
            Ok(rings) => return self.run_with_rings(rings, &options),
            Err(error) if !self.can_use_poll => {
                return self.send_report(ThreadReport::Failed(error));
            }
            Err(_) => {}
        }
        match PollRing::new(&options, self.clock) {
            Ok(ring) => self.run_with_ring(ring),
            Err(error) => self.send_report(ThreadReport::Failed(error)),
        }
    }

    /// Runs the load thread with one or several rings.
    #[cfg(target_os = "linux")]
    fn run_with_rings(self, mut rings: Vec<UringRing>, options: &RingOptions) {
        if rings.len() > 1 {
            return match RingSet::new(rings, options) {
                Ok(rings) => self.run_with_ring(rings),
                Err(error) => self.send_report(ThreadReport::Failed(error)),
            };
        }
        if let Some(ring) = rings.pop() {
            self.run_with_ring(ring);
        }
    }

    fn run_with_ring<R: Ring>(mut self, ring: R) {
        let described = ring.describe();
        let waker = ring.waker();
        let processes = self.processes.take().map(|pool| Processes::new(pool, waker));
        let tokens = self.tokens.take();
        let mut thread = LoadThread::new(ring, self.config.clone(), self.share, processes, tokens);
        let (open, refused) = thread.connect();
        let listening = thread.open_streams();
        self.send_report(ThreadReport::Connected {
            open,
            open_streams: listening,
            last_error: refused,
            ring: described,
        });
        let Ok(ThreadCommand::Start(begin)) = self.commands.recv() else { return };
        thread.run(begin, |period| {
            self.send_report(ThreadReport::Period(period));
            match self.commands.try_recv() {
                Ok(ThreadCommand::ReusePeriod(period)) => period,
                _ => Box::default(),
            }
        });
        // The connections stay open until the collector has sampled the server a last time.
        drop(self.reports);
        while self.commands.recv().is_ok() {}
    }

    /// Sends a report; fails only if the collector is gone.
    fn send_report(&self, report: ThreadReport) {
        drop(self.reports.send((self.share.thread, report)));
    }
}

/// Returns whether this machine supports `io_uring`, which needs no file per connection.
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

/// Returns whether this machine supports io_uring, which needs no file per connection.
#[cfg(not(target_os = "linux"))]
const fn has_uring(_clock: Clock) -> bool {
    false
}

/// Returns ring options for two pipe ends per connection. A pipe has one read at a time, so the
/// buffers take as much as a pipe holds. There are fewer of them, to fit into the CPU caches.
fn pipe_ring_options(options: &RingOptions, files: u32) -> RingOptions {
    let sockets_max = options.sockets_max.saturating_mul(2).min(files);
    let receive_buffers = (options.sockets_max / 8).next_power_of_two().clamp(8, 256);
    RingOptions {
        sockets_max,
        receive_buffers: u16::try_from(receive_buffers).unwrap_or(u16::MAX),
        receive_buffer_bytes: 64 * 1_024,
        ..*options
    }
}

/// Pins the calling thread to a core; ignores errors.
fn pin_to_core(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).unwrap_or(());
}

/// The load threads, as seen by the collector.
struct ThreadPool {
    commands: Vec<Sender<ThreadCommand>>,
    reports: Receiver<(u32, ThreadReport)>,
    threads: Vec<JoinHandle<()>>,
}

/// Result of opening the connections.
struct ConnectSummary {
    opened: u64,
    open_streams: u64,
    ring: String,
    /// Error of a connection that did not open.
    last_error: Option<String>,
}

impl ThreadPool {
    fn collect_measurements(
        &mut self,
        config: &RunConfig,
        clock: Clock,
        sample_server: impl Fn(usize) -> Option<Sample>,
        mut on_second: impl FnMut(usize, &Second),
    ) -> Result<Measurements, RunError> {
        let started = clock.now();
        let connected = self.wait_until_connected(config)?;
        let now = clock.now();
        let (opening, begin) = (now.since(started), now.after(START_DELAY));
        self.commands.iter().for_each(|it| drop(it.send(ThreadCommand::Start(begin))));
        let read_cpu = || CpuReading {
            at: clock.now(),
            generator: Process::current_cpu(),
            server: sample_server(usize::MAX).map(|sample| sample.cpu),
            cores: CoreTime::read_current(),
            throttled: throttled_time(),
        };
        let sample = || ProcessSamples {
            at: clock.now(),
            server: sample_server(SAMPLES_MAX),
            generator: Process::current().sample(),
        };
        let mut window = cpu_window(config, begin);
        let mut seconds =
            SecondCollector::new(self.commands.len(), config.warm_up, config.slow_reading_start());
        let mut deliveries = DeliveryCollector::default();
        loop {
            let report = self.receive(window.next_border(), clock);
            if config.stop.is_made() {
                window.end_at(clock.now());
            }
            window.pass(clock.now(), read_cpu);
            let (number, report) = match report {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let ThreadReport::Period(mut period) = report else { continue };
            deliveries.add(&mut period.fanout.deliveries, self.commands.len());
            seconds.add(number as usize, &period, sample, &mut on_second);
            period.clear();
            if let Some(commands) = self.commands.get(number as usize) {
                drop(commands.send(ThreadCommand::ReusePeriod(period)));
            }
        }
        // Before the connections close: closing is not part of the load.
        let readings = window.finish(read_cpu);
        seconds.finish(&mut on_second);
        // A later error is more specific.
        if let (None, Some(error)) = (seconds.total.errors.last(), connected.last_error) {
            seconds.total.errors.set_last(error);
        }
        Ok(Measurements {
            is_stopped: config.stop.is_made(),
            total: seconds.total,
            window: seconds.window,
            before_slow_readers: seconds.before_slow_readers,
            seconds: seconds.seconds,
            usage: resource_usage(readings, seconds.resident_bytes_max),
            programs: None,
            sign_in_note: None,
            opened: connected.opened,
            connect_time: opening,
            open_streams: connected.open_streams,
            publications: deliveries.finish(),
            setup: self.setup(config, connected.ring),
        })
    }

    fn setup(&self, config: &RunConfig, ring: String) -> GeneratorSetup {
        GeneratorSetup {
            ring,
            threads: u32::try_from(self.commands.len()).unwrap_or(u32::MAX),
            sources: config.connect.sources.clone(),
            tls: config.tls.as_ref().map(RunTls::describe),
            server: config.request_settings.server().cloned(),
        }
    }

    /// Waits for a report, at most until a time.
    fn receive(
        &self,
        until: Option<Instant>,
        clock: Clock,
    ) -> Result<(u32, ThreadReport), RecvTimeoutError> {
        match until {
            Some(until) => self.reports.recv_timeout(until.since(clock.now())),
            None => self.reports.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Ends all load threads and joins them; returns whether none panicked.
    fn shut_down(&mut self) -> bool {
        self.commands.clear();
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        joined.iter().all(Result::is_ok)
    }

    /// Waits until every load thread has opened its connections.
    fn wait_until_connected(&self, config: &RunConfig) -> Result<ConnectSummary, RunError> {
        let (mut opened, mut streams, mut ring, mut why) = (0, 0, String::new(), None);
        for _ in &self.commands {
            match self.reports.recv() {
                Ok((
                    _,
                    ThreadReport::Connected {
                        open,
                        open_streams: listening,
                        last_error: refused,
                        ring: described,
                    },
                )) => {
                    opened += open;
                    streams += listening;
                    ring = described;
                    why = refused.or(why);
                }
                Ok((_, ThreadReport::Failed(error))) => return Err(error.into()),
                _ => return Err(RunError::ThreadFailed),
            }
        }
        let refused = why.clone();
        let advice = if config.endpoint.program().is_some() {
            String::new()
        } else {
            format!(": {CONNECT_HINT}")
        };
        let why = || why.unwrap_or_else(|| format!("no response in time{advice}"));
        if config.stop.is_made() {
            return Err(RunError::Stopped);
        }
        if opened == 0 {
            return Err(RunError::Unreachable(why()));
        }
        if config.roles.subscribers.is_some() && streams == 0 {
            return Err(RunError::NoSubscription(why()));
        }
        Ok(ConnectSummary { opened, open_streams: streams, ring, last_error: refused })
    }
}
