//! Servers that close, stay silent, or stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corelane_load::generator;
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::result::{Manifest, RunResult, RunStatus};
use corelane_load::target::{Era, Transport};
use corelane_test_support::stall::stall;
use hdrhistogram::Histogram;

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, echo_response, framed,
};
use crate::hostile::{RESPONSE_TIMEOUT, TRANSPORTS, assert_all, plan, run};

/// Asserts that all sent requests timed out, and the others were not sent.
fn assert_silent(
    transport: Transport,
    name: &str,
    answer: impl Fn(&ReceivedRequest<'_>) -> Vec<u8> + Send + Sync + 'static,
) {
    let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
        Reaction::Send(answer(request))
    });
    let totals = run(&server, Some(RESPONSE_TIMEOUT)).totals;
    assert_eq!(totals.answered, 0, "{transport:?}: {name}");
    let (timeout, unsent) = (Failure::Timeout.name(), Failure::Unsent.name());
    let timeouts = totals.failures.get(timeout).copied().unwrap_or_default();
    assert_eq!(timeouts, totals.sent, "{transport:?}: {name}");
    let kinds: Vec<&str> = totals.failures.keys().map(String::as_str).collect();
    assert!(kinds.iter().all(|kind| [timeout, unsent].contains(kind)), "{name}: {kinds:?}");
}

#[test]
fn closed_instead_of_response_counts_as_closed() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Closed, "at once", |_| Reaction::SendAndClose(Vec::new()));
        assert_all(transport, Failure::Closed, "in the middle", move |call| {
            let mut bytes = framed(transport, &echo_response(call));
            bytes.truncate(bytes.len() / 2);
            Reaction::SendAndClose(bytes)
        });
    }
}

#[test]
fn counted_requests_end_without_answers() {
    for transport in TRANSPORTS {
        let received = AtomicU64::new(0);
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            if received.fetch_add(1, Ordering::Relaxed) >= 10 {
                return Reaction::Send(Vec::new());
            }
            Reaction::Send(framed(transport, &echo_response(request.call)))
        });
        let mut plan = plan(&server, Era::Modern);
        (plan.closed, plan.requests) = (true, Some(16));
        plan.phases[0].duration = HumanDuration::from(Duration::from_hours(1));
        (plan.response_timeout, plan.connect_timeout) =
            (HumanDuration::from(RESPONSE_TIMEOUT), HumanDuration::from(RESPONSE_TIMEOUT));
        let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
        let totals = RunResult::new(plan, Manifest::default(), &finding.unwrap()).totals;
        assert_eq!((totals.due, totals.sent, totals.answered), (16, 16, 10), "{transport:?}");
        assert_eq!(totals.failures, [("timeout".to_owned(), 6)].into_iter().collect());
    }
}

#[test]
fn silent_server_times_out_over_all_transports() {
    for transport in TRANSPORTS {
        assert_silent(transport, "nothing", |_| Vec::new());
        assert_silent(transport, "half of the first", move |request| {
            let mut bytes = framed(transport, &echo_response(request.call));
            bytes.truncate(bytes.len() / 2);
            if request.number == 0 { bytes } else { Vec::new() }
        });
        assert_silent(transport, "notices", move |_| {
            let notice = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;
            let stream = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                                  Transfer-Encoding: chunked\r\n\r\n{:x}\r\ndata: {notice}\n\n\r\n",
                notice.len() + 8
            );
            match transport {
                Transport::Http => stream.into_bytes(),
                _ => framed(transport, notice).repeat(100),
            }
        });
    }
    assert_silent(Transport::Http, "interim responses", |_| {
        b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)
    });
}

/// Duration of the stall of each connection.
const STALL: Duration = Duration::from_millis(300);
/// Connections, each of which stalls once, at the same request.
const CONNECTIONS: u64 = 4;
/// Requests of a run of a second.
const REQUESTS: u64 = 1_000;

