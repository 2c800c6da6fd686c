//! Servers that end, say nothing, or stop for a while.

use std::time::Duration;

use corelane_load::generator;
use corelane_load::measure::outcome::Failure;
use corelane_load::plan::{PhasePlan, Plan, Span};
use corelane_load::target::Transport;
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::stall::stall;
use crate::stranger::{Asked, Deed, Stranger, right, said};
use crate::{SOON, TRANSPORTS, assert_all, run};

/// Asserts that nothing was answered: what was sent timed out, and the rest was not sent.
fn assert_silent(
    transport: Transport,
    name: &str,
    answer: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static,
) {
    let server = Stranger::new(transport, move |asked: &Asked<'_>| Deed::Say(answer(asked.call)));
    let totals = run(&server, Some(SOON)).totals;
    assert_eq!(totals.answered, 0, "{transport:?}: {name}");
    let (timeout, unsent) = (Failure::Timeout.name(), Failure::Unsent.name());
    assert_eq!(totals.failures.get(timeout), Some(&totals.sent), "{transport:?}: {name}");
    let kinds: Vec<&str> = totals.failures.keys().map(String::as_str).collect();
    assert!(kinds.iter().all(|kind| [timeout, unsent].contains(kind)), "{name}: {kinds:?}");
}

#[test]
fn an_end_instead_of_an_answer_is_counted_as_one() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Closed, "at once", |_| Deed::Leave(Vec::new()));
        assert_all(transport, Failure::Closed, "in the middle", move |call| {
            let mut bytes = said(transport, &right(call));
            bytes.truncate(bytes.len() / 2);
            Deed::Leave(bytes)
        });
    }
}

#[test]
fn silence_times_out_on_every_road() {
    for transport in TRANSPORTS {
        assert_silent(transport, "nothing", |_| Vec::new());
        assert_silent(transport, "half of it", move |call| {
            let mut bytes = said(transport, &right(call));
            bytes.truncate(bytes.len() / 2);
            bytes
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
                _ => said(transport, notice).repeat(100),
            }
        });
    }
    assert_silent(Transport::Http, "interim responses", |_| {
        b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)
    });
}

/// How long each connection stops, once.
const STALL: Duration = Duration::from_millis(300);
/// Connections, each of which stops once, at the same request.
const CONNECTIONS: u64 = 4;
/// Requests of a run of a second.
const REQUESTS: u64 = 1_000;

/// How many latencies are this long or longer.
fn long(histogram: &Histogram<u64>, least: Duration) -> u64 {
    let least = u64::try_from(least.as_nanos()).unwrap();
    histogram
        .iter_recorded()
        .filter(|value| value.value_iterated_to() >= least)
        .map(|value| value.count_at_value())
        .sum()
}

#[test]
fn a_stall_shows_in_what_users_wait_and_hardly_in_what_single_requests_take() {
    for transport in TRANSPORTS {
        let server = Stranger::new(transport, move |asked: &Asked<'_>| {
            if asked.number == 100 {
                stall(STALL);
            }
            Deed::Say(said(transport, &right(asked.call)))
        });
        let plan = Plan {
            connections: usize::try_from(CONNECTIONS).unwrap(),
            warm_up: Span::seconds(0),
            phases: vec![PhasePlan::constant(1_000.0, Span::seconds(1))],
            ..Plan::new(server.target())
        };
        let finding = generator::run(&plan.job().unwrap(), (1, &[]), None, |_, _| {}).unwrap();
        let total = &finding.total;
        let counts = (total.due, total.sent, total.outcomes.answered, total.outcomes.unasked);
        assert_eq!(counts, (REQUESTS, REQUESTS, REQUESTS, 0), "{transport:?}");
        let (response, service) = (total.latencies.response(), total.latencies.service());
        assert_eq!((response.len(), service.len()), (REQUESTS, REQUESTS));
        // All connections stop together: what is due in the first 200 of the 300 ms, two hundred of
        // a thousand requests, waits for 100 ms or longer. Of single requests only one on each
        // connection did, and whatever the machine of the test has added to both.
        let slow = Duration::from_millis(100);
        let (users, requests) = (long(response, slow), long(service, slow));
        assert!(users >= 150, "{transport:?}: {users} of {REQUESTS}");
        assert!(requests >= CONNECTIONS && requests * 3 < users, "{requests} and {users}");
        let p99 = Duration::from_nanos(response.value_at_percentile(99.0));
        assert!(p99 >= STALL * 2 / 3, "{transport:?}: {p99:?}");
    }
}
