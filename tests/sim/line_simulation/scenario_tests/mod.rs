//! Scenarios written by hand: what happens when, to the millisecond of simulated time.

mod half_close;
mod large_messages;
mod memory;

use std::time::Duration;

use corelane::Options;
use corelane::internal::ConnectionOptions;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::{Fault, Faults};
use corelane_protocol::revision::Revision;
use serde_json::json;

use crate::line_simulation::action::LineAction;
use crate::line_simulation::expectation::{
    CallEnd, DeferredResponse, Expectation, ImmediateResponse,
};
use crate::line_simulation::expected_response::{self, ExpectedResponse};
use crate::line_simulation::message;
use crate::line_simulation::scenario::{EXEMPT_ADDRESS, Scenario, ScenarioClient};
use crate::line_simulation::simulation::{self, Report};
use crate::totals::Totals;

/// How late an event may be: a timer tick, a turn, the way there and back.
const LATE_MAX: Duration = Duration::from_millis(3);

/// One shard, no faults, and clients that all connect at once.
fn scenario(options: Options, clients: Vec<Vec<LineAction>>) -> Scenario {
    Scenario {
        seed: 1,
        shards: 1,
        is_piped: false,
        options,
        faults: Faults::NONE,
        clients: clients.into_iter().map(client).collect(),
        commands: Vec::new(),
        clock_jumps: Vec::new(),
        drain_at: None,
        stall_chance: None,
    }
}

fn client(actions: Vec<LineAction>) -> ScenarioClient {
    ScenarioClient::new(Duration::ZERO, EXEMPT_ADDRESS, actions)
}

/// Every limit small, but for the number of connections.
fn options() -> Options {
    let mut options = Options::tiny();
    options.engine.ring_sizes.receive_buffers = 64;
    options.limits.outgoing_bytes_max = 1 << 20;
    options
}

fn run(scenario: &Scenario) -> Report {
    simulation::run(scenario).unwrap_or_else(|reason| panic!("{reason}"))
}

fn echo(id: u64) -> LineAction {
    let (id, words) = (json!(id), format!("words of {id}"));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    send(text, Expectation::Immediate(ImmediateResponse::new(id, ExpectedResponse::Echo(words))))
}

/// A request with a large response.
fn echo_large(id: u64) -> LineAction {
    let (id, words) = (json!(id), "x".repeat(LARGE_BYTES));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    send(text, Expectation::Immediate(ImmediateResponse::new(id, ExpectedResponse::Echo(words))))
}

const LARGE_BYTES: usize = 2_000;

/// A message above the limit, after which the server closes the connection.
fn too_large(options: &Options) -> LineAction {
    let last = ImmediateResponse {
        id: None,
        expected: ExpectedResponse::Error(expected_response::TOO_LARGE),
        is_duplicate_id: false,
        closes_connection: true,
    };
    let text = "x".repeat(options.limits.message_bytes_max + 1);
    send(text, Expectation::Immediate(last))
}

/// A call of one step.
fn slow(id: u64, step_ms: u32, ending: CallEnd) -> LineAction {
    let id = json!(id);
    let arguments = json!({"steps": 1, "step_ms": step_ms});
    let text = message::call(&id, "slow", &arguments, None, Revision::LATEST);
    let answer = ExpectedResponse::Slow { steps: 1, step_ms };
    send(
        text,
        Expectation::Deferred(DeferredResponse {
            id,
            expected: answer,
            token: None,
            steps: 1,
            end: ending,
        }),
    )
}

/// The handshake of the newest legacy revision.
fn handshake() -> [LineAction; 2] {
    let answer = ExpectedResponse::Initialize(Revision::LATEST_LEGACY);
    let text = message::initialize(&json!("hello"), Revision::LATEST_LEGACY);
    let hello = send(text, Expectation::Immediate(ImmediateResponse::new(json!("hello"), answer)));
    [hello, send(message::notification("notifications/initialized"), Expectation::Nothing)]
}

/// Calls a tool that requests roots in the form of `revision`.
fn call_ask(id: u64, answer: ExpectedResponse, revision: Revision) -> LineAction {
    let id = json!(id);
    let text = message::call(&id, "ask", &json!({}), None, revision);
    let ending = CallEnd::Result;
    let call = Expectation::Deferred(DeferredResponse {
        id,
        expected: answer,
        token: None,
        steps: 0,
        end: ending,
    });
    let question =
        if revision.is_modern() { Expectation::Nothing } else { Expectation::ClientRequest };
    LineAction::Send { bytes: (text + "\n").into(), expectations: vec![vec![call, question]] }
}

/// Responds to the first request of the first shard.
fn respond_with_roots(count: usize) -> LineAction {
    let roots = vec![json!({"uri": "file:///a"}); count];
    let answer = json!({"jsonrpc": "2.0", "id": "corelane-0-0", "result": {"roots": roots}});
    send(answer.to_string(), Expectation::Nothing)
}

