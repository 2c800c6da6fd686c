//! Notifications that belong to no call, and the callbacks that receive them.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::session::ReceivedMessage;
use corelane_protocol::eras::LoggingLevel;

/// Called on the I/O thread for each notification that belongs to no call.
type NotificationCallback = Box<dyn Fn(ReceivedMessage) + Send + Sync>;

/// Called on the I/O thread for each log message.
type LogCallback = Box<dyn Fn(LogMessage) + Send + Sync>;

/// A log message of the server (`notifications/message`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// Its severity.
    pub level: LoggingLevel,
    /// The part of the server that sent it.
    pub logger: Option<String>,
    /// What it says: a text or any other JSON value.
    pub data: Value,
}

impl LogMessage {
    /// Reads a notification; `None` if it is another one, or invalid.
    fn read(message: &ReceivedMessage) -> Option<Self> {
        #[derive(Deserialize)]
        struct Notification {
            method: String,
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            level: String,
            logger: Option<String>,
            #[serde(default)]
            data: Value,
        }
        let Notification { method, params } = serde_json::from_slice(message.as_bytes()).ok()?;
        let Params { level, logger, data } = params;
        let (level, _) = *LoggingLevel::ALL.iter().find(|(_, name)| *name == level)?;
        (method == "notifications/message").then_some(Self { level, logger, data })
    }
}

/// The callbacks of a client.
#[derive(Default)]
pub(super) struct NotificationHandlers {
    on_log: Option<(Option<LoggingLevel>, LogCallback)>,
    on_notification: Option<NotificationCallback>,
}

impl NotificationHandlers {
    pub(super) fn set_log(
        &mut self,
        level: Option<LoggingLevel>,
        on_log: impl Fn(LogMessage) + Send + Sync + 'static,
    ) {
        self.on_log = Some((level, Box::new(on_log)));
    }

    pub(super) fn set_all(
        &mut self,
        on_notification: impl Fn(ReceivedMessage) + Send + Sync + 'static,
    ) {
        self.on_notification = Some(Box::new(on_notification));
    }

    /// Returns the level of the log messages that are wanted, unless the requests state it.
    pub(super) fn log_level(&self) -> Option<LoggingLevel> {
        self.on_log.as_ref().and_then(|(level, _)| *level)
    }

    /// Passes on a notification. A log message goes to its own callback if there is one.
    pub(super) fn handle(&self, message: ReceivedMessage) {
        if let Some((_, on_log)) = &self.on_log
            && let Some(log) = LogMessage::read(&message)
        {
            return on_log(log);
        }
        if let Some(on_notification) = &self.on_notification {
            on_notification(message);
        }
    }
}

impl fmt::Debug for NotificationHandlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NotificationHandlers").finish_non_exhaustive()
    }
}
