//! The servers behind this one, as operators see them.

use std::fmt;

/// The servers behind a gateway. Shards call the functions, which must not block.
pub trait UpstreamDirectory: fmt::Debug + Send + Sync {
    /// Returns all of them as a JSON document.
    fn write_json(&self) -> String;

    /// Returns their metrics in the text format of Prometheus.
    fn write_metrics(&self) -> String;
}
