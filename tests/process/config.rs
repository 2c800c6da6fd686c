//! Tests of the commands as processes: output, standard error and exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

use corelane_test_support::process::Signal;
use corelane_test_support::{ExitResult, Process};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::CORELANE;

/// Returns a command of the program with an empty environment.
fn corelane(arguments: &[&str]) -> Command {
    let mut command = Command::new(CORELANE);
    command.env_clear().args(arguments);
    command
}

/// Returns `check` with listeners that need no certain port to be free, and `arguments`.
fn check(arguments: &[&str]) -> Command {
    corelane(&[&["check", "--tcp", "127.0.0.1:0", "--http", "off"], arguments].concat())
}

/// An option as the help of `serve` lists it.
struct HelpOption {
    default: String,
    variable: String,
    key: String,
}

impl HelpOption {
    /// Returns the name of the flag with its dashes.
    fn flag(&self) -> String {
        let name = self.variable.strip_prefix("CORELANE_").expect("a variable of the program");
        format!("--{}", name.to_lowercase().replace('_', "-"))
    }
}

/// Reads the options from the help of `serve`: `[default: D] [env: V] [key: K]`.
fn options_of_help() -> Vec<HelpOption> {
    let (code, out, _) = run(&mut corelane(&["serve", "--help"]));
    assert_eq!(code, 0);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = words.split("[default: ").skip(1);
    let options = parts.map(|part| {
        let (default, rest) = part.split_once("] [env: ").expect("a variable");
        let (variable, rest) = rest.split_once("] [key: ").expect("a key");
        let (key, _) = rest.split_once("] [reload: ").expect("whether SIGHUP applies it");
        HelpOption { default: default.into(), variable: variable.into(), key: key.into() }
    });
    options.collect()
}

/// Creates a FIFO without a writer.
fn create_fifo(directory: &Path) -> PathBuf {
    let path = directory.join("fifo.toml");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("FIFO is created");
    path
}

/// Runs a command to its end; returns exit code, standard output and standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let ExitResult { status, stdout, stderr } = command.output().expect("process starts").into();
    (status, stdout, stderr)
}

#[test]
fn check_all_lists_every_option_with_its_source() {
    let (code, out, _) = run(corelane(&["check", "--all", "--tcp-nodelay", "false"])
        .env("CORELANE_HTTP", "off")
        .env("CORELANE_TCP", "127.0.0.1:0")
        .env("CORELANE_SHARDS", ""));
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), options_of_help().len());
    for line in [
        "tcp.nodelay = false                          # flag --tcp-nodelay",
        "http.address = \"off\"                         # environment CORELANE_HTTP",
        "shards = \"auto\"                              # default",
        "tcp.idle_timeout = \"5min\"                    # default",
    ] {
        assert!(out.lines().any(|other| other == line), "{line}\n{out}");
    }
}

