//! Counters of one shard.
//!
//! Invariants: every field only grows and belongs to one thread, without atomics or locks.
//! [`Counters::add`] merges shards; [`Counters::for_each`] describes each value once for display
//! and export.

use std::fmt;

/// Declares a group of counters: its fields, their sum and their names.
macro_rules! group {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct $name { $($(#[doc = $doc])+ pub $field: u64,)+ }

        impl $name {
            pub(super) fn add(&mut self, other: &Self) { $(self.$field += other.$field;)+ }

            pub(in crate::telemetry) fn each(
                &self,
                group: &'static str,
                visit: &mut impl FnMut(CounterValue),
            ) {
                $({
                    let (name, description) = (stringify!($field), concat!($($doc),+));
                    visit(CounterValue { group, name, description, value: self.$field });
                })+
            }
        }
    };
}

mod forwarded;
mod parity;
mod refusals;

pub use self::forwarded::ForwardedCounters;
pub use self::parity::{ChunkCounters, LatencyHistogram, ParityCounters, ParityRequestCounters};
pub use self::refusals::{AuthCounters, ErrorTable, InputErrorCounters, OverloadCounters};

group! {
    /// Counters of connections.
    ConnectionCounters {
        /// Connections accepted.
        accepted,
        /// Connections refused at the connection limit (error 1001).
        refused_limit,
        /// Connections refused because their address has its share (error 1001).
        refused_address_share,
        /// Connections refused because no descriptor is left for them (error 1001).
        refused_descriptors,
        /// Connections refused because their address opened too many lately (error 1002).
        refused_rate,
        /// Connections refused while draining.
        refused_draining,
        /// Accepts that failed in the kernel: no slot, no memory, or reset before the accept.
        accept_failed,
        /// Connections whose calls were cancelled at the end of their input because too many others
        /// waited for theirs (`tcp.half_close_timeout`).
        refused_half_closed,
        /// Connections closed, for any reason; also counted in one of the fields below.
        closed,
        /// Closed by the peer, in order.
        closed_by_peer,
        /// Closed by a socket error: reset, unreachable.
        closed_socket_error,
        /// Closed by the idle timeout.
        closed_idle_timeout,
        /// Closed because no complete message arrived in time.
        closed_message_timeout,
        /// Closed because the peer violated the protocol or exceeded a limit.
        closed_protocol_violation,
        /// Closed because the memory limit was reached.
        closed_memory_limit,
        /// Closed because the credential of the peer is valid no more.
        closed_invalid_credential,
        /// Connections closed because they were open for `connection_lifetime`.
        closed_lifetime,
        /// Closed while idle, because another connection got their place at a limit of connections.
        closed_evicted,
        /// Closed by a drain.
        closed_draining,
    }
}

group! {
    /// Counters of bytes and messages on the wire.
    TrafficCounters {
        /// Complete JSON texts received.
        messages_in,
        /// JSON texts sent to peers.
        messages_out,
        /// Bytes received, including framing.
        bytes_in,
        /// Bytes accepted by the kernel, including framing.
        bytes_out,
        /// Sends submitted to the kernel; `messages_out / sends` is the batch size.
        sends,
        /// Times reading from a connection stopped because its peer did not read.
        read_pauses,
    }
}

group! {
    /// Counters of messages by method or kind.
    RequestCounters {
        /// `initialize`.
        initialize,
        /// `server/discover`.
        discover,
        /// `ping`.
        ping,
        /// `tools/list`.
        tools_list,
        /// `tools/call`.
        tools_call,
        /// Every other method, known or not.
        other,
        /// Notifications, of any method.
        notifications,
        /// Responses from the peer.
        responses,
        /// Batches; the messages in them are counted above.
        batches,
        /// Requests cancelled, or whose connection closed before the response.
        cancelled,
        /// Requests cancelled at the end of a drain, with an error; also counted as cancelled.
        cut,
        /// Requests that exceeded their deadline.
        timed_out,
        /// Requests refused at the limit of requests in flight per connection.
        refused_in_flight,
        /// Calls, requests to clients and responses to tasks refused because they do not fit into
        /// the memory limit.
        refused_memory,
        /// Notifications dropped by a rate limit.
        notifications_dropped,
        /// Requests that a rate limit counted together because too many keys were in use.
        rate_overflows,
        /// Tool calls whose result has `isError`.
        tool_errors,
        /// Tool calls that created a task.
        tasks_created,
        /// Tasks refused at the limit per shard.
        tasks_refused_limit,
        /// Tasks refused at the limit per connection.
        tasks_refused_per_connection,
        /// Tasks refused because their address has its share.
        tasks_refused_address_share,
        /// Ended tasks removed for others after their owner had gone.
        tasks_evicted,
        /// Tasks that failed because their result did not fit.
        task_results_refused,
        /// Tasks cancelled, on request or because the server stopped.
        tasks_cancelled,
        /// Handlers that panicked; the caller received an internal error.
        handler_panics,
        /// Handlers that kept their shard busy for longer than `slow_handler_threshold`.
        slow_handlers,
        /// Progress notifications sent.
        progress_notifications,
        /// Log messages sent.
        log_notifications,
    }
}

group! {
    /// Counters of requests from the server to clients.
    ClientRequestCounters {
        /// Requests sent to clients (up to 2025-11-25).
        sent,
        /// Responses delivered to handlers, errors included.
        answered,
        /// Responses that did not match the request.
        malformed_responses,
        /// Client requests that exceeded their timeout.
        timed_out,
        /// Client requests cancelled because their handler ended.
        cancelled,
        /// Responses without an open request: unknown, answered before, or too late.
        unmatched_responses,
        /// Progress notifications for open client requests.
        progress_notifications,
        /// Progress notifications with an unknown token.
        unmatched_progress,
        /// Results that require input (2026-07-28, `input_required`).
        input_required,
        /// `requestState` values rejected: modified, bound to another request, expired or replayed.
        states_rejected,
    }
}

group! {
    /// Counters of notification streams.
    SubscriptionCounters {
        /// Streams opened: `subscriptions/listen`, and legacy sessions with subscriptions.
        opened,
        /// Streams closed, for any reason.
        closed,
        /// Streams refused because of a limit.
        refused,
        /// Notifications encoded, each once for all subscribers.
        notifications_encoded,
        /// Notifications written to streams and legacy sessions.
        notifications_sent,
        /// Notifications deferred because the peer was slow.
        notifications_deferred,
        /// Deferred notifications that were written later.
        deferred_sent,
    }
}

group! {
    /// Counters of legacy HTTP sessions and their resumable streams.
    SessionCounters {
        /// Sessions created.
        created,
        /// Sessions evicted for new ones; also counted in one of the next three.
        evicted,
        /// Evicted because its address had more than its share.
        evicted_address_share,
        /// Evicted because it had no message after `initialize`.
        evicted_unused,
        /// Evicted because it was idle longest.
        evicted_idle,
        /// Sessions refused because no session could be evicted (status 503).
        refused,
        /// Streams resumed by a client.
        streams_resumed,
        /// Resume attempts that failed: the stream was evicted or unknown.
        resumes_failed,
        /// Events dropped because the connection of their stream was closed and its replay buffer
        /// was full.
        events_dropped,
    }
}

group! {
    /// Counters of WebSocket connections: traffic, and close codes (RFC 6455, section 7.4).
    WebSocketCounters {
        /// Connections upgraded.
        upgraded,
        /// Requests for the WebSocket path refused in the handshake.
        handshakes_refused,
        /// Complete messages received, in one frame or several.
        messages_in,
        /// Messages sent, one frame each.
        messages_out,
        /// Payload bytes of messages received.
        bytes_in,
        /// Payload bytes of messages sent.
        bytes_out,
        /// Pings received; each was answered by a pong.
        pings_in,
        /// Pings sent to idle peers.
        pings_out,
        /// Pongs received, solicited or not.
        pongs_in,
        /// Closed by a close frame of the peer, with any code.
        closed_by_peer,
        /// Closed with 1000: idle timeout.
        closed_normal,
        /// Closed with 1001: the server is draining.
        closed_going_away,
        /// Closed with 1002: protocol violation or incomplete message.
        closed_protocol_error,
        /// Closed with 1003: binary message.
        closed_unsupported,
        /// Closed with 1007: text that is not UTF-8.
        closed_invalid_data,
        /// Closed with 1008: policy limit, or the token is valid no more.
        closed_policy,
        /// Closed with 1009: message too big.
        closed_too_big,
        /// Closed with 1011: the peer did not read, or the server was short of memory.
        closed_internal,
        /// Closed without a close frame: socket error, or the peer closed the TCP connection.
        closed_abnormally,
    }
}

group! {
    /// Counters of the shard itself.
    ShardCounters {
        /// Turns of the shard loop.
        turns,
        /// Messages sent to other threads.
        messages_sent,
        /// Messages received from other threads.
        messages_received,
        /// Messages refused because the inbox was full.
        messages_refused,
        /// Messages not sent because too many were queued for the same shard: task requests are
        /// refused, task subscriptions are not granted.
        messages_not_sent,
        /// Calls submitted to the blocking thread pool.
        blocking_calls,
        /// Blocking calls refused because the queue was full, waiting or new ones.
        blocking_refused,
        /// Times the receive buffers ran out.
        receive_buffers_exhausted,
        /// Times the completion queue overflowed.
        completions_overflowed,
        /// Events suppressed by the event throttle.
        events_suppressed,
    }
}

/// One value of [`Counters`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CounterValue {
    /// Group of the counter.
    pub group: &'static str,
    /// Name within the group.
    pub name: &'static str,
    /// What it counts, in sentences.
    pub description: &'static str,
    /// The number.
    pub value: u64,
}

/// All counters of one shard, or the sum of several.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections.
    pub connections: ConnectionCounters,
    /// Bytes and messages on the wire.
    pub traffic: TrafficCounters,
    /// Messages by method or kind.
    pub requests: RequestCounters,
    /// Requests from the server to clients.
    pub client_requests: ClientRequestCounters,
    /// Errors sent, by JSON-RPC code. HTTP responses with status 200 would hide them otherwise.
    pub errors: ErrorTable,
    /// Authentication and authorization.
    pub auth: AuthCounters,
    /// Overload protection.
    pub overload: OverloadCounters,
    /// Notification streams.
    pub subscriptions: SubscriptionCounters,
    /// Legacy HTTP sessions.
    pub sessions: SessionCounters,
    /// WebSocket connections.
    pub websockets: WebSocketCounters,
    /// Sessions of the parity dialect.
    pub parity: ParityCounters,
    /// What HTTP requests say of their clients.
    pub forwarded: ForwardedCounters,
    /// Input rejected below JSON-RPC.
    pub input_errors: InputErrorCounters,
    /// The shard itself.
    pub shard: ShardCounters,
}

