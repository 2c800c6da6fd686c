//! Durations as written in plans and flags: `500us`, `20ms`, `10s`, `1m 30s`; a number alone is in
//! seconds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = text.trim().parse::<f64>().ok();
        match seconds.map(Duration::try_from_secs_f64) {
            Some(Ok(duration)) => Ok(Self(duration)),
            _ => humantime::parse_duration(text).map(Self),
        }
    }
}

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
}
