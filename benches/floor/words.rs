//! What a floor says to what it hears: the same, one and the same response to every request of
//! HTTP, or the text of every frame of WebSocket.
//!
//! None of it knows of JSON or tools.

use std::io;

use crate::answering::piece_together;
use crate::fixed::{self, Fixed};
use crate::unmasked;

/// What a floor says.
#[derive(Debug)]
pub(crate) enum Words {
    /// What it heard.
    Echo,
    /// The same response to every request.
    Fixed(Box<Fixed>),
    /// What it heard in a frame, unmasked, in a frame.
    Frames,
}

impl Words {
    /// What the command line of a child asks for.
    pub(crate) fn read(arguments: &[String]) -> io::Result<Self> {
        match arguments {
            [word] if word == "echo" => Ok(Self::Echo),
            [word, era, bytes] if word == "fixed" => {
                Ok(Self::Fixed(fixed::read(era, bytes)?.into()))
            }
            [word] if word == "frames" => Ok(Self::Frames),
            _ => Err(io::Error::other("a floor says an echo, something fixed, or frames")),
        }
    }

    /// Puts what `arrived` gets on `out`. The beginning of something is kept in `begun` until the
    /// rest of it comes.
    #[inline]
    pub(crate) fn answer(&self, arrived: &[u8], begun: &mut Vec<u8>, out: &mut Vec<u8>) {
        if matches!(self, Self::Echo) {
            out.extend_from_slice(arrived);
            return;
        }
        piece_together(arrived, begun, |bytes| self.answer_one(bytes, out));
    }

    /// Answers what stands at the beginning, and tells its length; `None` until it is all there.
    #[inline]
    fn answer_one(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Echo => None,
            Self::Fixed(fixed) => fixed.answer(bytes, out),
            Self::Frames => unmasked::answer(bytes, out),
        }
    }
}
