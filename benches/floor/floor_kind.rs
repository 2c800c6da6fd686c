//! Kinds of floors: byte echo, fixed HTTP response, or WebSocket text echo. None parses JSON.

use std::io;

use corelane_bench_support::ring_server::split_messages;

use crate::fixed_response::{self, FixedResponse};
use crate::frame_echo;

/// The behavior of a floor.
#[derive(Debug)]
pub(crate) enum FloorKind {
    /// Echoes the received bytes.
    Echo,
    /// Sends the same response to every HTTP request.
    Fixed(Box<FixedResponse>),
    /// Echoes the unmasked text of each frame.
    Frames,
}

impl FloorKind {
    /// Reads the command line of the child.
    pub(crate) fn read(arguments: &[String]) -> io::Result<Self> {
        match arguments {
            [word] if word == "echo" => Ok(Self::Echo),
            [word, era, bytes] if word == "fixed" => {
                Ok(Self::Fixed(fixed_response::read(era, bytes)?.into()))
            }
            [word] if word == "frames" => Ok(Self::Frames),
            _ => Err(io::Error::other("unknown floor kind: expected echo, fixed or frames")),
        }
    }

    /// Appends the responses to `arrived`. An incomplete request is kept in `partial`.
    #[inline]
    pub(crate) fn respond(&self, arrived: &[u8], partial: &mut Vec<u8>, out: &mut Vec<u8>) {
        if matches!(self, Self::Echo) {
            out.extend_from_slice(arrived);
            return;
        }
        split_messages(arrived, partial, |bytes| self.respond_one(bytes, out));
    }

    /// Responds to the request at the start and returns its length, or `None` if it is incomplete.
    #[inline]
    fn respond_one(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Echo => None,
            Self::Fixed(fixed) => fixed.respond(bytes, out),
            Self::Frames => frame_echo::respond(bytes, out),
        }
    }
}
