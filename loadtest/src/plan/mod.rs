//! What a run is to do, as a person writes it: in a file, or by flags.
//!
//! ```toml
//! target = "http://127.0.0.1:8080"
//! era = "modern"
//! connections = 1000
//! warm_up = "2s"
//!
//! [[phase]]
//! rate = 10000
//! span = "10s"
//!
//! [[call]]
//! tool = "echo"
//! bytes = 200
//! weight = 9
//!
//! [[call]]
//! method = "tools/list"
//!
//! [thresholds]
//! p99 = "1ms"
//! errors = 0.001
//! ```
//!
//! What it keeps true: a plan that has a [`Job`] makes sense; one that does not says in one line
//! what is wrong and what to write instead.

pub mod call;
pub mod churn;
pub mod listen;
pub mod phase;
pub mod readers;
pub mod sources;
pub mod span;
pub mod stdio;
pub mod sweep;
pub mod thresholds;
pub mod tls;

pub mod connect;

mod credentials;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::call::CallPlan;
pub use self::churn::{ChurnPlan, Sessions, StormPlan};
pub use self::connect::ConnectPlan;
pub use self::listen::ListenPlan;
pub use self::phase::PhasePlan;
pub use self::readers::ReadersPlan;
pub use self::sources::Sources;
pub use self::span::Span;
pub use self::stdio::StdioPlan;
pub use self::sweep::SweepPlan;
pub use self::thresholds::Thresholds;
pub use self::tls::TlsPlan;
use crate::dialogue::{Call, Field, Secret, Speech};
use crate::generator::{Drive, Job, Limits};
use crate::schedule::{Pace, Profile, Segment};
use crate::target::{Era, Target};

/// Requests a second behind which the sends of one machine are not worth planning.
pub const RATE_MAX: f64 = 1e8;

/// What is wrong with a plan.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

impl Wrong {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Which server: `tcp://HOST:PORT`, `http://HOST[:PORT]/PATH`, `ws://HOST[:PORT]/PATH`, the
    /// same with TLS as `tls://`, `https://` and `wss://`, or `stdio:COMMAND`.
    pub target: String,
    /// How requests say which protocol they speak. Default modern.
    #[serde(default)]
    pub era: Era,
    /// Connections; over stdio each of them is a process of its own. Default 64, and 1 over stdio.
    #[serde(default = "connections")]
    pub connections: usize,
    /// Requests in flight on each connection. Default 1.
    #[serde(default = "one")]
    pub depth: usize,
    /// What of the beginning is not measured. Default 2 s.
    #[serde(default = "warm_up")]
    pub warm_up: Span,
    /// Requests leave when the one before is answered, not when they are due. Rates mean nothing
    /// then. Default no.
    #[serde(default)]
    pub closed: bool,
    /// Requests are spread as those of many users who know nothing of each other. Default no.
    #[serde(default)]
    pub poisson: bool,
    /// Decides where chance does. Default 1.
    #[serde(default = "seed")]
    pub seed: u64,
    /// How long opening all connections may take. Default 30 s.
    #[serde(default = "connect_max")]
    pub connect_max: Span,
    /// How long an answer may take. Default 10 s.
    #[serde(default = "answer_max")]
    pub answer_max: Span,
    /// The last stretch before a request is due, which a worker spends awake so as not to be late;
    /// zero where its cores are needed by others. Default 100 µs.
    #[serde(default = "spin_max")]
    pub spin_max: Span,
    /// How late the generator may be with one request in a hundred for the run to count. Default
    /// 1 ms.
    #[serde(default = "lag_max")]
    pub lag_max: Span,
    /// How long what is still open is waited for after the last request was due; what is open then
    /// has timed out. Default as long as an answer may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_max: Option<Span>,
    /// Further fields of HTTP, each a name and a value. Default none. Those whose names tell of a
    /// secret are written without their values.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// A file that holds the bearer token of every request. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_file: Option<PathBuf>,
    /// The bearer token itself, which stands in no file: it goes before that of `bearer_file`.
    #[serde(skip)]
    pub bearer: Option<Secret>,
    /// How an encrypted server is trusted. Default: as this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPlan>,
    /// The rates, one after the other; the warm-up comes before them, at the first rate.
    #[serde(default, rename = "phase")]
    pub phases: Vec<PhasePlan>,
    /// The kinds of requests. Default: the tool `echo` with 32 bytes.
    #[serde(default, rename = "call")]
    pub calls: Vec<CallPlan>,
    /// Connections that come and go. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnPlan>,
    /// Connections that read slowly. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<ReadersPlan>,
    /// Streams that listen, and what they are told of. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenPlan>,
    /// What has to hold for the run to pass.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// How connections are opened. Default: as fast as the server accepts, 128 at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<ConnectPlan>,
    /// How programs are started, for a target that names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdio: Option<StdioPlan>,
    /// What `corelane-load sweep` does with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlan>,
}

