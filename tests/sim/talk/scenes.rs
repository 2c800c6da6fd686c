//! Runs written by hand: what happens when, to the millisecond of simulated time.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::ring::sim::{Fault, Faults};
use corelane::link::LinkOptions;
use corelane::protocol::revision::Revision;
use corelane::server::Options;
use serde_json::json;

use crate::talk::answer::{self, Answer};
use crate::talk::conversation::{Deferred, Ending, Note, Owed};
use crate::talk::dialogue::Act;
use crate::talk::message;
use crate::talk::scenario::Scenario;
use crate::talk::stage::{self, Report};

/// How much later than its time something may be: a tick, a turn, the way there and back.
const LATE_MAX: Duration = Duration::from_millis(3);

/// One shard, nothing that goes wrong, and clients that all connect at once.
fn scene(options: Options, clients: Vec<Vec<Act>>) -> Scenario {
    Scenario {
        seed: 1,
        shards: 1,
        is_piped: false,
        options,
        faults: Faults::NONE,
        clients: clients.into_iter().map(|acts| (Duration::ZERO, acts)).collect(),
        letters: Vec::new(),
        jumps: Vec::new(),
        drain: None,
        naps: None,
    }
}

/// Every limit small, but for the number of connections.
fn options() -> Options {
    let mut options = Options::tiny();
    options.engine.ring_sizes.receive_buffers = 64;
    options.limits.outgoing_bytes_max = 1 << 20;
    options
}

fn play(scenario: &Scenario) -> Report {
    stage::run(scenario).unwrap_or_else(|reason| panic!("{reason}"))
}

/// Asks for an echo.
fn echo(id: u64) -> Act {
    let (id, words) = (json!(id), format!("words of {id}"));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    say(text, Note::Owed(Owed::to(id, Answer::Echo(words))))
}

/// Asks for a large echo.
fn echo_much(id: u64) -> Act {
    let (id, words) = (json!(id), "x".repeat(MUCH_BYTES));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    say(text, Note::Owed(Owed::to(id, Answer::Echo(words))))
}

const MUCH_BYTES: usize = 2_000;

/// Asks for a call of one step.
fn slow(id: u64, step_ms: u32, ending: Ending) -> Act {
    let id = json!(id);
    let arguments = json!({"steps": 1, "step_ms": step_ms});
    let text = message::call(&id, "slow", &arguments, None, Revision::LATEST);
    let answer = Answer::Took { steps: 1, step_ms };
    say(text, Note::Deferred(Deferred { id, answer, token: None, steps: 1, ending }))
}

/// Makes the handshake of the newest legacy revision.
fn shake_hands() -> [Act; 2] {
    let answer = Answer::Initialized(Revision::LATEST_LEGACY);
    let text = message::initialize(&json!("hello"), Revision::LATEST_LEGACY);
    let hello = say(text, Note::Owed(Owed::to(json!("hello"), answer)));
    [hello, say(message::notification("notifications/initialized"), Note::Nothing)]
}

/// Calls a tool that asks in return, in the way of `revision`.
fn ask(id: u64, answer: Answer, revision: Revision) -> Act {
    let id = json!(id);
    let text = message::call(&id, "ask", &json!({}), None, revision);
    let ending = Ending::Result;
    let call = Note::Deferred(Deferred { id, answer, token: None, steps: 0, ending });
    let question = if revision.is_modern() { Note::Nothing } else { Note::Asked };
    Act::Say { bytes: (text + "\n").into(), notes: vec![vec![call, question]] }
}

/// Answers the first question of the first shard.
fn answer_with_roots(count: usize) -> Act {
    let roots = vec![json!({"uri": "file:///a"}); count];
    let answer = json!({"jsonrpc": "2.0", "id": "corelane-0-0", "result": {"roots": roots}});
    say(answer.to_string(), Note::Nothing)
}

fn say(text: String, note: Note) -> Act {
    Act::Say { bytes: (text + "\n").into(), notes: vec![vec![note]] }
}

#[track_caller]
fn assert_about(moment: Moment, expected: Duration) {
    let elapsed = moment.since(Moment::ORIGIN);
    let is_about = expected <= elapsed && elapsed <= expected + LATE_MAX;
    assert!(is_about, "{elapsed:?} is not about {expected:?}");
}

#[test]
fn a_client_that_says_nothing_is_ended_with_its_lease() {
    let half_a_message = Act::Say { bytes: b"{\"jsonrpc\"".to_vec(), notes: vec![] };
    let scenario = scene(options(), vec![vec![Act::Stay], vec![half_a_message, Act::Stay]]);
    let report = play(&scenario);
    for ended in report.ends {
        assert_about(ended, scenario.options.tcp.lease_max);
    }
}

#[test]
fn a_client_that_falls_silent_is_ended_after_the_idle_time() {
    let acts = vec![Act::Wait(Duration::from_millis(50)), echo(1), Act::AwaitAnswers, Act::Stay];
    let scenario = scene(options(), vec![acts]);
    let report = play(&scenario);
    assert_eq!((report.tally.answers, report.tally.silences), (1, 1));
    assert_about(report.ends[0], Duration::from_millis(50) + scenario.options.tcp.idle_max);
}

