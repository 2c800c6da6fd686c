//! What a server is spoken to over, and what differs with it.

use std::net::SocketAddr;

use crate::dialogue::Framing;
use crate::frames;
use crate::requests::{Era, Template};

/// What the messages travel over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    Http,
    Stdio,
    Tcp,
    WebSocket,
}

impl Over {
    /// The word for it in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Stdio => "stdio",
            Self::Tcp => "TCP",
            Self::WebSocket => "WebSocket",
        }
    }

    /// How answers are told from each other, where the server speaks MCP and where it does not.
    pub(crate) const fn framing(self, protocol: bool) -> Framing {
        match self {
            Self::Http if protocol => Framing::Responses,
            Self::Http => Framing::FixedResponses,
            Self::Stdio | Self::Tcp => Framing::Lines,
            Self::WebSocket => Framing::Frames,
        }
    }

    /// The call of the echo tool for `host`.
    pub(crate) fn echo(self, era: Era, message_bytes: usize, host: SocketAddr) -> Template {
        match self {
            Self::Http => Template::echo_post(era, message_bytes, host),
            Self::Stdio | Self::Tcp => Template::echo(era, message_bytes),
            Self::WebSocket => frames::echo_frame(era, message_bytes),
        }
    }
}
