//! Connections whose owners read slowly, or never.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wrong;
use super::span::Span;
use crate::dialogue::{Call, Speech};
use crate::generator::job::Readers;

/// Connections that read slowly: `[readers]`.
///
/// They are some of the connections of the run. From their moment on each of them asks in a small
/// closed loop of its own, so that there is always something that it has not read. None of it is
/// in the figures of the others: what those figures show is what the others see of it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadersPlan {
    /// How many connections.
    pub slow: usize,
    /// How fast each of them reads, on average: what the kernel has is taken in pieces. 0: not
    /// before the end of the run. Default 1,000.
    #[serde(default = "bytes_per_second")]
    pub bytes_per_second: u64,
    /// Requests that each has unanswered. Default 64.
    #[serde(default = "depth")]
    pub depth: usize,
    /// They ask for the tool `echo` with so many bytes. Default: what the others ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// From when on, counted from the end of the warm-up; before it they are held. The result then
    /// has the 99th percentile of the others before and since. Default 0 s.
    #[serde(default = "at")]
    pub at: Span,
}

const fn bytes_per_second() -> u64 {
    1_000
}

const fn depth() -> usize {
    64
}

const fn at() -> Span {
    Span::seconds(0)
}

impl ReadersPlan {
    /// What the workers are to do, with the request that is theirs alone, in a run of so many
    /// connections, of this warm-up and so long a time that is measured.
    pub(super) fn readers(
        &self,
        connections: usize,
        speech: &Speech,
        (warm_up, span): (Duration, Duration),
    ) -> Result<(Readers, Option<Call>), Wrong> {
        let Self { slow, bytes_per_second, depth, bytes, at } = *self;
        if slow == 0 || slow >= connections {
            return Err(Wrong(format!(
                "[readers] slow = {slow}: write at least 1, and fewer than the {connections} \
                 connections of the run, so that there are others to measure"
            )));
        }
        if depth == 0 {
            return Err(Wrong::new("[readers] depth = 0: they would ask nothing; write 1 or more"));
        }
        if at.duration() >= span {
            let span = Span::from(span);
            return Err(Wrong(format!(
                "[readers] at = \"{at}\" is not within the run: it is measured for {span}"
            )));
        }
        let readers =
            Readers { slow, bytes_per_second, depth, at: warm_up + at.duration(), call: None };
        Ok((readers, bytes.map(|bytes| Call::echo(speech, bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Era, Transport};

    fn readers(text: &str) -> Result<(Readers, Option<Call>), String> {
        let plan: ReadersPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        let speech = Speech {
            transport: Transport::Tcp,
            era: Era::Modern,
            authority: "localhost:1".into(),
            path: String::new(),
            fields: Vec::new(),
        };
        let times = (Duration::from_secs(2), Duration::from_secs(10));
        plan.readers(64, &speech, times).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn they_begin_behind_the_warm_up() {
        let (readers, call) = readers("slow = 3\nat = \"4s\"\nbytes = 9\n").unwrap();
        assert_eq!((readers.slow, readers.at), (3, Duration::from_secs(6)));
        assert_eq!((readers.bytes_per_second, readers.depth), (1_000, 64));
        assert_eq!(call.unwrap().expected_text(), Some("abcdefghi"));
    }

    #[test]
    fn what_makes_no_sense_says_what_to_write() {
        for (text, part) in [
            ("slow = 0", "at least 1"),
            ("slow = 64", "fewer than the 64"),
            ("slow = 1\ndepth = 0", "1 or more"),
            ("slow = 1\nat = \"10s\"", "measured for 10s"),
        ] {
            let wrong = readers(text).unwrap_err();
            assert!(wrong.contains(part), "{wrong}");
        }
    }
}
