//! Sessions over HTTP that the server has ended, and that it answers with status 404.

use corelane_load::metrics::outcome::Failure;

use super::{job, run};
use crate::users::event_server::{EventServer, StreamModel};

const LEGACY: &str = "era = \"legacy\"\n[[phase]]\nrate = 20\nduration = \"1s\"\n\
                      [[call]]\nmethod = \"ping\"\n";

#[test]
fn slow_reader_begins_new_session_after_404() {
    let server = EventServer::start(StreamModel::EndsSessions);
    let readers = "[slow_readers]\nconnections = 1\nbytes_per_second = 1000000\ndepth = 1\n";
    let slow = run(&job(&server.target(), &format!("{LEGACY}{readers}"))).total.slow_readers;
    assert!(slow.answered >= 2 && slow.failed >= 1, "{slow:?}");
    assert_eq!(slow.closed, 0, "{slow:?}");
}

#[test]
fn publisher_begins_new_session_after_404() {
    let server = EventServer::start(StreamModel::EndsSessions);
    let listen = "[listen]\nstreams = 1\nevery = \"100ms\"\npublish = { method = \"ping\" }\n";
    let fanout = run(&job(&server.target(), &format!("{LEGACY}{listen}"))).total.fanout;
    let published = &fanout.publish_outcomes;
    assert!(published.answered >= 3, "{published:?}");
    // Publications wait for the new session.
    assert_eq!(published.failures(), published.failed(Failure::Http4xx), "{published:?}");
}

#[test]
fn subscriber_begins_new_session_after_404() {
    let server = EventServer::start(StreamModel::ForgetsFirst);
    let listen = "[listen]\nstreams = 2\nevery = \"100ms\"\npublish = { method = \"ping\" }\n";
    let found = run(&job(&server.target(), &format!("{LEGACY}{listen}").replace("= 20", "= 0")));
    assert_eq!(found.open_streams, 2, "{:?}", server.log());
    assert!(server.log().requests.len() >= 3, "{:?}", server.log());
}