const fn connections() -> usize {
    64
}

/// Connections where nothing is said of them: a program serves one client, an address many.
fn usual_connections(target: &str) -> usize {
    if matches!(target.parse(), Ok(Target::Command(_))) { one() } else { connections() }
}

const fn one() -> usize {
    1
}

const fn warm_up() -> Span {
    Span::seconds(2)
}

const fn seed() -> u64 {
    1
}

const fn connect_max() -> Span {
    Span::seconds(30)
}

const fn answer_max() -> Span {
    Span::seconds(10)
}

fn lag_max() -> Span {
    Duration::from_millis(1).into()
}

fn spin_max() -> Span {
    Limits::default().spin_max.into()
}

impl Plan {
    /// A plan of nothing but its server: everything else is as it is by default, and there is no
    /// phase yet.
    pub fn new(target: impl Into<String>) -> Self {
        let target = target.into();
        Self {
            connections: usual_connections(&target),
            target,
            era: Era::default(),
            depth: one(),
            warm_up: warm_up(),
            closed: false,
            poisson: false,
            seed: seed(),
            connect_max: connect_max(),
            answer_max: answer_max(),
            spin_max: spin_max(),
            lag_max: lag_max(),
            drain_max: None,
            fields: Vec::new(),
            bearer_file: None,
            bearer: None,
            tls: None,
            phases: Vec::new(),
            calls: Vec::new(),
            churn: None,
            readers: None,
            listen: None,
            thresholds: Thresholds::default(),
            connect: None,
            stdio: None,
            sweep: None,
        }
    }

