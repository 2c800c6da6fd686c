//! Many connections: where they come from, how fast they open, who holds them.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use corelane_load::dialogue::{Call, Speech};
use corelane_load::generator::{self, Connecting, Drive, Finding, Fruitless, Job, Limits};
use corelane_load::result::RunResult;
use corelane_load::schedule::{Pace, Profile};
use corelane_load::target::{Era, Transport};

use self::stage::Stage;

#[path = "support/stage.rs"]
mod stage;

const SOURCES: [IpAddr; 2] = [loopback(2), loopback(3)];

const fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, last))
}

/// A server that lets so many connections in, holds them until their clients end them, and then
/// tells from where they came, in the order in which they did.
struct Host {
    address: SocketAddr,
    seen: JoinHandle<Vec<IpAddr>>,
}

impl Host {
    fn new(connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = std::thread::spawn(move || {
            let accepted = (0..connections).map(|_| listener.accept().unwrap());
            let accepted: Vec<(TcpStream, SocketAddr)> = accepted.collect();
            let ended = accepted.into_iter().map(|(mut stream, peer)| {
                // However it ends.
                stream.read_to_end(&mut Vec::new()).unwrap_or_default();
                peer.ip()
            });
            ended.collect()
        });
        Self { address, seen }
    }

    fn seen(self) -> Vec<IpAddr> {
        self.seen.join().unwrap()
    }
}

fn job(address: SocketAddr, connections: usize, connect: Connecting) -> Job {
    let speech = Speech {
        transport: Transport::Tcp,
        era: Era::Modern,
        authority: address.to_string(),
        path: "/".into(),
        fields: Vec::new(),
    };
    Job {
        calls: vec![(Call::echo(&speech, 32), 1)],
        speech,
        tls: None,
        addresses: vec![address],
        connect,
        program: None,
        connections,
        depth: 1,
        drive: Drive::Hold { span: Duration::from_millis(50) },
        warm_up: Duration::ZERO,
        seed: 1,
        listen: None,
        limits: Limits::default(),
        churn: None,
        readers: None,
    }
}

fn hold(job: &Job, workers: u32) -> Finding {
    generator::run(job, (workers, &[]), None, |_, _| {}).unwrap()
}

#[test]
fn connections_come_from_the_named_addresses_in_turn() {
    for workers in [1, 2, 3] {
        let host = Host::new(64);
        let connect = Connecting { sources: SOURCES.to_vec(), rate: None };
        let finding = hold(&job(host.address, 64, connect), workers);
        assert_eq!((finding.opened, finding.workers), (64, workers));
        assert_eq!(finding.sources, SOURCES);
        let seen = host.seen();
        for source in SOURCES {
            let count = seen.iter().filter(|seen| **seen == source).count();
            assert_eq!(count, 32, "{source} with {workers} workers");
        }
    }
}

#[test]
fn a_connect_rate_opens_every_connection_in_turn() {
    let host = Host::new(20);
    let connect = Connecting { sources: SOURCES.to_vec(), rate: Some(1_000.0) };
    let mut job = job(host.address, 20, connect);
    // One at a time, so that the server sees them in the order in which they were begun.
    job.limits.connecting_max = 1;
    assert_eq!(hold(&job, 1).opened, 20);
    let turns: Vec<IpAddr> = SOURCES.into_iter().cycle().take(20).collect();
    assert_eq!(host.seen(), turns);
}

#[test]
fn requests_are_answered_over_connections_from_several_addresses() {
    let stage = Stage::new();
    for (transport, path) in [(Transport::Http, "/mcp"), (Transport::WebSocket, "/mcp/ws")] {
        let connect = Connecting { sources: SOURCES.to_vec(), rate: None };
        let mut job = job(stage.http, 64, connect);
        (job.speech.transport, job.speech.path) = (transport, path.into());
        job.speech.era = Era::Legacy;
        job.calls = vec![(Call::echo(&job.speech, 32), 1)];
        let profile = Profile::constant(1_000.0, Duration::from_millis(200));
        job.drive = Drive::Open { profile, pace: Pace::Constant };
        let total = hold(&job, 2).total;
        let counts = (total.outcomes.answered, total.outcomes.failures(), total.open, total.lost);
        assert_eq!(counts, (200, 0, 64, 0), "{transport:?} {:?}", total.outcomes);
    }
}

#[test]
fn an_address_of_another_machine_is_told_with_the_reason() {
    // It is heard of by nobody.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = Connecting { sources: vec![[192, 0, 2, 1].into()], rate: None };
    let mut job = job(listener.local_addr().unwrap(), 4, connect);
    job.limits.connect_max = Duration::from_millis(100);
    let error = generator::run(&job, (1, &[]), None, |_, _| {}).unwrap_err();
    let Fruitless::Unreachable(why) = error else { panic!("{error}") };
    assert!(why.contains("assign requested address"), "{why}");
}

/// Runs the program where it may have so many files open; its status, and what it printed.
fn run_within(files: u32, target: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let script = format!("ulimit -n {files} && exec \"$0\" run \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_corelane-load"), target])
        .args(["--rate=0", "--warm-up=0s", "--span=100ms"])
        .args(flags)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_worker_has_as_many_rings_as_its_connections_take() {
    let stage = Stage::new();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("workers.json");
    let flags = ["--quiet", "--connections=200", "--source=127.0.0.2-127.0.0.3", "--json"];
    let flags: Vec<&str> = flags.into_iter().chain(path.to_str()).collect();
    let (status, out, said) = run_within(120, &format!("tcp://{}", stage.tcp), &flags);
    if status == Some(2) {
        // Without io_uring each connection takes a file.
        assert!(said.contains("200 connections") && said.contains("ulimit -n"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        return;
    }
    assert_eq!((status, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("opened   200 connections in "), "{out}");
    let result: RunResult = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((result.totals.opened, result.manifest.workers), (200, 1));
    assert!(result.manifest.ring.ends_with(", 4 rings a worker"), "{}", result.manifest.ring);
    assert_eq!(result.manifest.sources, ["127.0.0.2-127.0.0.3"]);
}

#[test]
fn what_cannot_be_opened_is_told_in_a_line_before_the_run() {
    let wrong = |flags: &[&str]| {
        let (status, out, said) = run_within(100, "tcp://127.0.0.1:1", flags);
        assert_eq!((status, out.as_str(), said.lines().count()), (Some(2), "", 1), "{said}");
        said
    };
    assert!(wrong(&["--source=192.0.2.1"]).contains("addresses of this machine"));
    assert!(wrong(&["--source=127.0.0.2,nowhere"]).contains("'nowhere' is no address"));
    assert!(wrong(&["--source=::1"]).contains("an IPv4 address"));
    assert!(wrong(&["--connect-rate=0"]).contains("above 0"));
    assert!(wrong(&["--connect-rate=1", "--connections=100"]).contains("take 100 s"));
    let crowded = wrong(&["--source=127.0.0.2", "--connections=70000"]);
    assert!(crowded.contains("--source") && crowded.contains("70000"), "{crowded}");
}
