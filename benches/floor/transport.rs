//! Transports of the load.

use std::net::SocketAddr;

use corelane_bench_support::frames;
use corelane_bench_support::requests::{Era, RequestTemplate};

use crate::request_log::ResponseFormat;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Http,
    Stdio,
    Tcp,
    WebSocket,
}

impl Transport {
    /// Name in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Stdio => "stdio",
            Self::Tcp => "TCP",
            Self::WebSocket => "WebSocket",
        }
    }

    /// Returns the format of responses; `protocol` is whether the server speaks MCP.
    pub(crate) const fn response_format(self, protocol: bool) -> ResponseFormat {
        match self {
            Self::Http if protocol => ResponseFormat::Responses,
            Self::Http => ResponseFormat::FixedResponses,
            Self::Stdio | Self::Tcp => ResponseFormat::Lines,
            Self::WebSocket => ResponseFormat::Frames,
        }
    }

    /// Returns a call of the echo tool for `host`.
    pub(crate) fn echo(self, era: Era, message_bytes: usize, host: SocketAddr) -> RequestTemplate {
        match self {
            Self::Http => RequestTemplate::echo_post(era, message_bytes, host),
            Self::Stdio | Self::Tcp => RequestTemplate::echo(era, message_bytes),
            Self::WebSocket => frames::echo_frame(era, message_bytes),
        }
    }
}
