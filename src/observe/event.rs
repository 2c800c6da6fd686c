//! Everything worth telling, as one enum.
//!
//! What it keeps true: labels come from small enums, numbers and addresses; free text appears
//! only in events of the start and of files that the operator named, where it is the kernel's, the
//! operator's or our own. Payloads, arguments, names chosen by peers and secrets have no field to
//! travel in. Events leave through `tracing`: the command line writes them to standard error, a
//! host program does with them what it likes.
//!
//! The lines that other programs wait for (`listening tcp 127.0.0.1:8888`) are events too, under
//! the target [`START`], which a log level does not silence.

use std::net::SocketAddr;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::base::time::Moment;
use crate::observe::counters::Counters;
use crate::observe::label::{CloseReason, RefusalReason, Transport};
use crate::observe::throttle::Throttle;

/// The `tracing` target of the lines at start: their message is the whole line.
pub const START: &str = "corelane::start";

/// Something that happened, with who and why.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The kernel did not accept a connection; accepting goes on.
    AcceptFailed {
        /// Which shard.
        shard: u16,
        /// The door.
        transport: Transport,
        /// The kernel's reason.
        error: std::io::ErrorKind,
    },
    /// A connection is over.
    ConnectionClosed {
        /// Which shard.
        shard: u16,
        /// The door it came through.
        transport: Transport,
        /// Why.
        reason: CloseReason,
    },
    /// A connection was turned away.
    ConnectionRefused {
        /// Which shard.
        shard: u16,
        /// The door.
        transport: Transport,
        /// Why.
        reason: RefusalReason,
        /// Who, where the kernel told.
        peer: Option<SocketAddr>,
    },
    /// A look at the counters, at debug level.
    Counted {
        /// Those of one shard or of all.
        counters: &'a Counters,
    },
    /// Draining is over.
    DrainFinished {
        /// How long it took.
        took: Duration,
        /// Requests that did not end in time and were cut.
        requests_cut: u64,
    },
    /// No new connection is accepted; what is in flight may finish.
    DrainStarted {
        /// What asked for it: `SIGTERM`, `SIGINT`, `end of input`.
        cause: &'static str,
        /// Connections open.
        connections: u64,
        /// How long they have.
        deadline: Duration,
    },
    /// A file or a folder that the operator named is not offered as it should be.
    FileDoubted {
        /// Where it is, what is wrong and what to do.
        doubt: &'a str,
    },
    /// A handler panicked; its caller got an internal error, everything else goes on.
    HandlerPanicked {
        /// Which shard.
        shard: u16,
        /// The tool, by the name in the catalog.
        tool: &'a str,
    },
    /// A line was not UTF-8 and was skipped (seed 001 section 1).
    InvalidUtf8Skipped {
        /// Which shard.
        shard: u16,
        /// Where it came from.
        transport: Transport,
        /// Its length.
        bytes: usize,
    },
    /// A letter found its box full.
    LetterRefused {
        /// The sending shard.
        from: u16,
        /// The receiving shard.
        to: u16,
    },
    /// A listener is ready. The line that others wait for.
    Listening {
        /// The door.
        transport: Transport,
        /// Where.
        address: SocketAddr,
        /// At which path of that, where the door has several; empty where it has not.
        path: &'a str,
    },
    /// A message was longer than allowed.
    MessageRefused {
        /// Which shard.
        shard: u16,
        /// Where it came from.
        transport: Transport,
        /// The limit that it passed.
        bytes_max: usize,
    },
    /// An option is odd and not wrong; the server starts all the same.
    OptionDoubted {
        /// Where it is, what is odd and what to do.
        doubt: &'a str,
    },
    /// A new configuration was read and its limits were taken.
    Reloaded,
    /// A new configuration has this problem and was not taken: the one before stays.
    ReloadRefused {
        /// Where it is, what is wrong and what to do.
        problem: &'a str,
    },
    /// A ring opened.
    RingGranted {
        /// Which shard.
        shard: u16,
        /// The backend and the features it was granted.
        ring: &'a str,
    },
    /// A ring did not open and another backend takes its place, or nothing does.
    RingRefused {
        /// The backend that was refused.
        ring: &'a str,
        /// What the kernel said.
        cause: &'a str,
        /// What to do about it.
        remedy: &'a str,
        /// The backend that takes over.
        fallback: Option<&'a str>,
    },
    /// A shard ended by a fault of ours.
    ShardFailed {
        /// Which shard.
        shard: u16,
        /// What it said.
        cause: &'a str,
    },
    /// A shard's thread runs.
    ShardStarted {
        /// Which shard.
        shard: u16,
        /// The cpu it is pinned to, where it is.
        cpu: Option<u16>,
        /// The memory node of that cpu, where the kernel tells.
        node: Option<u16>,
        /// Another shard's cpu on the same core, where there is one: they share its units.
        sibling: Option<u16>,
    },
    /// The server is about to listen. The first line at start.
    Started {
        /// The ring's backend.
        ring: &'a str,
        /// What runs the shards.
        executor: &'a str,
        /// How many shards.
        shards: u16,
        /// Their cpus, written as a list.
        cpus: &'a str,
        /// Connections that can be open at once.
        connections_max: u64,
        /// What bounds them: an option's key, or a limit of the machine.
        bound: &'a str,
    },
}