/// Returns the number of latencies of at least `least`.
fn count_at_least(histogram: &Histogram<u64>, least: Duration) -> u64 {
    let least = u64::try_from(least.as_nanos()).unwrap();
    histogram
        .iter_recorded()
        .filter(|value| value.value_iterated_to() >= least)
        .map(|value| value.count_at_value())
        .sum()
}

#[test]
fn stall_shows_in_response_time_not_service_time() {
    for transport in TRANSPORTS {
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            if request.number == 100 {
                stall(STALL);
            }
            Reaction::Send(framed(transport, &echo_response(request.call)))
        });
        let plan = Plan {
            connections: usize::try_from(CONNECTIONS).unwrap(),
            warm_up: HumanDuration::from_secs(0),
            phases: vec![PhasePlan::constant(1_000.0, HumanDuration::from_secs(1))],
            ..Plan::new(server.target())
        };
        let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap();
        let total = &finding.total;
        let counts = (total.due, total.sent, total.outcomes.answered, total.outcomes.unsolicited);
        assert_eq!(counts, (REQUESTS, REQUESTS, REQUESTS, 0), "{transport:?}");
        let (response, service) = (total.latencies.response(), total.latencies.service());
        assert_eq!((response.len(), service.len()), (REQUESTS, REQUESTS));
        // All connections stall together: the 200 requests due in the first 200 of the 300 ms wait
        // 100 ms or longer. By service time only one request on each connection does (coordinated
        // omission), plus what the test machine adds to both.
        let slow = Duration::from_millis(100);
        let (users, requests) = (count_at_least(response, slow), count_at_least(service, slow));
        assert!(users >= 150, "{transport:?}: {users} of {REQUESTS}");
        assert!(requests >= CONNECTIONS && requests * 3 < users, "{requests} and {users}");
        let p99 = Duration::from_nanos(response.value_at_percentile(99.0));
        assert!(p99 >= STALL * 2 / 3, "{transport:?}: {p99:?}");
    }
}

#[test]
fn warm_up_backlog_is_not_sent_afterwards() {
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let server = ScriptedServer::new(Transport::Tcp, move |request: &ReceivedRequest<'_>| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            stall(STALL);
        }
        Reaction::Send(framed(Transport::Tcp, &echo_response(request.call)))
    });
    let plan = Plan {
        connections: 1,
        // 250 requests are due while the first one is stalled.
        warm_up: HumanDuration::from(Duration::from_millis(250)),
        phases: vec![PhasePlan::constant(1_000.0, HumanDuration::from(STALL))],
        ..Plan::new(server.target())
    };
    let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap();
    let total = &finding.total;
    assert_eq!((total.due, total.outcomes.answered), (300, 300));
    let received = received.load(Ordering::Relaxed);
    assert!((300..350).contains(&received), "{received}");
}

#[test]
fn rate_above_capacity_is_saturation() {
    // One connection answers at most 200 requests a second.
    let server = ScriptedServer::new(Transport::Tcp, move |request: &ReceivedRequest<'_>| {
        stall(Duration::from_millis(5));
        Reaction::Send(framed(Transport::Tcp, &echo_response(request.call)))
    });
    let plan = Plan {
        connections: 1,
        warm_up: HumanDuration::from_secs(0),
        lag_max: Some(HumanDuration::from_secs(1)),
        phases: vec![PhasePlan::constant(400.0, HumanDuration::from(STALL))],
        ..Plan::new(server.target())
    };
    let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap();
    let result = RunResult::new(plan, Manifest::default(), &finding);
    // All requests are answered, but after the end of the schedule.
    assert_eq!((result.totals.due, result.totals.answered), (120, 120));
    assert!(result.totals.backlog >= 50, "{:?}", result.totals);
    let reasons = result.verdict.reason_texts();
    assert!(reasons.iter().any(|why| why.contains("400/s due, backlog +")), "{reasons:?}");
    assert_ne!(result.status(), RunStatus::Completed);
}