fn send(text: String, note: Expectation) -> LineAction {
    LineAction::Send { bytes: (text + "\n").into(), expectations: vec![vec![note]] }
}

#[track_caller]
fn assert_near(time: Instant, expected: Duration) {
    let elapsed = time.since(Instant::ORIGIN);
    let is_about = expected <= elapsed && elapsed <= expected + LATE_MAX;
    assert!(is_about, "{elapsed:?} is not about {expected:?}");
}

#[test]
fn silent_client_is_closed_at_first_message_timeout() {
    let half_a_message = LineAction::Send { bytes: b"{\"jsonrpc\"".to_vec(), expectations: vec![] };
    let scenario = scenario(
        options(),
        vec![vec![LineAction::AwaitClose], vec![half_a_message, LineAction::AwaitClose]],
    );
    let report = run(&scenario);
    for ended in report.client_ends {
        assert_near(ended, scenario.options.tcp.first_message_timeout);
    }
}

#[test]
fn idle_client_is_closed_at_idle_timeout() {
    let acts = vec![
        LineAction::Wait(Duration::from_millis(50)),
        echo(1),
        LineAction::AwaitResponses,
        LineAction::AwaitClose,
    ];
    let scenario = scenario(options(), vec![acts]);
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.idle_closes), (1, 1));
    assert_near(
        report.client_ends[0],
        Duration::from_millis(50) + scenario.options.tcp.idle_timeout,
    );
}

#[test]
fn client_waiting_past_idle_timeout_gets_its_response() {
    let mut options = options();
    options.limits.request_timeout = Duration::from_secs(2);
    // After the first-message timeout, a waiting client is checked once per idle timeout.
    let looked_at = options.tcp.first_message_timeout + options.tcp.idle_timeout;
    let looked_at = u32::try_from(looked_at.as_millis()).unwrap();
    for seed in 0..60 {
        let step_ms = looked_at - 2 + u32::try_from(seed % 3).unwrap();
        let acts = vec![slow(1, step_ms, CallEnd::Result), LineAction::AwaitClose];
        let mut scenario = scenario(options.clone(), vec![acts]);
        scenario.seed = seed;
        scenario.faults = Faults::NONE.with(Fault::PartialSend);
        let report = run(&scenario);
        assert_eq!(report.totals.responses, 1, "{step_ms} ms, seed {seed}");
        let ended = report.client_ends[0].since(Instant::ORIGIN);
        assert!(ended >= Duration::from_millis(step_ms.into()) + options.tcp.idle_timeout);
    }
}

#[test]
fn client_that_does_not_read_is_not_read() {
    let mut options = options();
    options.limits.outgoing_bytes_max = 4096;
    let mut acts = vec![LineAction::StopReading];
    acts.extend((0..400).map(echo_large));
    acts.extend([LineAction::Wait(Duration::from_millis(100)), LineAction::Reset]);
    let report = run(&scenario(options, vec![acts]));
    // What fits into the client's window, the outgoing buffer and one more receive.
    let fit = (64 * 1024 + 4096 + 256) / LARGE_BYTES as u64 + 2;
    let read = report.totals.messages;
    assert!(fit / 2 < read && read <= fit, "{read} of {fit}");
}

#[test]
fn slow_call_is_answered_at_request_timeout() {
    let overdue =
        vec![slow(1, 2_000, CallEnd::Timeout), LineAction::AwaitResponses, LineAction::Close];
    let scenario = scenario(options(), vec![overdue]);
    let report = run(&scenario);
    assert_eq!(report.totals.call_timeouts, 1);
    assert_near(report.client_ends[0], scenario.options.limits.request_timeout);
}

#[test]
fn connection_over_limit_is_refused_and_slot_reused() {
    let mut options = options();
    options.tcp.connections_max = 1;
    let stays = vec![
        echo(1),
        LineAction::AwaitResponses,
        LineAction::Wait(Duration::from_millis(20)),
        LineAction::Close,
    ];
    let mut scenario = scenario(options, vec![stays.clone(), stays.clone(), stays]);
    scenario.clients[2].connects_at = Duration::from_millis(40);
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.connections_refused), (2, 1));
}

#[test]
fn connections_over_address_share_are_refused() {
    let mut options = options();
    options.tcp.connections_max = 4;
    let stays = vec![
        echo(1),
        LineAction::AwaitResponses,
        LineAction::Wait(Duration::from_millis(20)),
        LineAction::Close,
    ];
    let mut scenario = scenario(options, vec![stays; 5]);
    for client in &mut scenario.clients[..4] {
        client.address = [192, 0, 2, 1].into();
    }
    let Totals { responses, connections_refused, connections_refused_by_address, .. } =
        run(&scenario).totals;
    assert_eq!((responses, connections_refused, connections_refused_by_address), (4, 1, 1));
}

