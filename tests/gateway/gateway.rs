//! A gateway in front of the fixture, and the processes of the fixture.

use corelane_engine::clock::Clock;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use corelane_test_support::process::Signal;
use corelane_test_support::{Process, SMALL_RINGS, TIMEOUT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tempfile::TempDir;

use crate::CORELANE;
use crate::client::{Client, text_of};

/// The value of `Authorization` of operators.
pub(crate) const TOKEN_FIELD: &str = "Bearer token-of-operators";

/// What stands for the folder of the gateway in declarations.
const FOLDER: &str = "FOLDER";

/// The path of the fixture.
pub(crate) fn fixture() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let target = test.ancestors().nth(2).expect("the test is in target/debug/deps");
    let path = target.join("examples/upstream_fixture");
    assert!(path.exists(), "cargo build --example upstream_fixture makes {}", path.display());
    path
}

/// The declaration of an upstream that runs the fixture with `arguments`.
pub(crate) fn upstream(name: &str, keys: &str, arguments: &[&str]) -> String {
    let program = fixture().to_str().expect("path is UTF-8").to_owned();
    let command: Vec<String> =
        std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect();
    format!("[[upstream]]\nname = \"{name}\"\ncommand = {command:?}\n{keys}\n")
}

/// A folder of a gateway, in which its upstreams run.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text_path(&self, name: &str) -> String {
        self.path(name).to_str().expect("path is UTF-8").to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("file is written");
    }

    /// The processes that run in the folder: the fixtures, and what they have started.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let folder = self.0.path().canonicalize().expect("the folder exists");
        let processes = fs::read_dir("/proc").expect("/proc is read").filter_map(Result::ok);
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &u32| works_in(*id, &folder)).collect()
    }

    /// Waits until no process runs in the folder.
    pub(crate) fn wait_for_no_process(&self) {
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            processes.into_iter().for_each(wait_for_exit);
        }
    }

    /// Number of processes of the fixture that have been started with `--record FOLDER/record`.
    pub(crate) fn starts(&self) -> usize {
        let text = fs::read(self.path("record")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.starts_with("started ")).count()
    }

    /// Number of recorded messages with `text`.
    pub(crate) fn recorded(&self, text: &str) -> usize {
        let record = fs::read(self.path("record")).unwrap_or_default();
        String::from_utf8_lossy(&record).lines().filter(|line| line.contains(text)).count()
    }
}

fn works_in(process: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|directory| directory == folder)
}

/// Waits until a process has ended.
pub(crate) fn wait_for_exit(process: u32) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
    // Without such a process it has ended.
    let Ok(descriptor) = pidfd_open(id, PidfdFlags::empty()) else { return };
    let timeout = Timespec::try_from(TIMEOUT).expect("a timeout");
    let events = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout));
    assert_eq!(events.expect("a process is waited for"), 1, "process {process} lives");
}

/// Waits until `is_so`.
pub(crate) fn eventually(text: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::start();
    let until = clock.now().after(TIMEOUT);
    while !is_so() {
        assert!(clock.now() < until, "{text}");
        std::thread::yield_now();
    }
}

/// A running `corelane gateway`.
pub(crate) struct Gateway {
    pub(crate) folder: Folder,
    pub(crate) process: Process,
    pub(crate) tcp: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Gateway {
    /// A gateway in front of the fixture with `arguments`.
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self::with_keys("", arguments)
    }

    /// The same with further keys of the declaration.
    pub(crate) fn with_keys(keys: &str, arguments: &[&str]) -> Self {
        Self::declared(&upstream("fixture", keys, arguments), &[])
    }

    /// A gateway with these declarations.
    pub(crate) fn declared(declarations: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let text = declarations.replace(FOLDER, &folder.text_path(""));
        folder.write("corelane.toml", &text);
        let mut command = Command::new(CORELANE);
        command.args(["gateway", "--config"]).arg(folder.path("corelane.toml")).args(arguments);
        Self::spawn(folder, &mut command)
    }

    /// A gateway with these declarations, whose operators have a token.
    pub(crate) fn with_token(declarations: &str) -> Self {
        let folder = Folder::new();
        folder.write("corelane.toml", &declarations.replace(FOLDER, &folder.text_path("")));
        folder.write("token", TOKEN_FIELD.trim_start_matches("Bearer "));
        let mut command = Command::new(CORELANE);
        command.args(["gateway", "--config"]).arg(folder.path("corelane.toml"));
        command.arg("--admin-token").arg(folder.path("token"));
        Self::spawn(folder, &mut command)
    }

