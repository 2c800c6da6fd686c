//! Events and their log lines.

use std::io;

use crossbeam::channel::{Sender, unbounded};
use tracing_subscriber::fmt::format::FmtSpan;

use super::*;

/// A writer that sends what the test's subscriber writes to a channel.
#[derive(Clone)]
struct ChannelWriter(Sender<Vec<u8>>);

impl io::Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what is logged while `act` runs.
fn logged(act: impl FnOnce()) -> String {
    logged_at(Level::TRACE, act)
}

/// Returns what is logged up to a level while `act` runs, with the ends of spans.
pub(super) fn logged_at(level: Level, act: impl FnOnce()) -> String {
    let (sender, receiver) = unbounded();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_ansi(false)
        .with_max_level(level)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || ChannelWriter(sender.clone()))
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let bytes: Vec<u8> = receiver.try_iter().flatten().collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn start_lines_have_the_documented_text() {
    let address = SocketAddr::from(([127, 0, 0, 1], 8888));
    let listening = Event::Listening { listener: "tcp", address, path: "" };
    let line = logged(|| listening.emit());
    assert_eq!(line, " INFO corelane::start: listening tcp 127.0.0.1:8888\n");
    let (listener, path) = ("websocket", "/mcp/ws");
    let line = logged(|| Event::Listening { listener, address, path }.emit());
    assert!(line.ends_with(" listening websocket 127.0.0.1:8888/mcp/ws\n"), "{line}");
    let started = Event::Started {
        ring: "io_uring",
        executor: "native",
        shards: 2,
        cpus: "0,1",
        connections_max: 1024,
        bound: "tcp.connections_max",
    };
    assert!(logged(|| started.emit()).ends_with(
        "ring io_uring executor native shards 2 cpus 0,1 connections 1024 \
         (bound by tcp.connections_max)\n"
    ));
}

#[test]
fn refusal_flood_is_logged_bounded_times() {
    let refused = Event::ConnectionRefused {
        shard: 1,
        transport: Transport::Tcp,
        reason: RefusalReason::ConnectionLimit,
        peer: None,
    };
    let mut throttle = EventThrottle::default();
    let lines = logged(|| {
        for turn in 0..2000 {
            refused.emit_within(&mut throttle, Instant::from_milliseconds(turn));
        }
    });
    assert_eq!(lines.lines().count(), 2 * EventThrottle::EVENTS_MAX as usize);
    let line = "connection refused shard=1 transport=tcp reason=connection_limit suppressed=990";
    assert!(lines.contains(line), "{lines}");
}