#[test]
fn linger_ignores_first_message_timeout() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_mins(1);
    let idle = Duration::from_millis(60);
    let acts = vec![
        LineAction::Linger,
        LineAction::Wait(idle),
        too_large(&options),
        LineAction::AwaitClose,
    ];
    let report = run(&scenario(options, vec![acts]));
    assert!(report.client_ends[0].since(Instant::ORIGIN) < idle + 2 * LATE_MAX);
    let closed = report.drained_at.since(Instant::ORIGIN);
    let linger_max = ConnectionOptions::default().linger_timeout;
    assert!(
        closed >= idle + linger_max && closed <= idle + linger_max + 3 * LATE_MAX,
        "{closed:?}"
    );
}

#[test]
fn closing_connections_count_for_memory_limit() {
    let mut options = options();
    // Of 120 KB that a client does not read, the window of its socket holds 64 KiB.
    options.limits.memory_bytes_max = 100_000;
    let unread = |mut last: Vec<LineAction>| {
        let mut actions = vec![LineAction::StopReading];
        actions.extend((1..=60).map(echo_large));
        actions.append(&mut last);
        actions
    };
    let closing = unread(vec![too_large(&options), LineAction::AwaitClose]);
    let other = unread(vec![LineAction::Wait(Duration::from_millis(200)), LineAction::Close]);
    let mut scenario = scenario(options, vec![closing, other]);
    scenario.clients[1].connects_at = Duration::from_millis(100);
    let report = run(&scenario);
    // Not at the end of the linger timeout: the other one would exceed the limit until then.
    let closed_at = report.client_ends[0].since(Instant::ORIGIN);
    assert!(closed_at < Duration::from_millis(200), "{closed_at:?}");
}

#[test]
fn drain_waits_for_calls_in_flight() {
    let acts = vec![slow(1, 100, CallEnd::Result), LineAction::AwaitClose];
    let mut scenario = scenario(options(), vec![acts]);
    scenario.drain_at = Some(Duration::from_millis(20));
    let report = run(&scenario);
    assert_eq!(report.totals.responses, 1);
    assert_near(report.drained_at, Duration::from_millis(100));
}

#[test]
fn drain_timeout_cuts_longer_calls() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_millis(60);
    let acts = vec![slow(1, 400, CallEnd::Result), LineAction::AwaitClose];
    let mut scenario = scenario(options, vec![acts]);
    scenario.drain_at = Some(Duration::from_millis(20));
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.calls_cut), (1, 1));
    assert_near(report.drained_at, Duration::from_millis(80));
}

#[test]
fn end_of_piped_input_limits_time_of_calls() {
    let mut scenario = piped_scenario(slow(1, 400, CallEnd::Timeout));
    scenario.options.engine.drain_timeout = Duration::from_millis(60);
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.call_timeouts), (1, 1));
    assert_near(report.drained_at, Duration::from_millis(60));
}

#[test]
fn drain_after_end_of_piped_input_ends_server() {
    let mut scenario = piped_scenario(slow(1, 400, CallEnd::Result));
    scenario.options.engine.drain_timeout = Duration::from_millis(60);
    scenario.drain_at = Some(Duration::from_millis(20));
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.calls_cut), (1, 1));
    assert_near(report.drained_at, Duration::from_millis(20));
}

/// A client on pipes that ends its input after one message.
fn piped_scenario(message: LineAction) -> Scenario {
    let acts = vec![message, LineAction::ShutdownWrite, LineAction::AwaitClose];
    let mut scenario = scenario(options(), vec![acts]);
    scenario.is_piped = true;
    scenario.options.engine.ring_sizes.sockets_max = 2;
    scenario
}

#[test]
fn clock_jump_ends_calls_once_and_keeps_client() {
    let mut acts = Vec::new();
    for id in 0..3 {
        acts.extend([
            slow(id, 5_000, CallEnd::Timeout),
            LineAction::Wait(Duration::from_millis(5)),
        ]);
    }
    acts.extend([
        LineAction::AwaitResponses,
        echo(9),
        LineAction::AwaitResponses,
        LineAction::Close,
    ]);
    let silent = vec![echo(1), LineAction::AwaitResponses, LineAction::AwaitClose];
    let mut scenario = scenario(options(), vec![acts, silent]);
    let far = Duration::from_hours(1);
    scenario.clock_jumps = vec![(Duration::from_millis(40), far)];
    assert!(
        scenario.options.limits.request_timeout < far && scenario.options.tcp.idle_timeout < far
    );
    let report = run(&scenario);
    let totals = report.totals;
    assert_eq!(
        (totals.responses, totals.call_timeouts, totals.idle_closes, totals.clock_jumps),
        (5, 3, 1, 1)
    );
    for ended in report.client_ends {
        assert_near(ended, Duration::from_millis(40) + far);
    }
}

