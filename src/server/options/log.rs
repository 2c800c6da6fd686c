//! The options of log lines.

use super::declare::options;
use super::value::Choice;

options! {
    /// Log options. Events go to standard error.
    pub struct LogOptions at |options| options.log;

    group SERVER {
        /// Least severe level of log events written to standard error.
        #[option("log.level" | "log", Choice(LogLevel::NAMES), reload)]
        #[cost = "debug writes a line per connection, at most ten a second per shard"]
        pub level: LogLevel = LogLevel::Info;

        /// Format of log lines: text, or json with one object a line.
        #[option("log.format", Choice(LogFormat::NAMES), reload)]
        #[cost = "json lines are longer"]
        pub format: LogFormat = LogFormat::Text;
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Time, level, message, then `key=value` for each field.
    #[default]
    Text,
    /// A JSON object with `time`, `level`, `message` and the fields.
    Json,
}

/// The level of log events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Start-up lines only.
    Off,
    /// Events that end the service.
    Error,
    /// Events that need an operator's attention.
    Warn,
    /// Events of the process.
    #[default]
    Info,
    /// Events of each connection.
    Debug,
    /// All events.
    Trace,
}