    /// Starts a gateway by `command`, which is completed with listeners on free ports.
    pub(crate) fn spawn(folder: Folder, command: &mut Command) -> Self {
        let free = "127.0.0.1:0";
        let listeners = ["--tcp", free, "--http", free, "--shards", "2"];
        let arguments: Vec<String> =
            command.get_args().map(|it| it.to_str().expect("UTF-8").to_owned()).collect();
        let mut command = Command::new(command.get_program());
        let (command_line, program) = match arguments.iter().position(|it| it == "--") {
            Some(place) => arguments.split_at(place),
            None => (&arguments[..], &[][..]),
        };
        command.args(command_line).args(listeners).args(SMALL_RINGS).args(program).env_clear();
        if !program.is_empty() {
            command.current_dir(folder.path(""));
        }
        let mut process = Process::spawn(&mut command);
        let tcp = listener(&mut process, "listening tcp ");
        let http = listener(&mut process, "listening http ");
        Self { folder, process, tcp, http }
    }

    /// Ends the gateway in order, with all that it has started; returns its log.
    pub(crate) fn end(self) -> String {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait();
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        self.folder.wait_for_no_process();
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended.stderr
    }

    /// Waits for a line of the log.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        self.process.wait_for(|line| line.contains(text))
    }

    /// Has 200 clients of all kinds call at once, and expects that the upstream, which records its
    /// starts, was started once.
    pub(crate) fn expect_one_start_for_first_calls(&self) {
        let kinds = KINDS.into_iter().cycle().take(200);
        let mut clients: Vec<Client> = kinds.map(|kind| self.client(kind)).collect();
        let params = json!({"name": "echo", "arguments": {"message": "first"}});
        let start = |client: &mut Client| client.start("tools/call", params.clone());
        let ids: Vec<u64> = clients.iter_mut().map(start).collect();
        for (client, id) in clients.iter_mut().zip(ids) {
            assert_eq!(text_of(&client.response(id)), "first");
        }
        assert_eq!(self.folder.starts(), 1);
    }

    /// A client of `kind`, without capabilities.
    pub(crate) fn client(&self, kind: Kind) -> Client {
        Client::connect(self, kind)
    }
}

fn listener(process: &mut Process, text: &str) -> SocketAddr {
    let line = process.wait_for(|line| line.contains(text));
    let url = line.rsplit(' ').next().unwrap_or_default();
    let address = url.split('/').next().unwrap_or_default().parse();
    address.unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Kind {
    pub(crate) revision: &'static str,
    pub(crate) is_http: bool,
}

pub(crate) const LEGACY_TCP: Kind = Kind { revision: "2025-11-25", is_http: false };
pub(crate) const LEGACY_HTTP: Kind = Kind { revision: "2025-11-25", is_http: true };
pub(crate) const OLD_TCP: Kind = Kind { revision: "2025-06-18", is_http: false };
pub(crate) const OLD_HTTP: Kind = Kind { revision: "2025-06-18", is_http: true };
pub(crate) const MODERN_TCP: Kind = Kind { revision: "2026-07-28", is_http: false };
pub(crate) const MODERN_HTTP: Kind = Kind { revision: "2026-07-28", is_http: true };

/// Every kind of client.
pub(crate) const KINDS: [Kind; 6] =
    [LEGACY_TCP, LEGACY_HTTP, OLD_TCP, OLD_HTTP, MODERN_TCP, MODERN_HTTP];

/// Upstreams of each era.
pub(crate) const ERAS: [&str; 3] = ["2025-06-18", "legacy", "modern"];

/// Runs `test` with clients of every kind in front of upstreams of every era. It gets the gateway,
/// the kind and the era.
pub(crate) fn in_every_cell(arguments: &[&str], test: impl Fn(&Gateway, Kind, &str)) {
    for era in ERAS {
        let gateway = Gateway::new(&[&["--era", era], arguments].concat());
        for kind in KINDS {
            eprintln!("client {kind:?}, upstream {era}");
            test(&gateway, kind, era);
        }
        gateway.end();
    }
}
