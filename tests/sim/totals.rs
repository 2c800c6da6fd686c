//! Counts of what happened in runs: they show whether the runs reach what they are meant to test.

use std::fmt;

/// Declares each count once.
macro_rules! totals {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// Counts of one run, or the sum of several.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub(crate) struct Totals { $($(#[$about])* pub(crate) $name: u64,)+ }

        impl Totals {
            /// Returns the sum of both.
            pub(crate) const fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }

            /// Returns each count with its name.
            fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// Returns the count called `name`.
            pub(crate) fn count(&self, name: &str) -> u64 {
                let row = self.rows().into_iter().find(|row| row.0 == name);
                row.map_or_else(|| panic!("no count is called {name}"), |row| row.1)
            }
        }
    };
}

totals! {
    /// Responses received, errors included.
    responses,
    /// Batches received or sent.
    batches,
    /// Progress notifications received.
    progress_notifications,
    /// Calls that ended with a timeout error.
    call_timeouts,
    /// Calls that the server cancelled with an error at the end of its drain.
    calls_cut,
    /// Cancelled calls that got no response.
    cancelled_calls_dropped,
    /// Requests refused because their id was in flight.
    duplicate_ids_refused,
    /// Calls refused by the limit of requests in flight.
    in_flight_limit_errors,
    /// Requests refused by a rate limit.
    rate_limit_errors,
    /// Calls refused because the server was short of memory.
    memory_limit_errors,
    /// Charges that the server refused because it was short of memory.
    memory_charges_refused,
    /// Connections that the server closed because they held most.
    largest_holders_closed,
    /// Tasks whose creator had gone that the server evicted for others.
    tasks_evicted,
    /// Calls that were to become tasks, refused by a limit of tasks.
    tasks_refused,
    /// Connections that lost their place to another one.
    connections_evicted,
    /// Sessions that the server ended for others.
    sessions_evicted,
    /// Calls of honest clients that began again because no place was free.
    calls_begun_again,
    /// Responses received by clients that never hold more than their share of the memory limit.
    small_client_responses,
    /// Requests received from the server.
    client_requests,
    /// Requests that the server cancelled.
    client_requests_cancelled,
    /// Connections refused by the connection limit.
    connections_refused,
    /// Those among them whose address had its share.
    connections_refused_by_address,
    /// Connections refused because the server drained.
    connections_refused_draining,
    /// Calls that got no response because their client had ended its input.
    half_close_cancellations,
    /// Calls that got an error because their client had ended its input.
    half_close_errors,
    /// Circuit breakers that opened.
    breakers_opened,
    /// Circuit breakers that closed again.
    breakers_closed,
    /// Calls that a circuit breaker refused.
    breaker_refusals,
    /// Calls that waited in a queue and were served.
    queued_calls,
    /// Calls refused because those before them waited for too long.
    shed_calls,
    /// Messages refused for their length.
    messages_too_large,
    /// Connections closed because memory ran out.
    memory_limit_closes,
    /// Connections that ended with a reset.
    connection_resets,
    /// Connections that the server closed for their silence.
    idle_closes,
    /// Connections that a drain closed before their client was done.
    drain_closes,
    /// Times the server stopped reading a connection because its outgoing buffer was full.
    read_pauses,
    /// Times that received bytes waited for a receive buffer.
    receive_buffer_waits,
    /// Accepts that failed.
    accepts_failed,
    /// Messages that the server has read and parsed.
    messages,
    /// Messages sent to shards.
    shard_messages,
    /// Times that a message to a shard found a full inbox.
    inboxes_full,
    /// Messages to shards that were skipped because too many waited.
    shard_messages_skipped,
    /// Times that a message between shards found a full channel.
    channels_full,
    /// Messages between shards that waited for room.
    shard_messages_queued,
    /// Messages to a shard that had ended.
    shard_messages_undeliverable,
    /// Messages that were read after a younger one of another sender.
    shard_messages_reordered,
    /// Parked shards that a message woke.
    shards_woken,
    /// Changes of catalog version that a client saw.
    catalog_changes_seen,
    /// Catalog versions made by handlers.
    catalog_updates,
    /// Times that a catalog update was not made, or not sent to every shard, at once.
    catalog_updates_delayed,
    /// Clock jumps while a call was in flight.
    clock_jumps,
    /// Requests from the server that a client responded to, in whatever way.
    client_responses,
    /// Results with `inputRequests` and a `requestState`.
    input_required_results,
    /// Values of `requestState` that the server accepted.
    states_accepted,
    /// Times that a `requestState` was sent again.
    states_sent_again,
    /// Values of `requestState` refused because they had been used.
    states_refused_as_used,
    /// Values of `requestState` refused because they had expired.
    states_expired,
    /// Calls that became tasks.
    tasks_created,
    /// Tasks whose final status a client saw.
    tasks_finished,
    /// Requests for a task that had expired.
    tasks_expired,
    /// Requests for a task that another connection had created.
    tasks_accessed_elsewhere,
    /// Subscription streams that were acknowledged.
    streams_opened,
    /// Notifications received on subscription streams.
    stream_notifications,
    /// Notifications received by legacy sessions.
    session_notifications,
    /// HTTP sessions created.
    sessions_created,
    /// Connections that their client broke while a response was due.
    connections_cut,
    /// Streams that a client resumed.
    streams_resumed,
    /// Clients that left while a response was due.
    clients_vanished,
    /// Connections upgraded to WebSocket.
    upgrades,
    /// WebSocket upgrade requests that were refused.
    upgrades_refused,
    /// Messages sent in several frames.
    messages_fragmented,
    /// Frames that carried several messages.
    messages_joined,
    /// Pings received from the server.
    pings_received,
    /// Pongs received from the server.
    pongs_received,
    /// Close frames of clients that the server answered.
    closes_answered,
    /// Protocol faults of clients that the server closed with the right code.
    faults_closed,
    /// Incomplete messages that timed out.
    incomplete_messages_closed,
    /// Close frames that announced a drain.
    going_away_closes,
    /// Clients closed because they did not read.
    slow_readers_closed,
    /// Calls of the client that were answered.
    client_calls_answered,
    /// Calls of the client that failed because their connection ended.
    client_calls_closed,
    /// Calls of the client that timed out.
    client_calls_timed_out,
    /// Calls of the client that found no connection.
    client_calls_unconnected,
    /// Calls of the client that the server refused or ended.
    client_calls_refused,
    /// Calls of the client that were cancelled.
    client_calls_cancelled,
    /// Last calls of the client that were made again.
    client_calls_repeated,
    /// Times that the server ended and started again.
    server_restarts,
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.rows() {
            writeln!(formatter, "{name:>28} {count}")?;
        }
        Ok(())
    }
}
