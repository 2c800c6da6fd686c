//! Honest clients: one for each transport and each table of the server that clients share.
//!
//! A client sends one call at a time, at a fixed rate, over a connection that stays open. After a
//! failure it opens a new connection with its next call.

use std::io;
use std::time::Duration;

use corelane_bench_support::frames;
use corelane_bench_support::requests::{Era, FIRST_ID, MESSAGE_BYTES, RequestTemplate};

use crate::conversation::{Addresses, Conversation, Framing};
use crate::schedule::{PhaseCalls, Schedule};

/// Message of [`Kind::LargeMessage`].
const LARGE_BYTES: usize = 32 << 10;

/// What an honest client does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    TcpLegacy,
    TcpModern,
    HttpModern,
    HttpSession,
    WebSocket,
    /// Each call over a new connection, TCP, HTTP and WebSocket in turn.
    NewConnection,
    LargeMessage,
    BlockingTool,
    File,
    Task,
    /// A legacy HTTP session with a call now and then.
    IdleSession,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::TcpLegacy,
        Self::TcpModern,
        Self::HttpModern,
        Self::HttpSession,
        Self::WebSocket,
        Self::NewConnection,
        Self::LargeMessage,
        Self::BlockingTool,
        Self::File,
        Self::Task,
        Self::IdleSession,
    ];

    /// Returns its name in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TcpLegacy => "TCP, legacy",
            Self::TcpModern => "TCP, modern",
            Self::HttpModern => "HTTP, modern",
            Self::HttpSession => "HTTP session",
            Self::WebSocket => "WebSocket",
            Self::NewConnection => "new connection",
            Self::LargeMessage => "message of 32 KiB",
            Self::BlockingTool => "blocking tool",
            Self::File => "file",
            Self::Task => "task",
            Self::IdleSession => "idle session",
        }
    }

    /// Whether its calls are small inline calls, whose latencies are comparable.
    pub(crate) const fn is_inline(self) -> bool {
        matches!(
            self,
            Self::TcpLegacy
                | Self::TcpModern
                | Self::HttpModern
                | Self::HttpSession
                | Self::WebSocket
                | Self::NewConnection
        )
    }

    /// Returns the time between two calls.
    const fn interval(self) -> Duration {
        Duration::from_millis(match self {
            Self::LargeMessage | Self::BlockingTool | Self::File => 50,
            Self::Task => 100,
            Self::IdleSession => 1_000,
            _ => 20,
        })
    }

    const fn framing(self) -> Framing {
        match self {
            Self::HttpModern | Self::HttpSession | Self::IdleSession => Framing::Http,
            Self::WebSocket => Framing::Frames,
            _ => Framing::Lines,
        }
    }

    const fn era(self) -> Era {
        match self {
            Self::TcpModern | Self::HttpModern | Self::LargeMessage => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Returns its request.
    fn request(self, framing: Framing, addresses: Addresses, file: &str) -> RequestTemplate {
        let call = |params: &str| {
            RequestTemplate::new(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":{params}}}\n"
            ))
        };
        match self {
            Self::BlockingTool => {
                call(r#""tools/call","params":{"name":"hash","arguments":{"bytes":1000}}"#)
            }
            Self::File => call(&format!(r#""resources/read","params":{{"uri":"{file}"}}"#)),
            Self::Task => call(concat!(
                r#""tools/call","params":{"name":"slow_compute","#,
                r#""arguments":{"seconds":0},"task":{"ttl":1000}}"#
            )),
            Self::LargeMessage => RequestTemplate::echo(self.era(), LARGE_BYTES),
            _ => match framing {
                Framing::Lines => RequestTemplate::echo(self.era(), MESSAGE_BYTES),
                Framing::Http => {
                    RequestTemplate::echo_post(self.era(), MESSAGE_BYTES, addresses.http)
                }
                Framing::Frames => frames::echo_frame(self.era(), MESSAGE_BYTES),
            },
        }
    }

    /// Whether the response is the message of the request.
    const fn is_echo(self) -> bool {
        !matches!(self, Self::BlockingTool | Self::File | Self::Task)
    }
}

/// An honest client.
#[derive(Debug)]
pub(crate) struct HonestClient<'a> {
    kind: Kind,
    addresses: Addresses,
    /// URI of a small file.
    file: &'a str,
    conversation: Option<(Framing, Conversation)>,
    calls: u64,
}

impl<'a> HonestClient<'a> {
    /// Creates a client without a connection.
    pub(crate) const fn new(kind: Kind, addresses: Addresses, file: &'a str) -> Self {
        Self { kind, addresses, file, conversation: None, calls: 0 }
    }

    /// Calls until the end of `schedule`.
    pub(crate) fn run(mut self, schedule: &Schedule) -> io::Result<PhaseCalls> {
        let mut calls = PhaseCalls::none().map_err(io::Error::other)?;
        let interval = self.kind.interval();
        let mut due = schedule.now();
        while let Some(phase) = schedule.phase_at(due) {
            schedule.wait_until(due);
            let result = self.call();
            let latency = schedule.now().since(due);
            due = due.after(interval);
            if result.is_err() {
                self.conversation = None;
                // The calls that were due meanwhile would fail for the same reason.
                due = due.max(schedule.now().after(interval));
            }
            calls.record(phase, latency, result)?;
        }
        Ok(calls)
    }

    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        let (framing, mut conversation) = match self.conversation.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let id = FIRST_ID + self.calls;
        let template = self.kind.request(framing, self.addresses, self.file);
        let mut request = template.repeat(1);
        template.set_id(&mut request, 0, id);
        if let Some(session) = conversation.session() {
            template.set_session(&mut request, session);
        }
        let response = conversation.exchange(&request)?;
        if self.kind.is_echo() {
            template.check(&response, id)?;
        } else {
            check_result(&response)?;
        }
        if self.kind != Kind::NewConnection {
            self.conversation = Some((framing, conversation));
        }
        Ok(())
    }

    fn open(&self) -> io::Result<(Framing, Conversation)> {
        let framing = match (self.kind, self.calls % 3) {
            (Kind::NewConnection, 1) => Framing::Http,
            (Kind::NewConnection, 2) => Framing::Frames,
            _ => self.kind.framing(),
        };
        let has_session = self.kind.era() == Era::Legacy;
        Ok((framing, Conversation::open(self.addresses, framing, has_session)?))
    }
}

/// Returns an error unless `response` has a result that is no tool error.
fn check_result(response: &[u8]) -> io::Result<()> {
    let value: serde_json::Value = serde_json::from_slice(response)?;
    if value.get("result").is_some_and(|result| result["isError"] != true) {
        return Ok(());
    }
    Err(io::Error::other(format!("wrong response: {value}")))
}