impl Event<'_> {
    /// Tells it. For events of the process; what a peer can cause goes through
    /// [`Event::emit_within`].
    pub fn emit(&self) {
        self.tell(0);
    }

    /// Tells it where `throttle` still allows one at `now`.
    pub fn emit_within(&self, throttle: &mut Throttle, now: Moment) {
        if let Some(withheld) = throttle.admit(now) {
            self.tell(withheld);
        }
    }

    fn tell(&self, withheld: u64) {
        match *self {
            Self::AcceptFailed { shard, transport, error } => {
                warn!(shard, %transport, %error, withheld, "accept failed");
            }
            Self::ConnectionClosed { shard, transport, reason } => {
                debug!(shard, %transport, %reason, withheld, "connection closed");
            }
            Self::ConnectionRefused { shard, transport, reason, peer } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, %transport, %reason, peer, withheld, "connection refused");
            }
            Self::Counted { counters } => debug!(%counters, "counted"),
            Self::DrainFinished { took, requests_cut } => {
                info!(?took, requests_cut, "drain finished");
            }
            Self::DrainStarted { cause, connections, deadline } => {
                info!(cause, connections, ?deadline, "drain started");
            }
            Self::HandlerPanicked { shard, tool } => {
                error!(shard, tool, withheld, "handler panicked");
            }
            Self::InvalidUtf8Skipped { shard, transport, bytes } => {
                warn!(shard, %transport, bytes, withheld, "invalid UTF-8 skipped");
            }
            Self::LetterRefused { from, to } => warn!(from, to, withheld, "letter refused"),
            Self::MessageRefused { shard, transport, bytes_max } => {
                warn!(shard, %transport, bytes_max, withheld, "message refused: too long");
            }
            Self::FileDoubted { doubt } | Self::OptionDoubted { doubt } => warn!("{doubt}"),
            Self::Reloaded => info!("configuration reloaded"),
            Self::ReloadRefused { problem } => error!("configuration not reloaded: {problem}"),
            Self::RingGranted { shard, ring } => info!(shard, ring, "ring granted"),
            Self::RingRefused { ring, cause, remedy, fallback: Some(fallback) } => {
                warn!(ring, cause, remedy, fallback, "ring refused");
            }
            Self::RingRefused { ring, cause, remedy, fallback: None } => {
                error!(ring, cause, remedy, "ring refused");
            }
            Self::ShardFailed { shard, cause } => error!(shard, cause, "shard failed"),
            Self::ShardStarted { shard, cpu, node, sibling } => {
                info!(shard, cpu, node, sibling, "shard started");
            }
            Self::Listening { .. } | Self::Started { .. } => self.tell_at_start(),
        }
    }

    /// The lines that other programs may read: changed only on purpose.
    fn tell_at_start(&self) {
        match *self {
            Self::Started { ring, executor, shards, cpus, connections_max, bound } => info!(
                target: START,
                "corelane {} ring {ring} executor {executor} shards {shards} cpus {cpus} \
                 connections {connections_max} (bound by {bound})",
                env!("CARGO_PKG_VERSION"),
            ),
            Self::Listening { transport, address, path } => {
                info!(target: START, "listening {transport} {address}{path}");
            }
            _ => unreachable!("the other events are told by their fields"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use crossbeam::channel::{Sender, unbounded};

    use super::*;

    /// Where a test's subscriber writes to.
    #[derive(Clone)]
    struct Lines(Sender<Vec<u8>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written while `act` runs.
    fn written(act: impl FnOnce()) -> String {
        let (sender, receiver) = unbounded();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || Lines(sender.clone()))
            .finish();
        tracing::subscriber::with_default(subscriber, act);
        let bytes: Vec<u8> = receiver.try_iter().flatten().collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_lines_at_start_are_word_for_word_what_others_wait_for() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8888));
        let listening = Event::Listening { transport: Transport::Tcp, address, path: "" };
        let line = written(|| listening.emit());
        assert_eq!(line, " INFO corelane::start: listening tcp 127.0.0.1:8888\n");
        let (transport, path) = (Transport::WebSocket, "/mcp/ws");
        let line = written(|| Event::Listening { transport, address, path }.emit());
        assert!(line.ends_with(" listening websocket 127.0.0.1:8888/mcp/ws\n"), "{line}");
        let started = Event::Started {
            ring: "io_uring",
            executor: "native",
            shards: 2,
            cpus: "0,1",
            connections_max: 1024,
            bound: "tcp.connections_max",
        };
        assert!(written(|| started.emit()).ends_with(
            "ring io_uring executor native shards 2 cpus 0,1 connections 1024 \
             (bound by tcp.connections_max)\n"
        ));
    }

    #[test]
    fn a_flood_of_refusals_is_written_a_bounded_number_of_times() {
        let refused = Event::ConnectionRefused {
            shard: 1,
            transport: Transport::Tcp,
            reason: RefusalReason::Full,
            peer: None,
        };
        let mut throttle = Throttle::default();
        let lines = written(|| {
            for turn in 0..2000 {
                refused.emit_within(&mut throttle, Moment::from_milliseconds(turn));
            }
        });
        assert_eq!(lines.lines().count(), 2 * Throttle::EVENTS_MAX as usize);
        assert!(
            lines.contains("connection refused shard=1 transport=tcp reason=full withheld=990")
        );
    }
}
