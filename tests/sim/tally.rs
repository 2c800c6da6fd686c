//! What happened in a run, so that it shows whether the runs reach what they are for.

use std::fmt;

/// Declares the counts once.
macro_rules! tally {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// Counts of one run, or of many together.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub(crate) struct Tally { $($(#[$about])* pub(crate) $name: u64,)+ }

        impl Tally {
            /// Both together.
            pub(crate) const fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }

            /// Each count with its name.
            fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// The count of this name.
            pub(crate) fn count(&self, name: &str) -> u64 {
                let row = self.rows().into_iter().find(|row| row.0 == name);
                row.map_or_else(|| panic!("nothing is called {name}"), |row| row.1)
            }
        }
    };
}

tally! {
    /// Answers heard, errors included.
    answers,
    /// Arrays of answers heard, or of requests said.
    batches,
    /// Words of progress heard.
    progress,
    /// Calls that were answered with an error because they took too long.
    overdue,
    /// Cancelled calls of which nothing more was heard.
    silenced,
    /// Requests refused because their id was in flight.
    duplicates,
    /// Calls refused because as many were in flight as may be.
    crowded,
    /// Questions of the server's heard.
    asked,
    /// Questions that the server took back.
    withdrawn,
    /// Connections for which there was no room.
    refused,
    /// Messages that were too large.
    too_large,
    /// Connections ended because all of them together held too much.
    short_of_memory,
    /// Connections that ended by a reset.
    resets,
    /// Connections that the server ended for their silence.
    silences,
    /// Connections that a drain ended while their client still wanted something.
    drained,
    /// Times a connection was not read because too much waited on it.
    pauses,
    /// Times that bytes waited for a receive buffer.
    starved,
    /// Accepts that failed.
    accepts_failed,
    /// Messages that the server has read and understood.
    messages,
    /// Notices that every shard was to be told.
    letters,
    /// Times that a letter found a full inbox.
    letters_refused,
    /// Letters that were not written because too many waited.
    letters_forgone,
    /// Times that a letter between shards found a full lane.
    lanes_full,
    /// Letters between shards that waited for room.
    letters_postponed,
    /// Letters to a shard that had ended.
    letters_undeliverable,
    /// Letters that were read after a younger one of another sender.
    letters_overtaken,
    /// Shards that a letter found parked.
    shards_woken,
    /// Catalogs that a client saw come after another one.
    catalogs_changed,
    /// Editions of the catalog that handlers had made.
    editions,
    /// Times that one was not made or not told to everybody at once.
    editions_held_up,
    /// Times that time jumped while a call was in flight.
    jumps,
    /// Questions that were answered, in whatever way.
    replies,
    /// Rounds that ended with questions and a state.
    rounds,
    /// States that counted.
    states_taken,
    /// Times that a state was brought which had been brought before.
    states_brought_again,
    /// States that were refused because they had been used.
    states_refused,
    /// States that were refused because their time was over.
    states_late,
    /// Calls that became tasks.
    tasks_begun,
    /// Tasks of which somebody heard how they ended.
    tasks_ended,
    /// Times that a task was asked for when its time was over.
    tasks_expired,
    /// Times that somebody asked for a task that another connection had begun.
    tasks_visited,
    /// Streams that were acknowledged.
    streams,
    /// Frames heard on streams.
    frames,
    /// Notifications heard by sessions.
    notices,
    /// Sessions over HTTP that began.
    sessions,
    /// Connections that their client broke while an answer was to come.
    cuts,
    /// Streams that somebody came back for.
    resumed,
    /// Clients that went away while something was to come.
    vanished,
    /// Connections that became ones of frames.
    upgrades,
    /// Requests to become one that were refused.
    upgrades_refused,
    /// Messages said in several frames.
    fragmented,
    /// Frames in which several messages were said.
    joined,
    /// Pings of the server heard.
    pings,
    /// Pongs of the server heard.
    pongs,
    /// Close frames of clients that the server answered.
    closes_answered,
    /// Faults of clients that the server closed with their code.
    faults_closed,
    /// Messages that did not become whole in time.
    unfinished,
    /// Close frames that told of a drain.
    drains_told,
    /// Clients that were closed because they did not read.
    given_up,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.rows() {
            writeln!(formatter, "{name:>20} {count}")?;
        }
        Ok(())
    }
}
