//! Every ring under every executor carries the same sessions.

use rustix::process::Signal;

use crate::process::{Process, Server};
use crate::session::Session;

/// One server on `ring` and `executor`: both eras, several shards, a drain with a call in flight.
fn serve(ring: &str, executor: &str) {
    let server = Server::start(&["--ring", ring, "--executor", executor, "--shards", "2"]);
    let about = server.process.told().iter().find(|line| line.starts_with("corelane "));
    let about = about.expect("the line about the engine comes before the listener's");
    assert!(about.contains(ring) && about.contains(executor), "{about}");

    // More connections than shards, so that each shard carries some.
    let mut sessions: Vec<Session> = (0..8).map(|_| Session::modern(server.connect())).collect();
    for session in &mut sessions {
        session.try_everything();
    }
    let mut session = Session::legacy(server.connect(), "2025-11-25");
    session.try_everything();
    session.echo(&"large ☃ ".repeat(40_000));
    let (id, _) = session.begin_slow(5, 10);
    session.hear(None);
    server.process.signal(Signal::TERM);
    session.answer(id, "tools/call");
    let ended = server.process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn uring_under_native_serves() {
    serve("uring", "native");
}

#[test]
fn poll_under_native_serves() {
    serve("poll", "native");
}

#[cfg(feature = "glommio")]
#[test]
fn uring_under_glommio_serves() {
    serve("uring", "glommio");
}

/// Its own event loop is `io_uring`: where readiness is needed glommio cannot run either.
#[test]
fn poll_under_glommio_is_refused_with_the_remedy() {
    let process = Process::start(&["serve", "--ring", "poll", "--executor", "glommio"]);
    let ended = process.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("executor = native"), "{}", ended.stderr);
}
