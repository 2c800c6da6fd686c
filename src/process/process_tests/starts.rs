//! How children are started, and how that fails.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::FdFlags;
use rustix::process::Signal;

use super::{TestChild, refusal, run, shell, supervisor};
use crate::{ChildSpec, Exit, ResourceLimits, User, Variable};

/// Writes an executable file.
fn executable(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn missing_command_is_not_started() {
    let supervisor = supervisor();
    let why = refusal(&supervisor, &ChildSpec::new("no-such-command"));
    assert!(why.contains("`no-such-command` is not in PATH"), "{why}");
    let why = refusal(&supervisor, &ChildSpec::new("/no/such/command"));
    assert!(why.contains("`/no/such/command` does not exist"), "{why}");
}

#[test]
fn unusable_file_is_not_started() {
    let supervisor = supervisor();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let text = executable(folder.path(), "text", "no script");
    let orphaned = executable(folder.path(), "orphaned", "#!/no/such/interpreter\n");
    for (path, expected) in
        [(plain, "is not executable"), (text, "first line"), (orphaned, "does not exist")]
    {
        let why = refusal(&supervisor, &ChildSpec::new(&path));
        assert!(why.contains(expected) && why.contains(path.to_str().unwrap()), "{why}");
    }
}

#[test]
fn unusable_arguments_are_refused() {
    let supervisor = supervisor();
    let mut long = ChildSpec::new("true");
    long.arguments.push("a".repeat(1 << 20).into());
    assert!(refusal(&supervisor, &long).contains("128 KiB"));
    long.arguments = vec!["a".repeat(9 << 20).into()];
    assert!(refusal(&supervisor, &long).contains("too long"));
    let mut nul = ChildSpec::new("true");
    nul.arguments.push("a\0b".into());
    assert!(refusal(&supervisor, &nul).contains("NUL"));
    let mut named = ChildSpec::new("true");
    named.environment.push(Variable::new("A=B", "c"));
    assert!(refusal(&supervisor, &named).contains("`A=B` is not the name"));
    let mut directory = ChildSpec::new("true");
    directory.directory = Some("/no/such/directory".into());
    assert!(refusal(&supervisor, &directory).contains("working directory `/no/such/directory`"));
}

#[test]
fn environment_is_what_is_listed() {
    let supervisor = supervisor();
    let mut spec = ChildSpec::new("env");
    assert_eq!(run(&supervisor, &spec).stdout, "");
    spec.environment = vec![Variable::new("A", "1"), Variable::new("PATH", "/nowhere:/usr/bin")];
    assert_eq!(run(&supervisor, &spec).stdout, "A=1\nPATH=/nowhere:/usr/bin\n");
}

#[test]
fn arguments_arrive_as_they_are() {
    let supervisor = supervisor();
    let mut spec = ChildSpec::new("printf");
    spec.arguments = ["%s|", "a b", "$(id)", "; rm", "", "line\nbreak"].map(OsString::from).into();
    assert_eq!(run(&supervisor, &spec).stdout, "a b|$(id)|; rm||line\nbreak|");
}

#[test]
fn directory_is_that_of_the_child() {
    let supervisor = supervisor();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    executable(&path, "script", "#!/bin/sh\npwd\n");
    let mut spec = ChildSpec::new("./script");
    spec.directory = Some(path.clone());
    assert_eq!(run(&supervisor, &spec).stdout.trim_end(), path.to_str().unwrap());
}

#[test]
fn no_descriptor_of_the_server_leaks() {
    let leaking = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaking, FdFlags::empty()).unwrap();
    let supervisor = supervisor();
    // The number is that of the directory itself.
    let listing = run(&supervisor, &shell("exec ls /proc/self/fd")).stdout;
    assert_eq!(listing, "0\n1\n2\n3\n");
    let running = TestChild::spawn(&supervisor, &shell("read line"));
    assert_eq!(run(&supervisor, &shell("exec ls /proc/self/fd")).stdout, listing);
    assert_eq!(running.finish().exit, Exit::Code(1));
}

#[test]
fn limits_are_those_of_the_child() {
    let supervisor = supervisor();
    let mut spec = shell("read line; ulimit -n; ulimit -v; ulimit -t; ulimit -H -t");
    spec.limits = ResourceLimits {
        address_space_bytes: Some(1 << 30),
        cpu_seconds: Some(5),
        open_files: Some(17),
        processes: Some(10_000),
    };
    let mut child = TestChild::spawn(&supervisor, &spec);
    // The supervisor serves one request after the other.
    assert_eq!(run(&supervisor, &ChildSpec::new("true")).exit, Exit::Code(0));
    child.write_line();
    assert_eq!(child.finish().stdout, "17\n1048576\n5\n6\n");
}

#[test]
fn child_runs_as_its_user() {
    let supervisor = supervisor();
    let mut spec = shell("id -u; id -g; id -G");
    spec.user = Some(User { uid: 65_534, gid: 65_534 });
    if rustix::process::geteuid().is_root() {
        assert_eq!(run(&supervisor, &spec).stdout, "65534\n65534\n65534\n");
        return;
    }
    spec.user = Some(User { uid: 0, gid: 0 });
    assert!(refusal(&supervisor, &spec).contains("only root"));
}

#[test]
fn signals_of_child_are_default() {
    let supervisor = supervisor();
    let status = run(&supervisor, &shell("exec cat /proc/self/status")).stdout;
    let mask = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(value.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0);
    // Those that the supervisor or the server handles or ignores.
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::PIPE,
        Signal::TERM,
        Signal::CHILD,
    ] {
        assert_eq!(mask("SigIgn:") & (1 << (signal.as_raw() - 1)), 0, "{signal:?}");
    }
}
