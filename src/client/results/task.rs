//! Tasks of the server.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::whole_number;
use corelane_protocol::model::TaskStatus;

/// A task as the server describes it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id for [`Client::task`](crate::Client::task).
    pub task_id: String,
    /// What it is doing.
    #[serde(deserialize_with = "read_status")]
    pub status: TaskStatus,
    /// The same in words.
    pub status_message: Option<String>,
    /// When it was created: a timestamp of RFC 3339.
    pub created_at: Option<String>,
    /// When its status changed: a timestamp of RFC 3339.
    pub last_updated_at: Option<String>,
    /// Time in milliseconds from its creation to its removal; `None` if it is not removed.
    #[serde(alias = "ttl", default, deserialize_with = "whole_number")]
    pub ttl_ms: Option<u64>,
    /// Time in milliseconds that the client is to wait between two looks at it.
    #[serde(alias = "pollInterval", default, deserialize_with = "whole_number")]
    pub poll_interval_ms: Option<u64>,
}

impl TaskInfo {
    /// Returns the time from its creation to its removal; `None` if it is not removed.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl_ms.map(Duration::from_millis)
    }
}

fn read_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskStatus, D::Error> {
    let name = String::deserialize(deserializer)?;
    TaskStatus::parse(&name).ok_or_else(|| D::Error::custom(format!("unknown status {name}")))
}
