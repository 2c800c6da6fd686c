//! The `[listen]` section of a plan: fan-out of notifications to many subscribed streams.
//!
//! ```toml
//! [listen]
//! streams = 1000
//! to = "tools"
//! every = "1s"
//! publish = { tool = "test_trigger_tool_change" }
//! ```
//!
//! The streams and the publisher have connections of their own, besides those of the plan. Requests
//! continue meanwhile, so their latencies show the effect of the fan-out.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::call::CallPlan;
use super::human_duration::HumanDuration;
use super::{PlanError, RunTimes};
use crate::generator::SubscribeConfig;
use crate::mcp::{RequestSettings, Subscription, SubscriptionFilter};
use crate::target::{Era, Transport};

/// The `[listen]` section.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListenPlan {
    /// Number of streams. Each takes about 850 bytes over HTTP, 300 over line-based transports.
    pub streams: usize,
    /// What the streams subscribe to: `"tools"`, `"prompts"` or `"resources"` for changes of that
    /// list, or a list of resource URIs. Default tools.
    #[serde(default)]
    pub to: SubscriptionPlan,
    /// Streams on each connection, for TCP, WebSocket or pipes in the modern era. Default 1.
    #[serde(default = "one")]
    pub per_connection: usize,
    /// The request that causes the notification; its weight is ignored. Default for tools and
    /// prompts: the tools `test_trigger_tool_change` and `test_trigger_prompt_change`, which every
    /// server for the official conformance suite has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<CallPlan>,
    /// Interval between publications; the first is at the beginning of the warm-up. A notification
    /// that arrives later than this, or than `response_timeout`, is missed. Default 1 s.
    #[serde(default = "every")]
    pub every: HumanDuration,
}

/// What streams subscribe to.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged, expecting = "\"tools\", \"prompts\", \"resources\", or URIs in brackets")]
pub enum SubscriptionPlan {
    /// Changes of a list.
    List(ListKind),
    /// Updates of the resources with these URIs.
    Uris(Vec<String>),
}

/// A list whose changes are notified.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListKind {
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

const fn every() -> HumanDuration {
    HumanDuration::from_secs(1)
}

impl Default for SubscriptionPlan {
    fn default() -> Self {
        Self::List(ListKind::Tools)
    }
}

impl ListenPlan {
    /// Returns a plan of this many streams, one on each connection, subscribed to the list of
    /// tools.
    pub fn new(streams: usize) -> Self {
        let to = SubscriptionPlan::default();
        Self { streams, to, per_connection: one(), publish: None, every: every() }
    }

    /// Returns the number of connections of the streams, plus one for the publisher.
    pub const fn connections(&self) -> usize {
        match self.per_connection {
            0 => 1,
            per_connection => self.streams.div_ceil(per_connection) + 1,
        }
    }

    /// Builds the fan-out of a run.
    pub(super) fn build(
        &self,
        settings: &RequestSettings,
        times: RunTimes,
        seed: u64,
    ) -> Result<SubscribeConfig, PlanError> {
        self.check(settings)?;
        let every = self.every.get();
        let measured = every.checked_mul(publication_count(times.warm_up, every));
        if measured.is_none_or(|first| first >= times.total) {
            return Err(PlanError(format!(
                "[listen] every = \"{}\": nothing would be published while the run is measured; \
                 write a shorter interval",
                self.every
            )));
        }
        let subject = match &self.to {
            SubscriptionPlan::List(ListKind::Tools) => SubscriptionFilter::Tools,
            SubscriptionPlan::List(ListKind::Prompts) => SubscriptionFilter::Prompts,
            SubscriptionPlan::List(ListKind::Resources) => SubscriptionFilter::Resources,
            SubscriptionPlan::Uris(uris) => SubscriptionFilter::Uris(uris.clone()),
        };
        Ok(SubscribeConfig {
            subscription: Subscription::new(settings, subject, self.per_connection),
            streams: self.streams,
            publish_request: self.publish()?.build(settings, seed)?,
            interval: every,
        })
    }