#[test]
fn check_lists_options_that_differ_from_defaults() {
    let addresses = [("CORELANE_TCP", "127.0.0.1:0"), ("CORELANE_HTTP", "off")];
    let lines_of_addresses = [
        "tcp.address = \"127.0.0.1:0\"                  # environment CORELANE_TCP",
        "http.address = \"off\"                         # environment CORELANE_HTTP",
    ];
    let (code, out, _) = run(corelane(&["check", "--tcp-keepalive", "true"]).envs(addresses));
    assert_eq!((code, out.lines().collect::<Vec<_>>()), (0, lines_of_addresses.to_vec()));
    let given = ["check", "--profile", "tiny", "--tcp-nodelay", "false", "--shards", "1"];
    let (code, out, _) = run(corelane(&given).envs(addresses));
    assert_eq!(code, 0);
    let lines = [
        "profile = \"tiny\"                             # flag --profile",
        "tcp.nodelay = false                          # flag --tcp-nodelay",
        lines_of_addresses[1],
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn check_sets_up_ring() {
    let ring_line = |arguments: &[&str]| {
        let (code, _, error) = run(&mut check(arguments));
        assert_eq!(code, 0);
        let line = error.lines().find_map(|line| line.strip_prefix("ring: "));
        line.unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    assert!(ring_line(&["--ring", "poll"]).starts_with("poll"));
    let line = ring_line(&[]);
    assert!(line.starts_with("io_uring +") || line.starts_with("poll"), "{line}");
}

#[test]
fn check_output_is_an_equivalent_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("corelane.toml");
    let given = ["--profile", "tiny", "--cpus", "0,1", "--ring-zero-copy-bytes-min", "off"];
    for all in [&["--all"][..], &[]] {
        let (code, out, _) = run(&mut check(&[&given, all].concat()));
        assert_eq!(code, 0);
        std::fs::write(&path, &out).unwrap();
        let again = ["check", "--config", path.to_str().unwrap()];
        for command in [corelane(&[&again, all].concat()), {
            let mut command = corelane(&[&["check"], all].concat());
            command.env("CORELANE_CONFIG", &path);
            command
        }] {
            let mut command = command;
            let (code, again, _) = run(&mut command);
            assert_eq!(code, 0);
            assert_eq!(out.lines().count(), again.lines().count());
            for (number, (before, after)) in out.lines().zip(again.lines()).enumerate() {
                let value = |line: &str| line.split_once(" #").unwrap().0.trim_end().to_owned();
                assert_eq!(value(before), value(after));
                assert!(after.ends_with(&format!("corelane.toml:{}", number + 1)), "{after}");
            }
        }
    }
}

#[test]
fn every_variable_and_flag_reaches_the_program() {
    let (mut variables, mut flags) = (corelane(&["check", "--all"]), corelane(&["check", "--all"]));
    for option in options_of_help() {
        let text = match &*option.key {
            "tcp.address" => "127.0.0.1:0".to_owned(),
            "http.address" => "off".to_owned(),
            _ => option.default.clone(),
        };
        variables.env(&option.variable, &text);
        flags.arg(option.flag()).arg(&text);
    }
    for (mut command, word) in [(variables, "# environment CORELANE_"), (flags, "# flag --")] {
        let (code, out, _) = run(&mut command);
        assert_eq!(code, 0);
        assert!(out.lines().all(|line| line.contains(word)), "{out}");
    }
}

#[test]
fn every_command_rejects_invalid_configuration() {
    for command in ["serve", "stdio", "check"] {
        let (code, out, error) =
            run(corelane(&[command, "--shards", "0"]).env("CORELANE_TCP", "nowhere"));
        assert_eq!((code, out.as_str()), (1, ""), "{command}");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 2, "{error}");
        assert!(lines[0].starts_with("error: environment CORELANE_TCP: tcp.address: "));
        assert!(lines[1].starts_with("error: flag --shards: shards: 0 is out of range; "));
    }
}

#[test]
fn unreadable_file_is_reported_with_other_errors() {
    let (code, out, error) =
        run(&mut corelane(&["check", "--config", "/nowhere/corelane.toml", "--shards", "0"]));
    assert_eq!((code, out.as_str()), (1, ""));
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("error: /nowhere/corelane.toml: cannot be read: "), "{error}");
    assert!(lines[1].contains("shards"), "{error}");
}

#[test]
fn file_that_is_not_utf8_names_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("corelane.toml");
    std::fs::write(&path, b"shards = 1\n# \xFF\n").unwrap();
    let (code, _, error) = run(&mut corelane(&["check", "--config", path.to_str().unwrap()]));
    assert_eq!(code, 1);
    assert!(error.contains("corelane.toml:2: is not UTF-8; save the file as UTF-8"), "{error}");
}

#[test]
fn oversized_file_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("corelane.toml");
    std::fs::write(&path, vec![b'#'; (16 << 20) + 1]).unwrap();
    let (code, _, error) = run(&mut corelane(&["check", "--config", path.to_str().unwrap()]));
    assert_eq!(code, 1);
    assert!(error.contains("is longer than 16 MiB"), "{error}");
}

