//! What children in a sandbox reach.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::{TestChild, refusal, run, shell, supervisor, test_arguments};
use crate::{ChildSpec, Exit, Sandbox, Supervisor, Variable};

/// Returns whether this machine has sandboxes, those without network included. The sentence that
/// says why not is checked, too.
fn has_sandbox(supervisor: &Supervisor, sandbox: &Sandbox) -> bool {
    match supervisor.check(sandbox) {
        Ok(()) => true,
        Err(why) => {
            assert!(why.contains("Landlock of Linux 6.2") || why.contains("network = "), "{why}");
            assert_eq!(refusal(supervisor, &in_sandbox("true", sandbox)), why);
            false
        }
    }
}

fn in_sandbox(script: &str, sandbox: &Sandbox) -> ChildSpec {
    let mut spec = shell(script);
    spec.sandbox = Some(sandbox.clone());
    spec
}

#[test]
fn files_outside_the_sandbox_are_closed() {
    let supervisor = supervisor();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["read", "write", "closed"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("file"), name).unwrap();
    }
    let sandbox = Sandbox { read: vec![path("read")], write: vec![path("write")], network: true };
    if !has_sandbox(&supervisor, &sandbox) {
        return;
    }
    let script = "cat read/file write/file
        cat closed/file || echo no read
        ls closed || echo no list
        echo x > read/file || echo no write
        echo x > closed/new || echo no new
        truncate -s 0 closed/file || echo no truncate
        rm -f closed/file || echo no remove
        mv closed/file write/stolen || echo no move
        ln closed/file write/linked || echo no link
        cat /etc/shadow /root/.profile || echo no secrets
        cat /proc/$PPID/environ || echo no processes
        echo new > write/new && cat write/new && rm write/new write/file
        head -c 1 /dev/zero > /dev/null && echo devices";
    let mut spec = in_sandbox(script, &sandbox);
    spec.directory = Some(folder.path().into());
    let outcome = run(&supervisor, &spec);
    let expected = "readwriteno read\nno list\nno write\nno new\nno truncate\nno remove\nno move\n\
        no link\nno secrets\nno processes\nnew\ndevices\n";
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(path("closed").join("file")).unwrap(), "closed");
    assert!(!path("write").join("file").exists());
    // The supervisor itself and other children are not restricted.
    let mut free = shell("cat closed/file");
    free.directory = Some(folder.path().into());
    assert_eq!(run(&supervisor, &free).stdout, "closed");
}

#[test]
fn program_outside_is_part_of_its_sandbox() {
    let supervisor = supervisor();
    let sandbox = Sandbox { network: true, ..Sandbox::default() };
    if !has_sandbox(&supervisor, &sandbox) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::copy("/bin/sh", folder.path().join("interpreter")).unwrap();
    let interpreter = folder.path().join("interpreter");
    std::fs::write(&path, format!("#!{} -e\necho ran\ncat $0\n", interpreter.display())).unwrap();
    let mode = std::fs::metadata(&interpreter).unwrap().permissions();
    std::fs::set_permissions(&path, mode).unwrap();
    let mut spec = ChildSpec::new(&path);
    spec.sandbox = Some(sandbox);
    let outcome = run(&supervisor, &spec);
    assert_eq!(outcome.stdout.lines().next(), Some("ran"), "{outcome:?}");
    assert_eq!(outcome.exit, Exit::Code(0));
}

#[test]
fn missing_path_of_sandbox_is_named() {
    let supervisor = supervisor();
    let mut sandbox = Sandbox { network: true, ..Sandbox::default() };
    if !has_sandbox(&supervisor, &sandbox) {
        return;
    }
    sandbox.write = vec!["/no/such/path".into()];
    let why = supervisor.check(&sandbox).unwrap_err();
    assert!(why.contains("sandbox.write: /no/such/path cannot be allowed: No such file"), "{why}");
    assert_eq!(refusal(&supervisor, &in_sandbox("true", &sandbox)), why);
}

/// Reaches for the addresses in its environment. The exit status counts what it has reached. Does
/// nothing among the other tests.
#[test]
#[ignore = "the child process of a test"]
#[expect(clippy::disallowed_methods, reason = "it is a program of its own")]
fn network_process() {
    let Ok(address) = std::env::var("ADDRESS") else { return };
    let udp = UdpSocket::bind("0.0.0.0:0").and_then(|it| it.send_to(b"x", &address));
    let name = SocketAddr::from_abstract_name(std::env::var("NAME").unwrap()).unwrap();
    let reached = [
        TcpStream::connect(&address).is_ok(),
        udp.is_ok(),
        UnixStream::connect_addr(&name).is_ok(),
    ];
    let count = reached.into_iter().filter(|it| *it).count();
    std::process::exit(i32::try_from(10 + count).unwrap());
}

/// A child that reaches for the network; its name and its path are in the sandbox.
fn network_child(address: &TcpListener, name: &str, sandbox: Option<&Sandbox>) -> ChildSpec {
    let mut spec = ChildSpec::new(std::env::current_exe().unwrap());
    spec.arguments = test_arguments("reach::network_process").map(Into::into).into();
    let address = address.local_addr().unwrap().to_string();
    spec.environment = vec![Variable::new("ADDRESS", address), Variable::new("NAME", name)];
    spec.sandbox = sandbox.cloned();
    spec
}

#[test]
fn network_outside_the_sandbox_is_closed() {
    let supervisor = supervisor();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("corelane-process-{}", std::process::id());
    let _abstract_listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let count = |sandbox: Option<&Sandbox>| {
        run(&supervisor, &network_child(&listener, &name, sandbox)).exit
    };
    assert_eq!(count(None), Exit::Code(13));
    let closed = Sandbox::default();
    if !has_sandbox(&supervisor, &closed) {
        return;
    }
    assert_eq!(count(Some(&closed)), Exit::Code(10));
    let open = Sandbox { network: true, ..Sandbox::default() };
    // Abstract sockets are closed from Linux 6.12 on.
    assert!(matches!(count(Some(&open)), Exit::Code(12 | 13)));
    assert_eq!(count(None), Exit::Code(13));
}

#[test]
fn children_in_sandbox_end_like_others() {
    let supervisor = supervisor();
    let sandbox = Sandbox::default();
    if !has_sandbox(&supervisor, &sandbox) {
        return;
    }
    let outcome = run(&supervisor, &in_sandbox("(setsid sleep 1000 &) ; exit 3", &sandbox));
    assert_eq!(outcome.exit, Exit::Code(3));
    let mut child = TestChild::spawn(&supervisor, &in_sandbox("echo ready; sleep 1000", &sandbox));
    assert_eq!(child.read_line(), "ready");
    child.handle.kill();
    assert_eq!(child.finish().exit, Exit::Signal(9));
    let mut child = TestChild::spawn(&supervisor, &in_sandbox("echo ready; read line", &sandbox));
    assert_eq!(child.read_line(), "ready");
    child.handle.detach();
    drop(supervisor);
    assert_eq!(child.exit.recv(), Ok(Exit::Signal(15)));
}