#[test]
fn a_client_that_waits_longer_than_the_idle_time_gets_its_whole_answer() {
    let mut options = options();
    options.limits.request_max = Duration::from_secs(2);
    // Whoever has waited since the lease was looked at is looked at again every idle time.
    let looked_at = options.tcp.lease_max + options.tcp.idle_max;
    let looked_at = u32::try_from(looked_at.as_millis()).unwrap();
    for seed in 0..60 {
        let step_ms = looked_at - 2 + u32::try_from(seed % 3).unwrap();
        let acts = vec![slow(1, step_ms, Ending::Result), Act::Stay];
        let mut scenario = scene(options.clone(), vec![acts]);
        scenario.seed = seed;
        scenario.faults = Faults::NONE.with(Fault::PartialSend);
        let report = play(&scenario);
        assert_eq!(report.tally.answers, 1, "{step_ms} ms, seed {seed}");
        let ended = report.ends[0].since(Moment::ORIGIN);
        assert!(ended >= Duration::from_millis(step_ms.into()) + options.tcp.idle_max);
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let mut options = options();
    options.limits.outgoing_bytes_max = 4096;
    let mut acts = vec![Act::StopReading];
    acts.extend((0..400).map(echo_much));
    acts.extend([Act::Wait(Duration::from_millis(100)), Act::Reset]);
    let report = play(&scene(options, vec![acts]));
    // What fits into the client's window, into the bound and into one arrival more.
    let fit = (64 * 1024 + 4096 + 256) / MUCH_BYTES as u64 + 2;
    let read = report.tally.messages;
    assert!(fit / 2 < read && read <= fit, "{read} of {fit}");
}

#[test]
fn a_call_that_takes_too_long_is_answered_when_its_time_is_over() {
    let overdue = vec![slow(1, 2_000, Ending::Overdue), Act::AwaitAnswers, Act::Close];
    let scenario = scene(options(), vec![overdue]);
    let report = play(&scenario);
    assert_eq!(report.tally.overdue, 1);
    assert_about(report.ends[0], scenario.options.limits.request_max);
}

#[test]
fn one_client_too_many_is_told_so_and_a_place_is_used_again() {
    let mut options = options();
    options.tcp.connections_max = 1;
    let stays = vec![echo(1), Act::AwaitAnswers, Act::Wait(Duration::from_millis(20)), Act::Close];
    let mut scenario = scene(options, vec![stays.clone(), stays.clone(), stays]);
    scenario.clients[2].0 = Duration::from_millis(40);
    let report = play(&scenario);
    assert_eq!((report.tally.answers, report.tally.refused), (2, 1));
}

#[test]
fn a_goodbye_is_given_its_time_whatever_the_lease_says() {
    let mut options = options();
    options.engine.drain_max = Duration::from_mins(1);
    let too_much = "x".repeat(options.limits.message_bytes_max + 1);
    let answer = Answer::Error(answer::TOO_LARGE);
    let last = Owed { id: None, answer, is_rival: false, is_last: true };
    let says = Duration::from_millis(60);
    let acts = vec![Act::Linger, Act::Wait(says), say(too_much, Note::Owed(last)), Act::Stay];
    let report = play(&scene(options, vec![acts]));
    assert!(report.ends[0].since(Moment::ORIGIN) < says + 2 * LATE_MAX);
    let closed = report.ended.since(Moment::ORIGIN);
    let linger_max = LinkOptions::default().linger_max;
    assert!(
        closed >= says + linger_max && closed <= says + linger_max + 3 * LATE_MAX,
        "{closed:?}"
    );
}

#[test]
fn a_drain_waits_for_the_calls_in_flight_and_no_longer() {
    let acts = vec![slow(1, 100, Ending::Result), Act::Stay];
    let mut scenario = scene(options(), vec![acts]);
    scenario.drain = Some(Duration::from_millis(20));
    let report = play(&scenario);
    assert_eq!(report.tally.answers, 1);
    assert_about(report.ended, Duration::from_millis(100));
}

#[test]
fn a_drain_cuts_what_takes_longer_than_it_may() {
    let mut options = options();
    options.engine.drain_max = Duration::from_millis(60);
    let acts = vec![slow(1, 400, Ending::Result), Act::Stay];
    let mut scenario = scene(options, vec![acts]);
    scenario.drain = Some(Duration::from_millis(20));
    let report = play(&scenario);
    assert_eq!(report.tally.answers, 0);
    assert_about(report.ended, Duration::from_millis(80));
}

#[test]
fn calls_that_time_jumps_over_are_ended_once_and_their_client_is_not_taken_for_silent() {
    let mut acts = Vec::new();
    for id in 0..3 {
        acts.extend([slow(id, 5_000, Ending::Overdue), Act::Wait(Duration::from_millis(5))]);
    }
    acts.extend([Act::AwaitAnswers, echo(9), Act::AwaitAnswers, Act::Close]);
    let silent = vec![echo(1), Act::AwaitAnswers, Act::Stay];
    let mut scenario = scene(options(), vec![acts, silent]);
    let far = Duration::from_hours(1);
    scenario.jumps = vec![(Duration::from_millis(40), far)];
    assert!(scenario.options.limits.request_max < far && scenario.options.tcp.idle_max < far);
    let report = play(&scenario);
    let tally = report.tally;
    assert_eq!((tally.answers, tally.overdue, tally.silences, tally.jumps), (5, 3, 1, 1));
    for ended in report.ends {
        assert_about(ended, Duration::from_millis(40) + far);
    }
}

#[test]
fn a_flood_of_letters_through_a_tiny_mesh_is_read_to_its_end() {
    let acts = vec![slow(1, 5, Ending::Result), echo(2), Act::AwaitAnswers, Act::Close];
    let mut scenario = scene(options(), vec![acts]);
    scenario.shards = 3;
    scenario.options.engine.mesh.post_letters_max = 2;
    scenario.letters = vec![(Duration::ZERO, 700), (Duration::from_millis(1), 1)];
    let report = play(&scenario);
    assert!(report.tally.letters_refused > 0, "{}", report.tally);
    assert_eq!(report.tally.answers, 2);
}

#[test]
fn a_flood_of_letters_stops_nobody() {
    let acts = vec![slow(1, 5, Ending::Result), echo(2), Act::AwaitAnswers, Act::Close];
    let mut scenario = scene(options(), vec![acts]);
    scenario.letters = vec![(Duration::ZERO, 1_500), (Duration::from_millis(1), 1_500)];
    let report = play(&scenario);
    assert_eq!(report.tally.answers, 2);
    assert_about(report.ends[0], Duration::from_millis(5));
}

#[test]
fn a_call_waits_for_its_user_longer_than_a_call_may_take() {
    let mut options = options();
    options.limits.question_max = Duration::from_mins(1);
    let thinks = Duration::from_secs(20);
    assert!(thinks > options.limits.request_max && thinks > options.tcp.idle_max);
    let mut acts = shake_hands().to_vec();
    acts.push(ask(1, Answer::Echo("2 roots".into()), Revision::LATEST_LEGACY));
    acts.extend([Act::Wait(thinks), answer_with_roots(2), Act::AwaitAnswers, Act::Close]);
    let report = play(&scene(options, vec![acts]));
    assert_eq!((report.tally.answers, report.tally.asked, report.tally.withdrawn), (2, 1, 0));
    assert_about(report.ends[0], thinks);
}

#[test]
fn a_question_is_taken_back_after_its_time_and_the_call_goes_on_without() {
    let options = options();
    let question_max = options.limits.question_max;
    let mut acts = shake_hands().to_vec();
    acts.push(ask(1, Answer::Failed, Revision::LATEST_LEGACY));
    // The answer that comes too late answers nothing.
    acts.extend([Act::AwaitAnswers, answer_with_roots(1), echo(2), Act::AwaitAnswers, Act::Close]);
    let report = play(&scene(options, vec![acts]));
    assert_eq!((report.tally.answers, report.tally.asked, report.tally.withdrawn), (3, 1, 1));
    assert_about(report.ends[0], question_max);
}

#[test]
fn clients_that_vanish_between_a_question_and_its_answer_leave_nothing_behind() {
    for vanishes in [Act::Reset, Act::Close] {
        let legacy = ask(1, Answer::Failed, Revision::LATEST_LEGACY);
        let mut asked = shake_hands().to_vec();
        asked.extend([legacy, Act::Wait(Duration::from_millis(10)), vanishes.clone()]);
        let mut at_once = shake_hands().to_vec();
        at_once.extend([ask(1, Answer::Failed, Revision::LATEST_LEGACY), vanishes.clone()]);
        let between = vec![ask(1, Answer::Asks, Revision::LATEST), Act::AwaitAnswers, vanishes];
        let stays = vec![echo(1), Act::Wait(Duration::from_millis(20)), echo(2), Act::AwaitAnswers];
        let report = play(&scene(options(), vec![asked, at_once, between, stays]));
        assert!(report.tally.asked >= 1, "{:?}", report.tally);
    }
}

#[test]
fn a_drain_does_not_wait_for_users() {
    let mut options = options();
    options.limits.question_max = Duration::from_mins(1);
    let mut acts = shake_hands().to_vec();
    acts.extend([ask(1, Answer::Failed, Revision::LATEST_LEGACY), Act::Stay]);
    let mut scenario = scene(options, vec![acts]);
    scenario.drain = Some(Duration::from_millis(20));
    let report = play(&scenario);
    assert_eq!((report.tally.answers, report.tally.withdrawn), (2, 1));
    assert_about(report.ended, Duration::from_millis(20));
}