#[test]
fn command_flood_through_tiny_mesh_is_read() {
    let acts =
        vec![slow(1, 5, CallEnd::Result), echo(2), LineAction::AwaitResponses, LineAction::Close];
    let mut scenario = scenario(options(), vec![acts]);
    scenario.shards = 3;
    scenario.options.engine.mesh.inbox_messages_max = 2;
    scenario.commands = vec![(Duration::ZERO, 700), (Duration::from_millis(1), 1)];
    let report = run(&scenario);
    assert!(report.totals.inboxes_full > 0, "{}", report.totals);
    assert_eq!(report.totals.responses, 2);
}

#[test]
fn command_flood_does_not_delay_calls() {
    let acts =
        vec![slow(1, 5, CallEnd::Result), echo(2), LineAction::AwaitResponses, LineAction::Close];
    let mut scenario = scenario(options(), vec![acts]);
    scenario.commands = vec![(Duration::ZERO, 1_500), (Duration::from_millis(1), 1_500)];
    let report = run(&scenario);
    assert_eq!(report.totals.responses, 2);
    assert_near(report.client_ends[0], Duration::from_millis(5));
}

#[test]
fn call_waits_for_client_past_request_timeout() {
    let mut options = options();
    options.limits.client_request_timeout = Duration::from_mins(1);
    let thinks = Duration::from_secs(20);
    assert!(thinks > options.limits.request_timeout && thinks > options.tcp.idle_timeout);
    let mut acts = handshake().to_vec();
    acts.push(call_ask(1, ExpectedResponse::Echo("2 roots".into()), Revision::LATEST_LEGACY));
    acts.extend([
        LineAction::Wait(thinks),
        respond_with_roots(2),
        LineAction::AwaitResponses,
        LineAction::Close,
    ]);
    let report = run(&scenario(options, vec![acts]));
    assert_eq!(
        (
            report.totals.responses,
            report.totals.client_requests,
            report.totals.client_requests_cancelled
        ),
        (2, 1, 0)
    );
    assert_near(report.client_ends[0], thinks);
}

#[test]
fn client_request_timeout_cancels_it_and_call_continues() {
    let options = options();
    let question_max = options.limits.client_request_timeout;
    let mut acts = handshake().to_vec();
    acts.push(call_ask(1, ExpectedResponse::ToolError, Revision::LATEST_LEGACY));
    // The late response is ignored.
    acts.extend([
        LineAction::AwaitResponses,
        respond_with_roots(1),
        echo(2),
        LineAction::AwaitResponses,
        LineAction::Close,
    ]);
    let report = run(&scenario(options, vec![acts]));
    assert_eq!(
        (
            report.totals.responses,
            report.totals.client_requests,
            report.totals.client_requests_cancelled
        ),
        (3, 1, 1)
    );
    assert_near(report.client_ends[0], question_max);
}

#[test]
fn clients_vanishing_before_their_response_leave_nothing() {
    for vanishes in [LineAction::Reset, LineAction::Close] {
        let legacy = call_ask(1, ExpectedResponse::ToolError, Revision::LATEST_LEGACY);
        let mut asked = handshake().to_vec();
        asked.extend([legacy, LineAction::Wait(Duration::from_millis(10)), vanishes.clone()]);
        let mut at_once = handshake().to_vec();
        at_once.extend([
            call_ask(1, ExpectedResponse::ToolError, Revision::LATEST_LEGACY),
            vanishes.clone(),
        ]);
        let between = vec![
            call_ask(1, ExpectedResponse::InputRequired, Revision::LATEST),
            LineAction::AwaitResponses,
            vanishes,
        ];
        let stays = vec![
            echo(1),
            LineAction::Wait(Duration::from_millis(20)),
            echo(2),
            LineAction::AwaitResponses,
        ];
        let report = run(&scenario(options(), vec![asked, at_once, between, stays]));
        assert!(report.totals.client_requests >= 1, "{:?}", report.totals);
    }
}

#[test]
fn drain_does_not_wait_for_client_requests() {
    let mut options = options();
    options.limits.client_request_timeout = Duration::from_mins(1);
    let mut acts = handshake().to_vec();
    acts.extend([
        call_ask(1, ExpectedResponse::ToolError, Revision::LATEST_LEGACY),
        LineAction::AwaitClose,
    ]);
    let mut scenario = scenario(options, vec![acts]);
    scenario.drain_at = Some(Duration::from_millis(20));
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.client_requests_cancelled), (2, 1));
    assert_near(report.drained_at, Duration::from_millis(20));
}
