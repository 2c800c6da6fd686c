//! Durations as written in plans and flags: `500us`, `20ms`, `10s`, `1m 30s`; a number alone is in
//! seconds. The longest is 365 days, so that sums of them fit into a [`Duration`].

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest duration: 365 days.
const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

/// A duration that parses from and prints as human-readable text.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct HumanDuration(Duration);

impl HumanDuration {
    /// Returns a duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the standard library's duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl FromStr for HumanDuration {
    type Err = HumanDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = text.trim().parse::<f64>().ok();
        let duration = match seconds.map(Duration::try_from_secs_f64) {
            Some(Ok(duration)) => duration,
            // More seconds than any duration has.
            Some(Err(_)) if seconds > Some(DURATION_MAX.as_secs_f64()) => {
                return Err(HumanDurationError::TooLong(text.to_owned()));
            }
            _ => humantime::parse_duration(text).map_err(HumanDurationError::Malformed)?,
        };
        if duration > DURATION_MAX {
            return Err(HumanDurationError::TooLong(text.to_owned()));
        }
        Ok(Self(duration))
    }
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq)]
pub enum HumanDurationError {
    /// It is no duration at all.
    Malformed(humantime::DurationError),
    /// It is longer than 365 days.
    TooLong(String),
}

impl fmt::Display for HumanDurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(formatter),
            Self::TooLong(text) => write!(formatter, "{text}: a duration is 365 days at most"),
        }
    }
}

impl Error for HumanDurationError {}

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(formatter)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match TextOrSeconds::deserialize(deserializer)? {
            TextOrSeconds::Text(text) => text,
            TextOrSeconds::Seconds(seconds) => seconds.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A duration in a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a duration such as \"20ms\", or a number of seconds")]
enum TextOrSeconds {
    Text(String),
    Seconds(f64),
}

impl JsonSchema for HumanDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "format": "duration" })
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_number_is_seconds() {
        let parsed = |text: &str| text.parse::<HumanDuration>().ok().map(HumanDuration::get);
        assert_eq!(parsed("10"), Some(Duration::from_secs(10)));
        assert_eq!(parsed("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(parsed("500us"), Some(Duration::from_micros(500)));
        assert_eq!(parsed("0"), Some(Duration::ZERO));
        for text in ["", "-1", "nan", "inf", "1e400", "x"] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let read: Vec<HumanDuration> = serde_json::from_str(r#"[2, 0.25, "3", "1ms"]"#).unwrap();
        let read: Vec<u128> = read.iter().map(|it| it.get().as_millis()).collect();
        assert_eq!(read, [2_000, 250, 3_000, 1]);
    }

    #[test]
    fn duration_above_a_year_is_refused() {
        let parse = |text: &str| text.parse::<HumanDuration>();
        assert_eq!(parse("365days").map(HumanDuration::get), Ok(DURATION_MAX));
        for text in ["366days", "1e9", "1e300", "500000000000years"] {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("{text}: a duration is 365 days at most"));
        }
        let read: Result<HumanDuration, _> = serde_json::from_str("1e18");
        assert!(read.unwrap_err().to_string().contains("a duration is 365 days at most"));
    }
}
