//! Counters of one shard.
//!
//! What they keep true: every field only grows, belongs to one thread, and costs one addition;
//! there is no atomic and no lock. [`Counters::add`] merges shards, [`Counters::rows`] names each
//! value once for whoever shows or exports it. They do not know when they are read: rates are
//! the business of the reader.

use std::fmt;

use crate::observe::error_table::ErrorTable;

/// Declares one group: its fields, how two of them add up, and what each value is called.
macro_rules! group {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)+ }

        impl $name {
            fn add(&mut self, other: &Self) { $(self.$field += other.$field;)+ }

            fn each(&self, see: &mut impl FnMut(&'static str, u64)) {
                $(see(stringify!($field), self.$field);)+
            }
        }
    };
}

group! {
    /// Connections, from the door to the end.
    Connections {
        /// Let in.
        accepted,
        /// Refused because as many as allowed were open (error 1001).
        refused_full,
        /// Refused because the server drains.
        refused_draining,
        /// Not accepted by the kernel: no slot, no memory, gone before the accept.
        accept_failed,
        /// Over, for whatever reason: also counted in one of the fields below.
        closed,
        /// Ended by the peer, in order.
        closed_by_peer,
        /// Ended by a failure of the socket: reset, unreachable.
        closed_by_failure,
        /// Ended because nothing was said for the idle time.
        closed_idle,
        /// Ended because no valid request came within the lease.
        closed_lease,
        /// Ended because its peer broke the framing or passed a limit.
        closed_by_fault,
        /// Ended by a drain.
        closed_draining,
    }
}

group! {
    /// Bytes and messages on the wire.
    Traffic {
        /// JSON texts that arrived whole.
        messages_in,
        /// JSON texts said to peers.
        messages_out,
        /// Bytes received, framing included.
        bytes_in,
        /// Bytes the kernel took, framing included.
        bytes_out,
        /// Sends handed to the kernel: `messages_out` over this is what one carries.
        sends,
        /// Times a connection was not read because its peer did not read.
        pauses,
    }
}

group! {
    /// Messages by kind.
    Requests {
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
        /// Batches; their members are counted above.
        batches,
        /// Requests whose peer or connection did not want the answer any more.
        cancelled,
        /// Requests that passed their deadline.
        timed_out,
        /// Calls refused because their connection had as many in flight as it may.
        refused_in_flight,
        /// Tool calls that answered with `isError`: failures inside a success.
        tools_failed,
        /// Tool calls that became tasks.
        tasks_begun,
        /// Tasks not begun because the shard keeps as many as it may.
        tasks_refused_full,
        /// Tasks not begun because those of their connection take its share.
        tasks_refused_share,
        /// Tasks that were cancelled, on request or because the server ended.
        tasks_cancelled,
        /// Handlers that panicked; the caller got an internal error.
        handlers_panicked,
        /// Progress notifications sent.
        progress,
        /// Log messages sent.
        logs,
    }
}

group! {
    /// What handlers asked clients for, and what came back.
    Questions {
        /// Requests sent to clients (up to 2025-11-25).
        asked,
        /// Answers that a handler got, errors included.
        answered,
        /// Answers that were not what was asked for.
        malformed,
        /// Questions that a client did not answer in time.
        timed_out,
        /// Questions taken back because nobody waited for them any more.
        withdrawn,
        /// Responses to nothing that was open: never asked, answered before, or too late.
        unasked,
        /// Progress of clients on questions that were open.
        progress,
        /// Progress of clients that named nothing open.
        unknown_progress,
        /// Results that asked for input (2026-07-28).
        rounds,
        /// Sealed states that were refused: changed, moved, too old or brought before.
        states_refused,
    }
}

group! {
    /// Streams of notifications, and what is told on them.
    Subscriptions {
        /// Streams that began: `subscriptions/listen`, and legacy sessions with subscriptions.
        opened,
        /// Streams that are over, for whatever reason.
        ended,
        /// Streams refused because of a limit.
        refused,
        /// Frames encoded, each for all who listen.
        publications_encoded,
        /// Frames written to streams and legacy sessions.
        frames_published,
        /// Frames not written because the peer was slow: told once, later.
        frames_withheld,
        /// Frames written later, for those that were withheld.
        frames_caught_up,
    }
}

group! {
    /// Legacy sessions over HTTP, and their streams that clients come back for.
    Sessions {
        /// Sessions that began.
        begun,
        /// Sessions that made room for others.
        evicted,
        /// Streams that a client came back for.
        resumed,
        /// Streams that a client came back for in vain: forgotten, or never there.
        not_resumed,
        /// Events that came while their client was away, and found no room to wait for it.
        events_lost,
    }
}

group! {
    /// Connections over WebSocket: what came and went over them, and by which code of RFC 6455,
    /// section 7.4, they were closed.
    WebSockets {
        /// Connections upgraded.
        upgraded,
        /// Requests for the path that were no handshake, and were refused for that.
        refused,
        /// Messages that arrived whole, in one frame or in several.
        messages_in,
        /// Messages said, each in a frame of its own.
        messages_out,
        /// Bytes of the messages that arrived.
        bytes_in,
        /// Bytes of the messages said.
        bytes_out,
        /// Pings that arrived; each was answered by a pong.
        pings_in,
        /// Pings sent to peers that were silent.
        pings_out,
        /// Pongs that arrived, whether they were asked for or not.
        pongs_in,
        /// Ended by a close frame of the peer, whatever its code.
        closed_by_peer,
        /// Closed with 1000: idle.
        closed_normal,
        /// Closed with 1001: the server drains.
        closed_going_away,
        /// Closed with 1002: the peer broke the protocol, or left a message unfinished.
        closed_protocol,
        /// Closed with 1003: a binary frame.
        closed_unsupported,
        /// Closed with 1007: a text that is not UTF-8.
        closed_invalid,
        /// Closed with 1008: a limit of the server.
        closed_policy,
        /// Closed with 1009: a message longer than may be.
        closed_too_big,
        /// Closed with 1011: the peer did not read, or the server was short of memory.
        closed_internal,
        /// Ended without a close frame: the socket failed, or its peer left without a word.
        closed_abnormally,
    }
}