    /// The plan that a file holds.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is no plan: with the line.
    pub fn read(path: &Path) -> Result<Self, Wrong> {
        let shown = path.display();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| {
            Wrong(format!("{shown} cannot be read: {error}; name a TOML file that is there"))
        })?;
        let mut plan = toml::from_str::<Self>(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            Wrong(format!("{shown} is no plan, line {line}: {why}"))
        })?;
        // What the default is depends on the target, which no default of a member can see.
        let table = toml::from_str::<toml::Table>(&text).unwrap_or_default();
        if !table.contains_key("connections") {
            plan.connections = usual_connections(&plan.target);
        }
        Ok(plan)
    }

    /// All connections: those for requests, those that listen, and the one that publishes.
    pub fn connections_all(&self) -> usize {
        self.connections + self.listen.as_ref().map_or(0, ListenPlan::connections)
    }

    /// The rates of the whole run, warm-up included.
    pub fn profile(&self) -> Profile {
        let phases = self.phases.iter().flat_map(PhasePlan::segments);
        let first = self.phases.first().map_or(0.0, |phase| phase.rate);
        let warm_up = Segment::constant(first, self.warm_up.duration());
        Profile::new([warm_up].into_iter().chain(phases))
    }

    fn speech(&self, target: &Target, fields: Vec<Field>) -> Speech {
        let (authority, path) = match target {
            Target::Address { authority, path, .. } => (authority.clone(), path.clone()),
            Target::Command(_) => (String::new(), String::new()),
        };
        Speech { transport: target.transport(), era: self.era, authority, path, fields }
    }

    /// What the workers are to do.
    ///
    /// # Errors
    ///
    /// Where the plan makes no sense, or names no server.
    pub fn job(&self) -> Result<Job, Wrong> {
        let target: Target = self.target.parse().map_err(|error| Wrong(format!("{error}")))?;
        self.check()?;
        let program = StdioPlan::program(self, &target)?;
        let fields = self.speech_fields(&target)?;
        let tls = tls::client(self.tls.as_ref(), &target)?;
        let addresses = target.resolve().map_err(|error| Wrong(format!("{error}")))?;
        let opening = self.connect.clone().unwrap_or_default();
        let connect =
            opening.connecting(self.connections_all(), &addresses, self.connect_max.duration())?;
        let speech = self.speech(&target, fields);
        let mut calls = Vec::new();
        for call in &self.calls {
            calls.push((call.call(&speech)?, call.weight));
        }
        if calls.is_empty() {
            calls.push((Call::echo(&speech, call::BYTES), 1));
        }
        let profile = self.profile();
        let warm_up = self.warm_up.duration();
        let times = (warm_up, profile.span().saturating_sub(warm_up));
        let churn = self.churn.map(|churn| churn.churn(self.connections, times)).transpose()?;
        let readers = self.readers.map(|plan| plan.readers(self.connections, &speech, times));
        let readers = readers.transpose()?.map(|(mut readers, call)| {
            if let Some(call) = call {
                readers.call = u16::try_from(calls.len()).ok();
                calls.push((call, 0));
            }
            readers
        });
        let spans = (warm_up, profile.span());
        let listen =
            self.listen.as_ref().map(|listen| listen.listen(&speech, spans)).transpose()?;
        Ok(Job {
            speech,
            tls,
            addresses,
            connect,
            program,
            calls,
            connections: self.connections,
            depth: self.depth,
            drive: self.drive(profile),
            warm_up,
            seed: self.seed,
            listen,
            limits: Limits {
                connect_max: self.connect_max.duration(),
                connecting_max: opening.at_once,
                answer_max: self.answer_max.duration(),
                spin_max: self.spin_max.duration(),
                drain_max: self.drain_max.map(Span::duration),
                ..Limits::default()
            },
            churn,
            readers,
        })
    }

    /// When requests leave.
    fn drive(&self, profile: Profile) -> Drive {
        match (self.closed, profile.rate_max() > 0.0) {
            (true, _) => Drive::Closed { span: profile.span() },
            (false, true) => {
                let pace = if self.poisson { Pace::Poisson } else { Pace::Constant };
                Drive::Open { profile, pace }
            }
            (false, false) => Drive::Hold { span: profile.span() },
        }
    }

    fn check(&self) -> Result<(), Wrong> {
        let is_rate = |rate: f64| rate.is_finite() && (0.0..=RATE_MAX).contains(&rate);
        if self.connections == 0 {
            return Err(Wrong::new(
                "connections = 0: nothing could be sent; at least one is needed",
            ));
        }
        if self.depth == 0 {
            return Err(Wrong::new("depth = 0: no request could be in flight; write 1 or more"));
        }
        if self.phases.is_empty() {
            return Err(Wrong::new("there is no phase: say how long, and at which rate"));
        }
        for phase in &self.phases {
            if !is_rate(phase.rate) || !is_rate(phase.to_rate.unwrap_or(phase.rate)) {
                let rate = phase.rate;
                return Err(Wrong(format!(
                    "rate = {rate}: a rate is from 0 to {RATE_MAX} a second"
                )));
            }
            if phase.span.duration().is_zero() {
                return Err(Wrong::new("a phase without time: write span = \"10s\""));
            }
        }
        if !self.calls.is_empty() && self.calls.iter().all(|call| call.weight == 0) {
            return Err(Wrong::new("every call has weight 0: nothing would be sent"));
        }
        if let Some(errors) = self.thresholds.errors
            && !(0.0..=1.0).contains(&errors)
        {
            return Err(Wrong(format!(
                "errors = {errors}: a part of all requests is from 0 to 1, such as 0.001"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::Errors;

    fn plan(text: &str) -> Result<Plan, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    const BRIEF: &str = "target = \"tcp://127.0.0.1:1\"\n[[phase]]\nrate = 10\nspan = \"1s\"\n";

    #[test]
    fn a_brief_plan_has_the_defaults() {
        let plan = plan(BRIEF).unwrap();
        assert_eq!((plan.connections, plan.depth, plan.era), (64, 1, Era::Modern));
        let job = plan.job().unwrap();
        assert_eq!(job.calls.len(), 1);
        // Two seconds of warm-up and one that counts.
        let Drive::Open { profile, pace } = job.drive else { panic!("{:?}", job.drive) };
        assert!((profile.requests() - 30.0).abs() < 1e-9);
        assert_eq!(pace, Pace::Constant);
    }

    #[test]
    fn a_program_is_started_once_where_nothing_else_is_said() {
        assert_eq!(Plan::new("stdio:corelane stdio").connections, 1);
        assert_eq!(Plan::new("tcp://127.0.0.1:1").connections, 64);
        let text = BRIEF.replace("tcp://127.0.0.1:1", "stdio:corelane 'a b'");
        let job = plan(&text).unwrap().job().unwrap();
        assert!(job.addresses.is_empty());
        assert_eq!(job.program.unwrap().words, ["corelane", "a b"]);
        let inherit =
            plan(&format!("{text}[stdio]\nstderr = \"inherit\"\n")).unwrap().job().unwrap();
        assert_eq!(inherit.program.unwrap().errors, Errors::Inherit);
    }

    #[test]
    fn a_plan_survives_being_written_and_read() {
        let mut whole = plan(BRIEF).unwrap();
        whole.calls.push(CallPlan::tool("echo"));
        whole
            .phases
            .push(PhasePlan { to_rate: Some(5.0), ..PhasePlan::constant(1.0, Span::seconds(3)) });
        whole.thresholds.p99 = Some(Span::seconds(1));
        let sources = vec!["127.0.0.2-127.0.0.5".parse().unwrap(), "::1".parse().unwrap()];
        whole.connect = Some(ConnectPlan { sources, rate: Some(5.0), at_once: 9 });
        whole.drain_max = Some(Span::seconds(1));
        whole.sweep = Some(SweepPlan { rounds: 5, ..SweepPlan::default() });
        let written = toml::to_string(&whole).unwrap();
        assert_eq!(plan(&written).unwrap(), whole);
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_line() {
        let wrong = |text: &str| plan(text).unwrap().job().unwrap_err().to_string();
        assert!(wrong(&format!("connections = 0\n{BRIEF}")).contains("at least one"));
        assert!(wrong(&format!("depth = 0\n{BRIEF}")).contains("depth"));
        assert!(wrong("target = \"tcp://127.0.0.1:1\"").contains("no phase"));
        assert!(wrong(&BRIEF.replace("10", "-1")).contains("rate = -1"));
        assert!(wrong(&BRIEF.replace("\"1s", "\"0s")).contains("without time"));
        assert!(wrong(&BRIEF.replace("tcp:", "tpc:")).contains("names no transport"));
        assert!(
            wrong(&format!("{BRIEF}[[call]]\nmethod = \"ping\"\nweight = 0\n")).contains("weight")
        );
        assert!(wrong(&format!("{BRIEF}[thresholds]\nerrors = nan\n")).contains("from 0 to 1"));
        assert!(wrong(&format!("{BRIEF}[stdio]\n")).contains("stdio:COMMAND"));
    }

    #[test]
    fn a_key_that_is_none_is_told_with_its_line() {
        let error = plan(&format!("conections = 3\n{BRIEF}")).unwrap_err();
        assert!(error.contains("conections") && error.contains("connections"), "{error}");
    }

    #[test]
    fn a_plan_without_a_rate_holds_its_connections() {
        let job = plan(&BRIEF.replace("10", "0")).unwrap().job().unwrap();
        assert!(matches!(job.drive, Drive::Hold { .. }));
    }
}
