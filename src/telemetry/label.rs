//! Labels of events and counters. They are enums, so that a label never carries data of a peer.

use std::fmt;

pub use corelane_base::transport::Transport;

/// Declares an enum of labels and the text of each.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Returns the text used in log lines and metric labels.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

labels! {
    /// What began the drain of a server.
    DrainCause {
        /// A call of the server's handle.
        Handle = "handle",
        /// A shard failed; the others drain.
        ShardFailed = "shard_failed",
        /// The signal SIGINT.
        #[cfg_attr(
            not(feature = "signals"),
            expect(dead_code, reason = "only the signal loop drains because of a signal")
        )]
        Sigint = "SIGINT",
        /// The signal SIGTERM.
        #[cfg_attr(
            not(feature = "signals"),
            expect(dead_code, reason = "only the signal loop drains because of a signal")
        )]
        Sigterm = "SIGTERM",
    }
}

labels! {
    /// Why a connection was refused.
    RefusalReason {
        /// The server is draining.
        Draining = "draining",
        /// The connection limit is reached.
        ConnectionLimit = "connection_limit",
        /// The client address has its share of the connections.
        AddressShare = "address_share",
        /// The ring or the process has no descriptor left for it.
        Descriptors = "descriptors",
        /// Memory is short.
        Memory = "memory",
        /// The client address has opened too many connections lately.
        Rate = "rate",
    }
}

labels! {
    /// Why a legacy session was evicted for a new one.
    EvictionReason {
        /// Its address had more than its share.
        AddressShare = "address_share",
        /// It had no message after `initialize`.
        Unused = "unused",
        /// It was idle longest.
        Idle = "idle",
    }
}

labels! {
    /// The option whose limit a task or its result has reached.
    TaskLimit {
        /// Tasks, or bytes of results, of one client address.
        AddressShare = "address_share_percent",
        /// Bytes of results.
        TaskBytes = "task_bytes_max",
        /// Tasks.
        Tasks = "tasks_max",
        /// Tasks of one connection or session.
        TasksPerConnection = "tasks_per_connection_max",
    }
}
