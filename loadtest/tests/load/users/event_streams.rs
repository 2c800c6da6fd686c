//! Event streams of the sessions of users, and sessions that end.

use corelane_load::plan::{Plan, PlanError};
use corelane_load::result::{EventStreamsResult, RunResult};
use corelane_load::target::Era;
use corelane_test_support::TestServer;

use super::event_server::{EventServer, StreamModel};
use super::{run, users};

const PING: &str = "[[scenario.step]]\nmethod = \"ping\"\n";

fn plan(target: &str, keys: &str) -> Plan {
    let text = format!(
        "target = \"{target}\"\nera = \"legacy\"\nwarm_up = \"0s\"\nresponse_timeout = \"2s\"\n\
         [[phase]]\nduration = \"1s\"\n[[scenario]]\nevent_stream = true\n{keys}\n{PING}"
    );
    let mut plan: Plan = toml::from_str(&text).unwrap();
    plan.apply_users();
    plan
}

fn streams(result: &RunResult) -> EventStreamsResult {
    users(result).event_streams.unwrap()
}

#[test]
fn each_session_has_an_event_stream() {
    let server = EventServer::start(StreamModel::Notifies);
    let result = run(plan(&server.target(), "users = 4\nthink = \"10ms\""));
    let (log, found) = (server.log(), streams(&result));
    assert_eq!((log.mistakes.len(), log.requests.len(), log.streams.len()), (0, 4, 4), "{log:?}");
    assert_eq!((found.opened, found.lost, found.refused, found.unsupported), (4, 0, 0, false));
    // The first requests may precede the streams, and the end the last notifications.
    assert!(found.notifications > 0, "{found:?}");
    assert!(found.notifications <= result.totals.answered, "{found:?} {log:?}");
    assert_eq!(result.totals.opened, 4);
    let table = corelane_load::report::table::table(&result);
    assert!(table.contains("\nevents   4 streams opened · "), "{table}");
}

#[test]
fn user_that_leaves_takes_its_stream_along() {
    let server = EventServer::start(StreamModel::Notifies);
    let result = run(plan(&server.target(), "users = 2\nthink = \"5ms\"\nleave = true"));
    let (log, found) = (server.log(), streams(&result));
    assert_eq!(log.mistakes, Vec::<String>::new());
    assert!(log.deleted >= 2 && log.streams.len() > 2, "{log:?}");
    assert!(log.streams.values().all(|count| *count == 1), "{log:?}");
    assert_eq!(found.lost, 0, "{found:?} {log:?}");
}

#[test]
fn server_without_event_stream_is_noted() {
    let server = EventServer::start(StreamModel::Refuses("405 Method Not Allowed"));
    let result = run(plan(&server.target(), "users = 3"));
    let found = streams(&result);
    assert_eq!((found.opened, found.lost, found.refused, found.unsupported), (0, 0, 0, true));
    let notes = &result.verdict.notes;
    let note = "the server has no event stream: it answered GET with status 405";
    assert_eq!(notes.iter().filter(|it| *it == note).count(), 1, "{notes:?}");
    assert!(result.totals.answered > 0 && result.verdict.failed.is_empty());
    assert!(server.log().streams.values().all(|count| *count == 1));
}

#[test]
fn refused_event_streams_are_counted() {
    let server = EventServer::start(StreamModel::Refuses("500 Internal Server Error"));
    let result = run(plan(&server.target(), "users = 3"));
    let (found, notes) = (streams(&result), &result.verdict.notes);
    assert!(found.refused >= 3 && found.opened == 0, "{found:?}");
    let part = "event streams were refused, one with status 500";
    assert!(notes.iter().any(|note| note.contains(part)), "{notes:?}");
}

#[test]
fn event_stream_answers_ping_and_opens_again() {
    let server = EventServer::start(StreamModel::PingsAndEnds);
    let mut plan = plan(&server.target(), "users = 2\nthink = \"10ms\"");
    plan.phases[0].duration = "3s".parse().unwrap();
    let result = run(plan);
    let (log, found) = (server.log(), streams(&result));
    assert!(log.streams.values().all(|count| *count >= 2), "{log:?} {found:?}");
    assert!(log.pongs >= 4 && found.lost >= 2 && found.requests >= 2, "{log:?} {found:?}");
    assert_eq!((log.requests.len(), log.mistakes.len()), (2, 0), "{log:?}");
}

#[test]
fn new_session_has_a_new_event_stream() {
    let server = EventServer::start(StreamModel::EndsSessions);
    let result = run(plan(&server.target(), "users = 1\nthink = \"20ms\""));
    let (log, found) = (server.log(), streams(&result));
    assert!(log.requests.len() >= 2 && log.streams.len() >= 2, "{log:?}");
    assert!(log.streams.values().all(|count| *count == 1), "{log:?}");
    assert_eq!((log.mistakes.len(), found.lost), (0, 0), "{log:?} {found:?}");
}

#[test]
fn event_stream_without_session_is_noted() {
    let server = TestServer::for_load();
    let mut plan = plan(&format!("http://{}", server.http()), "");
    plan.era = Some(Era::Modern);
    let result = run(plan);
    let part = "2026-07-28 has no stream of a session, and none was opened";
    assert!(result.verdict.notes.iter().any(|note| note.contains(part)), "{:?}", result.verdict);
    assert_eq!(users(&result).event_streams, None);
    assert!(result.totals.due > 0);
}

#[test]
fn event_stream_is_only_over_http() {
    for target in ["tcp://127.0.0.1:1", "ws://127.0.0.1:1"] {
        let PlanError(why) = plan(target, "").run_config().unwrap_err();
        assert!(why.contains("event_stream = true: only over HTTP"), "{why}");
    }
}
