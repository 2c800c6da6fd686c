//! The options of log lines.

/// Log options. Events go to standard error.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LogOptions {
    /// The least severe level that is logged. Default [`LogLevel::Info`].
    pub level: LogLevel,
    /// The format of a line. Default [`LogFormat::Text`].
    pub format: LogFormat,
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
