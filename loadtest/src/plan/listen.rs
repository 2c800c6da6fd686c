//! A fan-out: many streams listen, something is published, and all of them are to hear of it.
//!
//! ```toml
//! [listen]
//! streams = 1000
//! to = "tools"
//! every = "1s"
//! publish = { tool = "test_trigger_tool_change" }
//! ```
//!
//! The streams have connections of their own beside those of the plan, and so has whoever
//! publishes. Requests go on meanwhile: what the fan-out does to them shows in their latencies.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Wrong;
use super::call::CallPlan;
use super::span::Span;
use crate::dialogue::{Speech, Subject, Subscription};
use crate::generator::Listen;
use crate::target::{Era, Transport};

/// Streams that listen, and what they are told of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListenPlan {
    /// How many. Cost: about 850 bytes each over HTTP, 300 over lines.
    pub streams: usize,
    /// What they listen to: `"tools"`, `"prompts"` or `"resources"` for the list of these, or the
    /// URIs of resources. Default tools.
    #[serde(default)]
    pub to: ListenedPlan,
    /// Streams of each connection, over TCP, WebSocket or pipes in the modern era. Default 1.
    #[serde(default = "one")]
    pub per_connection: usize,
    /// The request that changes what they listen to; its weight means nothing. Default: what
    /// changes the lists of tools and prompts of a server that the official conformance suite can
    /// test, the tools `test_trigger_tool_change` and `test_trigger_prompt_change`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<CallPlan>,
    /// From one publication to the next; the first is at the beginning of the warm-up. What is not
    /// heard within this, or within `answer_max`, is missed. Default 1 s.
    #[serde(default = "every")]
    pub every: Span,
}

/// What is listened to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, expecting = "\"tools\", \"prompts\", \"resources\", or URIs in brackets")]
pub enum ListenedPlan {
    /// A list.
    List(ListPlan),
    /// The resources with these URIs.
    Uris(Vec<String>),
}

/// A list that may change.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListPlan {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
}

const fn one() -> usize {
    1
}

const fn every() -> Span {
    Span::seconds(1)
}

impl Default for ListenedPlan {
    fn default() -> Self {
        Self::List(ListPlan::Tools)
    }
}

impl ListenPlan {
    /// So many streams, one a connection, that listen to the list of tools.
    pub fn new(streams: usize) -> Self {
        let to = ListenedPlan::default();
        Self { streams, to, per_connection: one(), publish: None, every: every() }
    }

    /// Connections beside those that requests go over: those of the streams, and one to publish on.
    pub const fn connections(&self) -> usize {
        match self.per_connection {
            0 => 1,
            per_connection => self.streams.div_ceil(per_connection) + 1,
        }
    }

    /// What the workers are to do. The run lasts `span`, of which `warm_up` is not measured.
    pub(super) fn listen(
        &self,
        speech: &Speech,
        (warm_up, span): (Duration, Duration),
    ) -> Result<Listen, Wrong> {
        self.check(speech)?;
        let every = self.every.duration();
        let measured = every.checked_mul(count(warm_up, every));
        if measured.is_none_or(|first| first >= span) {
            return Err(Wrong(format!(
                "listen: every = \"{}\": nothing would be published while the run is measured; \
                 write a shorter span",
                self.every
            )));
        }
        let subject = match &self.to {
            ListenedPlan::List(ListPlan::Tools) => Subject::Tools,
            ListenedPlan::List(ListPlan::Prompts) => Subject::Prompts,
            ListenedPlan::List(ListPlan::Resources) => Subject::Resources,
            ListenedPlan::Uris(uris) => Subject::Uris(uris.clone()),
        };
        Ok(Listen {
            subscription: Subscription::new(speech, subject, self.per_connection),
            streams: self.streams,
            publish: self.publish()?.call(speech)?,
            every,
        })
    }