impl Counters {
    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Self) {
        self.connections.add(&other.connections);
        self.traffic.add(&other.traffic);
        self.requests.add(&other.requests);
        self.client_requests.add(&other.client_requests);
        self.errors.add(&other.errors);
        self.auth.add(&other.auth);
        self.overload.add(&other.overload);
        self.subscriptions.add(&other.subscriptions);
        self.sessions.add(&other.sessions);
        self.websockets.add(&other.websockets);
        self.parity.add(&other.parity);
        self.forwarded.add(&other.forwarded);
        self.input_errors.add(&other.input_errors);
        self.shard.add(&other.shard);
    }

    /// Visits every value once, in a fixed order.
    pub fn for_each(&self, mut visit: impl FnMut(CounterValue)) {
        let visit = &mut visit;
        self.connections.each("connections", visit);
        let (group, name, description) = ("connections", "open", "Open connections.");
        visit(CounterValue { group, name, description, value: self.connections.open() });
        self.traffic.each("traffic", visit);
        self.requests.each("requests", visit);
        self.client_requests.each("client_requests", visit);
        let (group, name, description) = ("errors", "sent", "Errors sent.");
        visit(CounterValue { group, name, description, value: self.errors.total() });
        self.auth.each("auth", visit);
        self.overload.each("overload", visit);
        self.subscriptions.each("subscriptions", visit);
        self.sessions.each("sessions", visit);
        self.websockets.each("websockets", visit);
        self.parity.each(visit);
        self.forwarded.each("forwarded", visit);
        self.input_errors.each("input_errors", visit);
        self.shard.each("shard", visit);
    }
}

