//! Words for events and counters: small enums, so that a label can only say what is written here.
//!
//! What they keep true: a label never carries what a peer has sent. They do not say what the words
//! are used for; `event` does.

use std::fmt;

/// Declares an enum of labels with the word for each.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// The word for it, in lines and in labels.
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
    /// A door of the server.
    Transport {
        /// HTTP, streams included.
        Http = "http",
        /// Standard input and output.
        Stdio = "stdio",
        /// Lines over TCP.
        Tcp = "tcp",
        /// WebSocket.
        WebSocket = "websocket",
    }
}

labels! {
    /// Why a connection ended.
    CloseReason {
        /// The server drains.
        Draining = "draining",
        /// The socket failed.
        Failure = "failure",
        /// The peer passed a limit or broke the framing.
        Fault = "fault",
        /// Nothing was said for the idle time.
        Idle = "idle",
        /// No valid request came within the lease.
        Lease = "lease",
        /// The peer ended it.
        Peer = "peer",
    }
}

labels! {
    /// Why a connection was turned away.
    RefusalReason {
        /// The server drains.
        Draining = "draining",
        /// As many as allowed are open.
        Full = "full",
    }
}
