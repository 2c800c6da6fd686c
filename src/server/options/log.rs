//! The options of log lines.

use super::declare::options;
use super::value::{Choice, choice};

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

choice! {
    /// The format of log lines.
    #[non_exhaustive]
    pub enum LogFormat {
        /// Time, level, message, then `key=value` for each field.
        #[default]
        Text = "text",
        /// A JSON object with `time`, `level`, `message` and the fields.
        Json = "json",
    }
}

choice! {
    /// The level of log events.
    #[non_exhaustive]
    pub enum LogLevel {
        /// Start-up lines only.
        Off = "off",
        /// Events that end the service.
        Error = "error",
        /// Events that need an operator's attention.
        Warn = "warn",
        /// Events of the process.
        #[default]
        Info = "info",
        /// Events of each connection.
        Debug = "debug",
        /// All events.
        Trace = "trace",
    }
}