group! {
    /// What was wrong on the wire, before there was a message.
    Faults {
        /// Not a frame: bytes that no message can begin with or end in.
        framing,
        /// Requests of HTTP that were refused before their message was looked at.
        http,
        /// Not UTF-8.
        utf8,
        /// Longer than a message may be.
        oversize,
        /// Messages refused because the memory of all connections was used up.
        memory,
    }
}

group! {
    /// The shard itself.
    Shard {
        /// Turns of its loop.
        turns,
        /// Letters sent to other threads.
        letters_out,
        /// Letters taken.
        letters_in,
        /// Letters that found the box full.
        letters_refused,
        /// Letters not written because as many to the same shard waited as may: requests for its
        /// tasks refused, its tasks not granted to listeners.
        letters_forgone,
        /// Calls handed to the blocking threads.
        blocking_calls,
        /// Blocking calls refused because too many waited.
        blocking_refused,
        /// Times the receive buffers ran out and the kernel had to wait for one.
        receive_buffers_exhausted,
        /// Times the completion queue overflowed.
        completions_overflowed,
        /// Events that were not written because too many came at once.
        events_withheld,
    }
}

/// All counters of one shard, or the sum of several.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Connections.
    pub connections: Connections,
    /// Bytes and messages.
    pub traffic: Traffic,
    /// Messages by kind.
    pub requests: Requests,
    /// What clients were asked for.
    pub questions: Questions,
    /// Errors sent, by their JSON-RPC code. A transport that answers 200 hides them otherwise.
    pub errors: ErrorTable,
    /// Streams of notifications.
    pub subscriptions: Subscriptions,
    /// Legacy sessions over HTTP.
    pub sessions: Sessions,
    /// Connections over WebSocket.
    pub websockets: WebSockets,
    /// Broken input below JSON-RPC.
    pub faults: Faults,
    /// The shard itself.
    pub shard: Shard,
}

impl Counters {
    /// Adds another shard's counters to these.
    pub fn add(&mut self, other: &Self) {
        self.connections.add(&other.connections);
        self.traffic.add(&other.traffic);
        self.requests.add(&other.requests);
        self.questions.add(&other.questions);
        self.errors.add(&other.errors);
        self.subscriptions.add(&other.subscriptions);
        self.sessions.add(&other.sessions);
        self.websockets.add(&other.websockets);
        self.faults.add(&other.faults);
        self.shard.add(&other.shard);
    }

    /// Shows every value once, in a fixed order: group, name, value.
    pub fn rows(&self, mut see: impl FnMut(&'static str, &'static str, u64)) {
        self.connections.each(&mut |name, value| see("connections", name, value));
        see("connections", "open", self.connections.open());
        self.traffic.each(&mut |name, value| see("traffic", name, value));
        self.requests.each(&mut |name, value| see("requests", name, value));
        self.questions.each(&mut |name, value| see("questions", name, value));
        see("errors", "sent", self.errors.total());
        self.subscriptions.each(&mut |name, value| see("subscriptions", name, value));
        self.sessions.each(&mut |name, value| see("sessions", name, value));
        self.websockets.each(&mut |name, value| see("websockets", name, value));
        self.faults.each(&mut |name, value| see("faults", name, value));
        self.shard.each(&mut |name, value| see("shard", name, value));
    }
}

impl Connections {
    /// Connections that live now: a difference, so that no third counter can disagree.
    pub const fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// Written on one line without zeros; with `{:#}` as a table with one value a line and all zeros.
impl fmt::Display for Counters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = formatter.alternate();
        let mut result = Ok(());
        let mut group_before = "";
        self.rows(|group, name, value| {
            if result.is_err() || (value == 0 && !table) {
                return;
            }
            result = if table {
                writeln!(formatter, "{:<38}{value:>16}", format_args!("{group}.{name}").to_string())
            } else if group == group_before {
                write!(formatter, " {name}={value}")
            } else {
                let separator = if group_before.is_empty() { "" } else { " · " };
                write!(formatter, "{separator}{group} {name}={value}")
            };
            group_before = group;
        });
        result?;
        for (code, count) in self.errors.iter() {
            if table {
                writeln!(formatter, "errors.{code:<31}{count:>16}")?;
            } else {
                write!(formatter, " · error {code}={count}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up_field_by_field() {
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
        assert_eq!((one.errors.of(-32601), one.errors.of(1001)), (2, 1));
        assert_eq!(one.errors.total(), 3);
    }

    #[test]
    fn the_line_leaves_zeros_out_and_the_table_does_not() {
        let mut counters = Counters::default();
        assert_eq!(counters.to_string(), "");
        counters.connections.accepted = 2;
        counters.requests.tools_call = 7;
        counters.errors.count(-32602);
        assert_eq!(
            counters.to_string(),
            "connections accepted=2 open=2 · requests tools_call=7 · errors sent=1 · error -32602=1"
        );
        let table = format!("{counters:#}");
        assert!(table.lines().any(|line| line.starts_with("faults.utf8") && line.ends_with(" 0")));
        let width = table.lines().next().map(str::len);
        assert!(table.lines().all(|line| Some(line.len()) == width), "{table}");
    }

    #[test]
    fn no_value_is_shown_twice() {
        let mut seen = Vec::new();
        Counters::default().rows(|group, name, _| seen.push((group, name)));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
