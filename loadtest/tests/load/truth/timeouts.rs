//! Answers that are lost or late: each fails its own request, and nothing else.

use corelane_load::target::Transport;

use super::server::ServerCounts;
use super::{Run, ServerModel, run};

const TRANSPORTS: [Transport; 4] =
    [Transport::Tcp, Transport::Http, Transport::WebSocket, Transport::Stdio];
/// A run of 200 calls, which fails if more than 3 % of them do.
const FLAGS: [&str; 7] = [
    "--rate=200",
    "--connections=8",
    "--warm-up=0s",
    "--duration=1s",
    "--timeout=300ms",
    "--era=legacy",
    "--errors-max=0.03",
];

/// Returns a server that is never busy, and loses 2 % of the calls.
fn losing_server(transport: Transport) -> ServerModel {
    ServerModel { transport, workers: 100, lost_each: Some(49), ..ServerModel::default() }
}

#[test]
fn lost_answer_fails_its_request_only() {
    for transport in TRANSPORTS {
        let Run { result, server, ended } = run(losing_server(transport), &FLAGS);
        let totals = &result.totals;
        assert_eq!(ended.status, 0, "{transport:?}: {}", ended.stdout);
        assert_eq!((totals.due, totals.answered, server.arrived()), (200, 196, 200));
        assert_eq!(totals.failures, [("timeout".to_owned(), 4)].into_iter().collect());
        assert_eq!((totals.unsolicited, totals.late, totals.lost), (0, 0, 0), "{transport:?}");
        assert_eq!(result.failure_examples["timeout"], "no answer within 300ms");
        assert_eq!(result.failed.count, 4, "{transport:?}");
        assert!(result.failed.p50_us >= Some(300_000.0), "{:?}", result.failed);
        assert!(result.failed.max_us < Some(2_000_000.0), "{:?}", result.failed);
        assert!(result.response.max_us < result.failed.p50_us, "{transport:?}");
        let http = transport == Transport::Http;
        let counts = ServerCounts {
            // One of them lists the tools. Over HTTP a connection whose answer is lost is opened
            // again.
            connections: if http { 13 } else { 9 },
            handshakes: 9,
            in_session: if http { 200 } else { 0 },
            cancelled: if http { 0 } else { 4 },
        };
        assert_eq!(counts, server.counts(), "{transport:?}: {}", ended.stdout);
        assert_eq!((totals.opened, result.connections.opened), (8, 8), "{transport:?}");
    }
}

#[test]
fn late_answer_is_counted_apart() {
    for transport in [Transport::Tcp, Transport::WebSocket, Transport::Stdio] {
        let model = ServerModel { answers_cancelled: true, ..losing_server(transport) };
        let Run { result, ended, .. } = run(model, &FLAGS);
        let totals = &result.totals;
        assert_eq!(totals.failures, [("timeout".to_owned(), 4)].into_iter().collect());
        assert_eq!((totals.answered, totals.unsolicited), (196, 0));
        // The run does not wait for the last one.
        assert!((3..=4).contains(&totals.late), "{transport:?}: {}", ended.stdout);
        let late = format!(" · unsolicited 0 · late {}\n", totals.late);
        assert!(ended.stdout.contains(&late), "{}", ended.stdout);
    }
}

#[test]
fn lost_handshake_is_tried_again() {
    for transport in [Transport::Tcp, Transport::Http, Transport::WebSocket] {
        let model = ServerModel { lost_handshakes_each: Some(5), ..losing_server(transport) };
        let Run { result, ended, .. } = run(model, &FLAGS);
        let lost = result.connections.failures.get("timeout");
        assert_eq!((result.totals.opened, lost), (8, Some(&2)), "{}", ended.stdout);
        assert!(result.totals.connect_s < 10.0, "{}", result.totals.connect_s);
    }
}