#[test]
fn configuration_that_is_no_regular_file_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = create_fifo(directory.path());
    for path in [fifo.as_path(), Path::new("/dev/zero"), directory.path()] {
        for command in ["serve", "stdio", "check"] {
            let path = path.to_str().unwrap();
            let (code, out, error) = run(&mut corelane(&[command, "--config", path]));
            assert_eq!((code, out.as_str()), (1, ""), "{command} {path}");
            let expected = format!(
                "error: {path}: cannot be read: it is not a regular file; \
                 name a readable file with --config or CORELANE_CONFIG, or neither\n"
            );
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn check_warns_of_machine_limits_and_succeeds() {
    let (code, _, error) = run(&mut corelane(&[
        "check",
        "--tcp-connections-max",
        "10000000",
        "--shards",
        "1",
        "--memory-bytes-max",
        "16MiB",
    ]));
    assert_eq!(code, 0);
    let warning = "warning: flag --tcp-connections-max: tcp.connections_max: ";
    assert!(error.lines().any(|line| line.starts_with(warning)), "{error}");
}

#[test]
fn unreadable_directory_is_reported_with_option_and_hint() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let lines = [
        "flag --resources: resources.directory: /nowhere/docs does not exist; \
         create it, name another directory, or off"
            .to_owned(),
        format!(
            "flag --prompts: prompts.directory: {} is not a directory; \
             name the directory that holds the files",
            file.display()
        ),
    ];
    for command in ["check", "serve", "stdio"] {
        let given = [command, "--resources", "/nowhere/docs", "--prompts", file.to_str().unwrap()];
        let (code, _, error) = run(&mut corelane(&given));
        assert_eq!(code, 1, "{command}: {error}");
        for line in &lines {
            let line = format!("error: {line}");
            assert!(error.lines().any(|other| other == line), "{command}: {error}");
        }
    }
}

#[test]
fn check_fails_where_serve_would_not_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (given, key) in [
        (["--http", &*address, "--tcp", "off"], "flag --http: http.address: cannot listen on"),
        (["--admin-address", &*address, "--http", "off"], "admin.address: cannot listen on"),
        (["--http", "off", "--tcp", "off"], "http.address: nothing to serve"),
        (["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"], "/nowhere.pem"),
        (["--auth-api-keys", "/nowhere.keys", "--tcp", "off"], "/nowhere.keys"),
        (["--auth-rules", "tool/call mfa", "--auth-anonymous", "true"], "error: "),
        (["--rate-rules", "tool/call rate=1/s", "--tcp", "off"], "the method tool/call is unknown"),
        (["--auth-audit", "tools/call", "--tcp", "off"], "tools/call is a method"),
        (
            ["--http", "off", "--tcp", ":0"],
            "tcp.address: 0.0.0.0:0 is reachable from other machines",
        ),
    ] {
        let (code, _, error) = run(corelane(&["check"]).args(given));
        assert_eq!(code, 1, "{given:?}: {error}");
        let is_named = |line: &str| line.starts_with("error: ") && line.contains(key);
        assert!(error.lines().any(is_named), "{given:?}: {error}");
        assert!(!error.lines().any(|line| line == "ok"), "{error}");
    }
    drop(taken);
    let free = ["check", "--http", "localhost:0", "--tcp", ":0", "--insecure-public"];
    let (code, _, error) = run(&mut corelane(&free));
    assert_eq!((code, error.lines().last()), (0, Some("ok")), "{error}");
}

#[test]
fn unknown_flag_is_a_usage_error() {
    let (code, out, error) = run(&mut corelane(&["serve", "--tcp-connection-max", "3"]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("'--tcp-connections-max'"), "{error}");
    let (code, _, error) = run(&mut corelane(&["serve", "--tpc", "off"]));
    assert_eq!(code, 2);
    assert!(error.contains("'--tcp'"), "{error}");
    let (code, out, error) = run(&mut corelane(&[]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("check"), "{error}");
}

#[test]
fn serve_without_listeners_is_rejected() {
    let (code, out, error) = run(&mut corelane(&["serve", "--tcp", "off", "--http", "off"]));
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        error,
        "error: nothing to serve: tcp and http are off; give an address with --tcp or --http\n"
    );
}

#[test]
fn sighup_applies_valid_limits_and_rejects_invalid() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("corelane.toml");
    let listeners = "tcp.address = \"127.0.0.1:0\"\nhttp.address = \"off\"\n";
    std::fs::write(&path, format!("{listeners}shards = 1\n")).unwrap();
    let mut server = Process::spawn(&mut corelane(&["serve", "--config", path.to_str().unwrap()]));
    server.wait_for(|line| line.contains("listening tcp 127.0.0.1:"));
    std::fs::write(&path, "tcp.connections_max = 0\n").unwrap();
    server.signal(Signal::HUP);
    let line = server.wait_for(|line| line.contains("configuration not reloaded"));
    assert!(line.contains("corelane.toml:1: tcp.connections_max: 0 is out of range"), "{line}");
    std::fs::write(&path, "tcp.connections_max = 7\n").unwrap();
    server.signal(Signal::HUP);
    server.wait_for(|line| line.contains("configuration reloaded"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().status, 0);
}

#[test]
fn sighup_refuses_fifo_and_sigterm_ends_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("corelane.toml");
    std::fs::write(&path, "tcp.address = \"127.0.0.1:0\"\nhttp.address = \"off\"\nshards = 1\n")
        .unwrap();
    let mut server = Process::spawn(&mut corelane(&["serve", "--config", path.to_str().unwrap()]));
    server.wait_for(|line| line.contains("listening tcp 127.0.0.1:"));
    std::fs::rename(create_fifo(directory.path()), &path).unwrap();
    server.signal(Signal::HUP);
    let line = server.wait_for(|line| line.contains("configuration not reloaded"));
    assert!(line.contains("corelane.toml: cannot be read: it is not a regular file"), "{line}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().status, 0);
}