    fn check(&self, speech: &Speech) -> Result<(), Wrong> {
        let Self { streams, per_connection, .. } = *self;
        if streams == 0 || per_connection == 0 {
            return Err(Wrong::new(
                "listen: nobody would listen; write streams and per_connection of 1 or more, or \
                 leave [listen] out",
            ));
        }
        let has_several = speech.transport != Transport::Http && speech.era == Era::Modern;
        if per_connection > 1 && !has_several {
            return Err(Wrong(format!(
                "listen: per_connection = {per_connection}: over HTTP, and in the legacy era, a \
                 connection is one stream; leave it out"
            )));
        }
        if !streams.is_multiple_of(per_connection) {
            return Err(Wrong(format!(
                "listen: streams = {streams} are not connections of {per_connection} streams; \
                 write a multiple of per_connection"
            )));
        }
        if self.every.duration().is_zero() {
            return Err(Wrong::new("listen: every = \"0s\": write a span such as \"1s\""));
        }
        if matches!(&self.to, ListenedPlan::Uris(uris) if uris.is_empty()) {
            return Err(Wrong::new("listen: to = []: name the URI of a resource"));
        }
        Ok(())
    }

    fn publish(&self) -> Result<CallPlan, Wrong> {
        match (&self.publish, &self.to) {
            (Some(publish), _) => Ok(publish.clone()),
            (None, ListenedPlan::List(ListPlan::Tools)) => {
                Ok(CallPlan::tool("test_trigger_tool_change"))
            }
            (None, ListenedPlan::List(ListPlan::Prompts)) => {
                Ok(CallPlan::tool("test_trigger_prompt_change"))
            }
            (None, to) => Err(Wrong(format!(
                "listen: to = {}: say what changes that: publish = {{ tool = \"NAME\" }}",
                json!(to)
            ))),
        }
    }
}

/// How many publications there are before this much of a run is over.
fn count(span: Duration, every: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(every.as_nanos().max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn plan(target: &str, listen: &str) -> Plan {
        let text = format!(
            "target = \"{target}\"\n[[phase]]\nrate = 10\nspan = \"3s\"\n[listen]\n{listen}\n"
        );
        toml::from_str(&text).unwrap()
    }

    fn wrong(target: &str, listen: &str) -> String {
        plan(target, listen).job().unwrap_err().to_string()
    }

    const TCP: &str = "tcp://127.0.0.1:1";

    #[test]
    fn a_brief_section_listens_to_tools_and_changes_them() {
        let plan = plan(TCP, "streams = 6");
        let listen = plan.job().unwrap().listen.unwrap();
        assert_eq!((listen.streams, listen.every), (6, Duration::from_secs(1)));
        let mut publish = Vec::new();
        listen.publish.write(&mut publish, 1_000_000_000, None);
        assert!(String::from_utf8(publish).unwrap().contains("test_trigger_tool_change"));
        assert_eq!(plan.listen.unwrap().connections(), 7);
    }

    #[test]
    fn a_section_survives_being_written_and_read() {
        let whole = "streams = 4\nto = [\"test://a\"]\nper_connection = 2\nevery = \"2s\"\n\
            publish = { tool = \"touch\" }";
        for listen in ["streams = 4", "streams = 4\nto = \"resources\"", whole] {
            let plan = plan(TCP, listen);
            let written = toml::to_string(&plan).unwrap();
            assert_eq!(toml::from_str::<Plan>(&written).unwrap(), plan);
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_line() {
        assert!(wrong(TCP, "streams = 0").contains("nobody would listen"));
        assert!(wrong(TCP, "streams = 5\nper_connection = 2").contains("a multiple"));
        assert!(wrong("http://127.0.0.1", "streams = 4\nper_connection = 2").contains("over HTTP"));
        assert!(wrong(TCP, "streams = 1\nevery = \"0s\"").contains("\"1s\""));
        assert!(wrong(TCP, "streams = 1\nevery = \"5s\"").contains("while the run is measured"));
        assert!(wrong(TCP, "streams = 1\nto = []").contains("name the URI"));
        assert!(wrong(TCP, "streams = 1\nto = \"resources\"").contains("publish = { tool"));
        assert!(wrong(TCP, "streams = 1\nto = [\"test://a\"]").contains("[\"test://a\"]"));
        let unknown = "target = \"x\"\n[listen]\nstreams = 1\nto = \"tolls\"\n";
        let error = toml::from_str::<Plan>(unknown).unwrap_err().to_string();
        assert!(error.contains("URIs in brackets"), "{error}");
    }
}