impl RequestCounters {
    /// Returns the requests that were not cancelled, of all methods.
    pub const fn served(&self) -> u64 {
        let Self { initialize, discover, ping, tools_list, tools_call, other, .. } = self;
        let requests = *initialize + *discover + *ping + *tools_list + *tools_call + *other;
        requests.saturating_sub(self.cancelled)
    }
}

impl ConnectionCounters {
    /// Returns the connections open now, computed as accepted minus closed.
    pub const fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// One line without zeros; with `{:#}` a table of one value per line including zeros.
impl fmt::Display for Counters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = formatter.alternate();
        let mut result = Ok(());
        let mut group_before = "";
        self.for_each(|CounterValue { group, name, value, .. }| {
            if result.is_err() || (value == 0 && !table) {
                return;
            }
            result = if table {
                writeln!(formatter, "{:<40}{value:>16}", format_args!("{group}.{name}").to_string())
            } else if group == group_before {
                write!(formatter, " {name}={value}")
            } else {
                let separator = if group_before.is_empty() { "" } else { " | " };
                write!(formatter, "{separator}{group} {name}={value}")
            };
            group_before = group;
        });
        result?;
        for (code, count) in self.errors.iter() {
            if table {
                writeln!(formatter, "errors.{code:<33}{count:>16}")?;
            } else {
                write!(formatter, " | error {code}={count}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_shards_add_up() {
        let mut one = Counters::default();
        one.connections.accepted = 3;
        one.traffic.bytes_in = 100;
        one.errors.count(-32601);
        let mut two = Counters::default();
        two.connections.accepted = 4;
        two.connections.closed = 2;
        two.shard.turns = 9;
        two.errors.count(-32601);
        two.errors.count(1001);
        one.add(&two);
        assert_eq!(one.connections.open(), 5);
        assert_eq!((one.traffic.bytes_in, one.shard.turns), (100, 9));
        assert_eq!((one.errors.count_of(-32601), one.errors.count_of(1001)), (2, 1));
        assert_eq!(one.errors.total(), 3);
    }

    #[test]
    fn counters_line_omits_zeros_and_table_does_not() {
        let mut counters = Counters::default();
        assert_eq!(counters.to_string(), "");
        counters.connections.accepted = 2;
        counters.requests.tools_call = 7;
        counters.errors.count(-32602);
        assert_eq!(
            counters.to_string(),
            "connections accepted=2 open=2 | requests tools_call=7 | errors sent=1 | error -32602=1"
        );
        let table = format!("{counters:#}");
        let has_zero = |line: &str| line.starts_with("input_errors.utf8") && line.ends_with(" 0");
        assert!(table.lines().any(has_zero));
        let width = table.lines().next().map(str::len);
        assert!(table.lines().all(|line| Some(line.len()) == width), "{table}");
    }

    #[test]
    fn counters_list_each_value_once() {
        let mut seen = Vec::new();
        Counters::default().for_each(|it| seen.push((it.group, it.name)));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
