//! Amounts of memory as written in plans and flags: `10 MiB`, `512KiB`, `1.5 GiB`; a number alone
//! is in bytes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units with their bytes, largest first.
const UNITS: [(&str, u32); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// An amount of memory that parses from and prints as human-readable text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct HumanBytes(f64);

impl HumanBytes {
    /// Returns the number of bytes.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for HumanBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unit =
            UNITS.into_iter().find_map(|(name, bytes)| Some((text.strip_suffix(name)?, bytes)));
        let (number, bytes) = unit.unwrap_or((text, 1));
        match number.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => {
                Ok(Self(number * f64::from(bytes)))
            }
            _ => Err(format!("{text} is no amount of memory: write 512KiB, 10MiB or 1GiB")),
        }
    }
}

impl fmt::Display for HumanBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = UNITS.into_iter().find(|(_, bytes)| self.0 >= f64::from(*bytes));
        let (name, bytes) = fitting.unwrap_or(("B", 1));
        write!(formatter, "{} {name}", self.0 / f64::from(bytes))
    }
}

impl<'de> Deserialize<'de> for HumanBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match TextOrBytes::deserialize(deserializer)? {
            TextOrBytes::Text(text) => text,
            TextOrBytes::Bytes(bytes) => bytes.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An amount in a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "an amount of memory such as \"10 MiB\", or a number of bytes")]
enum TextOrBytes {
    Text(String),
    Bytes(f64),
}

impl JsonSchema for HumanBytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "format": "bytes" })
    }
}

impl Serialize for HumanBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_have_units() {
        let read = |text: &str| text.parse().ok().map(HumanBytes::get);
        assert_eq!(read("10 MiB"), Some(10_485_760.0));
        assert_eq!(read("1.5GiB"), Some(1_610_612_736.0));
        assert_eq!([read("512KiB"), read("4096")], [Some(524_288.0), Some(4_096.0)]);
        for text in ["", "MiB", "-1 MiB", "10 MB", "nan", "inf"] {
            assert_eq!(read(text), None, "{text}");
        }
        let shown = ["10MiB", "1536KiB", "100", "0"]
            .map(|text| text.parse::<HumanBytes>().unwrap().to_string());
        assert_eq!(shown, ["10 MiB", "1.5 MiB", "100 B", "0 B"]);
        let read: [HumanBytes; 2] = serde_json::from_str(r#"["1 KiB", 1024]"#).unwrap();
        assert_eq!(read[0], read[1]);
    }
}
