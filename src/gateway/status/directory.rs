//! The upstreams as the server shows them to operators.

use std::sync::Arc;

use crate::gateway::status::UpstreamStatus;
use crate::gateway::status::exposition::write_metrics;
use crate::gateway::status::json::write_json;
use crate::server::UpstreamDirectory;

/// The statuses of all upstreams, in their order.
#[derive(Debug)]
pub struct Directory {
    upstreams: Vec<Arc<UpstreamStatus>>,
}

impl Directory {
    pub const fn new(upstreams: Vec<Arc<UpstreamStatus>>) -> Self {
        Self { upstreams }
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
}
