//! The upstreams as the server shows them to operators, and the changes that these make.

use std::sync::Arc;

use crate::gateway::follower::FollowerEvents;
use crate::gateway::status::{UpstreamStatus, write_json, write_metrics};
use crate::server::{UpstreamChange, UpstreamDirectory};

/// The statuses of all upstreams, in their order, and where changes go.
#[derive(Debug)]
pub struct Directory {
    upstreams: Vec<Arc<UpstreamStatus>>,
    events: FollowerEvents,
}

impl Directory {
    pub const fn new(upstreams: Vec<Arc<UpstreamStatus>>, events: FollowerEvents) -> Self {
        Self { upstreams, events }
    }
}

impl UpstreamDirectory for Directory {
    fn write_json(&self) -> String {
        write_json(&self.upstreams)
    }

    fn write_metrics(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        write_metrics(&mut text, &self.upstreams).unwrap_or_default();
        text
    }

    fn begin_change(&self, name: &str, change: UpstreamChange) -> bool {
        let index = self.upstreams.iter().position(|it| *it.name == *name);
        if let Some(index) = index {
            self.events.record_change(index, change);
        }
        index.is_some()
    }
}