    fn check(&self, settings: &RequestSettings) -> Result<(), PlanError> {
        let Self { streams, per_connection, .. } = *self;
        if settings.era.is_parity() {
            return Err(PlanError::new(
                "[listen]: the parity dialect has no subscriptions; choose another era",
            ));
        }
        if streams == 0 || per_connection == 0 {
            return Err(PlanError::new(
                "[listen] has no stream: write streams and per_connection of 1 or more, or remove \
                 [listen]",
            ));
        }
        let has_several = settings.transport != Transport::Http && settings.era == Era::Modern;
        if per_connection > 1 && !has_several {
            return Err(PlanError(format!(
                "[listen] per_connection = {per_connection}: over HTTP, and in the legacy era, a \
                 connection is one stream; leave it out"
            )));
        }
        if !streams.is_multiple_of(per_connection) {
            return Err(PlanError(format!(
                "[listen] streams = {streams} is not a multiple of per_connection = \
                 {per_connection}"
            )));
        }
        if self.every.get().is_zero() {
            return Err(PlanError::new("[listen] every = \"0s\": write a duration such as \"1s\""));
        }
        if matches!(&self.to, SubscriptionPlan::Uris(uris) if uris.is_empty()) {
            return Err(PlanError::new("[listen] to = []: name the URI of a resource"));
        }
        Ok(())
    }

    fn publish(&self) -> Result<CallPlan, PlanError> {
        match (&self.publish, &self.to) {
            (Some(publish), _) => Ok(publish.clone()),
            (None, SubscriptionPlan::List(ListKind::Tools)) => {
                Ok(CallPlan::tool("test_trigger_tool_change"))
            }
            (None, SubscriptionPlan::List(ListKind::Prompts)) => {
                Ok(CallPlan::tool("test_trigger_prompt_change"))
            }
            (None, to) => Err(PlanError(format!(
                "[listen] to = {}: name a tool that changes it: publish = {{ tool = \"NAME\" }}",
                json!(to)
            ))),
        }
    }
}

/// Returns the number of publications within the first `span` of a run.
fn publication_count(span: Duration, every: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(every.as_nanos().max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn plan(target: &str, listen: &str) -> Plan {
        let text = format!(
            "target = \"{target}\"\n[[phase]]\nrate = 10\nduration = \"3s\"\n[listen]\n{listen}\n"
        );
        toml::from_str(&text).unwrap()
    }

    fn wrong(target: &str, listen: &str) -> String {
        plan(target, listen).run_config().unwrap_err().to_string()
    }

    const TCP: &str = "tcp://127.0.0.1:1";

    #[test]
    fn listen_defaults_publish_tool_changes() {
        let plan = plan(TCP, "streams = 6");
        let listen = plan.run_config().unwrap().roles.subscribers.unwrap();
        assert_eq!((listen.streams, listen.interval), (6, Duration::from_secs(1)));
        let mut publish = Vec::new();
        listen.publish_request.write_request(&mut publish, 1_000_000_000, None);
        assert!(String::from_utf8(publish).unwrap().contains("test_trigger_tool_change"));
        assert_eq!(plan.listen.unwrap().connections(), 7);
    }

    #[test]
    fn listen_section_round_trips_through_toml() {
        let whole = "streams = 4\nto = [\"test://a\"]\nper_connection = 2\nevery = \"2s\"\n\
            publish = { tool = \"touch\" }";
        for listen in ["streams = 4", "streams = 4\nto = \"resources\"", whole] {
            let plan = plan(TCP, listen);
            let written = toml::to_string(&plan).unwrap();
            assert_eq!(toml::from_str::<Plan>(&written).unwrap(), plan);
        }
    }

    #[test]
    fn invalid_listen_plan_error_names_valid_value() {
        assert!(wrong(TCP, "streams = 0").contains("has no stream"));
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
