//! Tests of many connections: source addresses, connect rate, load threads.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use corelane_load::generator::{
    self, ConnectConfig, ConnectionRoles, Endpoint, LoadMode, Measurements, RunConfig, RunError,
    RunLimits, StopRequest,
};
use corelane_load::mcp::{RequestSettings, RequestTemplate};
use corelane_load::result::RunResult;
use corelane_load::schedule::{ArrivalPattern, RateProfile};
use corelane_load::target::{Era, Transport};
use corelane_test_support::TestServer;

use crate::{LOAD, file_path};

const SOURCES: [IpAddr; 2] = [loopback(2), loopback(3)];

const fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, last))
}

/// A server that accepts a number of connections, keeps them until the clients close them, and then
/// returns their source addresses in order.
struct SourceRecorder {
    address: SocketAddr,
    sources: JoinHandle<Vec<IpAddr>>,
}

impl SourceRecorder {
    fn new(connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sources = std::thread::spawn(move || {
            let accepted = (0..connections).map(|_| listener.accept().unwrap());
            let accepted: Vec<(TcpStream, SocketAddr)> = accepted.collect();
            let ended = accepted.into_iter().map(|(mut stream, peer)| {
                // Errors end the connection, too.
                stream.read_to_end(&mut Vec::new()).unwrap_or_default();
                peer.ip()
            });
            ended.collect()
        });
        Self { address, sources }
    }

    fn sources(self) -> Vec<IpAddr> {
        self.sources.join().unwrap()
    }
}

fn job(address: SocketAddr, connections: usize, connect: ConnectConfig) -> RunConfig {
    let (authority, path) = (&*address.to_string(), "/");
    let settings =
        RequestSettings::new(Transport::Tcp, Era::Modern, authority, path, Vec::new()).unwrap();
    RunConfig {
        calls: vec![(RequestTemplate::echo(&settings, 32), 1)],
        request_settings: settings,
        tls: None,
        endpoint: Endpoint::Addresses(vec![address]),
        connect,
        connections,
        users: None,
        depth: 1,
        mode: LoadMode::Hold { span: Duration::from_millis(50) },
        warm_up: Duration::ZERO,
        seed: 1,
        limits: RunLimits::default(),
        roles: ConnectionRoles::default(),
        stop: StopRequest::default(),
    }
}

fn hold(job: &RunConfig, workers: u32) -> Measurements {
    generator::run(job, workers, &[], None, |_, _| {}).unwrap()
}

#[test]
fn connections_use_source_addresses_in_turn() {
    for workers in [1, 2, 3] {
        let host = SourceRecorder::new(64);
        let connect = ConnectConfig { sources: SOURCES.to_vec(), rate: None };
        let finding = hold(&job(host.address, 64, connect), workers);
        assert_eq!((finding.opened, finding.setup.threads), (64, workers));
        assert_eq!(finding.setup.sources, SOURCES);
        let seen = host.sources();
        for source in SOURCES {
            let count = seen.iter().filter(|seen| **seen == source).count();
            assert_eq!(count, 32, "{source} with {workers} threads");
        }
    }
}

#[test]
fn connect_rate_opens_all_connections_in_order() {
    let host = SourceRecorder::new(20);
    let connect = ConnectConfig { sources: SOURCES.to_vec(), rate: Some(1_000.0) };
    let mut job = job(host.address, 20, connect);
    // One at a time, so that the server sees them in order.
    job.limits.connecting_max = 1;
    assert_eq!(hold(&job, 1).opened, 20);
    let turns: Vec<IpAddr> = SOURCES.into_iter().cycle().take(20).collect();
    assert_eq!(host.sources(), turns);
}

#[test]
fn requests_succeed_from_several_source_addresses() {
    let test_server = TestServer::for_load();
    for (transport, path) in [(Transport::Http, "/mcp"), (Transport::WebSocket, "/mcp/ws")] {
        let connect = ConnectConfig { sources: SOURCES.to_vec(), rate: None };
        let mut job = job(test_server.http(), 64, connect);
        job.request_settings =
            RequestSettings::new(transport, Era::Legacy, "127.0.0.1", path, Vec::new()).unwrap();
        job.calls = vec![(RequestTemplate::echo(&job.request_settings, 32), 1)];
        let profile = RateProfile::constant(1_000.0, Duration::from_millis(200));
        job.mode = LoadMode::Open { profile, pattern: ArrivalPattern::Constant };
        let total = hold(&job, 2).total;
        let counts =
            (total.outcomes.answered, total.outcomes.failures(), total.open, total.connects.lost);
        assert_eq!(counts, (200, 0, 64, 0), "{transport:?} {:?}", total.outcomes);
    }
}

#[test]
fn foreign_source_address_error_names_reason() {
    // The listener is never reached.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = ConnectConfig { sources: vec![[192, 0, 2, 1].into()], rate: None };
    let mut job = job(listener.local_addr().unwrap(), 4, connect);
    job.limits.connect_timeout = Duration::from_millis(100);
    let error = generator::run(&job, 1, &[], None, |_, _| {}).unwrap_err();
    let RunError::Unreachable(why) = error else { panic!("{error}") };
    assert!(why.contains("assign requested address"), "{why}");
}

/// Runs the program with a limit of open files, and returns its exit status and output.
fn run_within(files: u32, target: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let script = format!("ulimit -n {files} && exec \"$0\" run \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, LOAD, target])
        .args(["--rate=0", "--warm-up=0s", "--duration=100ms"])
        .args(flags)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn load_thread_adds_rings_for_its_connections() {
    let test_server = TestServer::for_load();
    let path = file_path("threads.json");
    let flags = ["--quiet", "--connections=200", "--source=127.0.0.2-127.0.0.3", "--json"];
    let flags: Vec<&str> = flags.into_iter().chain(path.to_str()).collect();
    let (status, out, stderr) = run_within(120, &format!("tcp://{}", test_server.tcp()), &flags);
    if status == Some(2) {
        // Without io_uring each connection takes a file.
        assert!(stderr.contains("200 connections") && stderr.contains("ulimit -n"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        return;
    }
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("opened   200 connections in "), "{out}");
    let result: RunResult = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((result.totals.opened, result.manifest.threads), (200, 1));
    assert!(result.manifest.ring.ends_with(", 4 rings per thread"), "{}", result.manifest.ring);
    assert_eq!(result.manifest.sources, ["127.0.0.2-127.0.0.3"]);
}

#[test]
fn invalid_sources_are_rejected_before_the_run() {
    let wrong = |flags: &[&str]| {
        let (status, out, stderr) = run_within(100, "tcp://127.0.0.1:1", flags);
        assert_eq!((status, out.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
        stderr
    };
    assert!(wrong(&["--source=192.0.2.1"]).contains("address of this machine"));
    assert!(wrong(&["--source=127.0.0.2,nowhere"]).contains("'nowhere' is not an IP address"));
    assert!(wrong(&["--source=::1"]).contains("an IPv4 address"));
    assert!(wrong(&["--connect-rate=0"]).contains("above 0"));
    assert!(wrong(&["--connect-rate=1", "--connections=100"]).contains("take 100 s"));
    let crowded = wrong(&["--source=127.0.0.2", "--connections=70000"]);
    assert!(crowded.contains("--source") && crowded.contains("70000"), "{crowded}");
}
