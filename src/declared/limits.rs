//! Limits of one declaration: rate, calls at once, time, bytes of the output.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::declared::problem::Problem;
use crate::guard::rate::rules::RateRules;
use crate::server::options::unit::Unit;

/// A number with a unit as in the options: `"30s"`, `"1MiB"`, or a plain number.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum Quantity {
    /// A number without unit: milliseconds or bytes.
    Number(u64),
    /// A number with its unit.
    Text(String),
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }
}

impl Quantity {
    /// The number in `unit`.
    ///
    /// # Errors
    ///
    /// It is not a number of the unit, or out of its range.
    pub fn parse(&self, key: &str, unit: &Unit) -> Result<u64, Problem> {
        let parsed = match self {
            Self::Number(number) => unit.parse(&number.to_string()),
            Self::Text(text) => unit.parse(text),
        };
        parsed.map_err(|error| Problem::new(key, error.message, error.hint))
    }
}

/// Limits of one declaration.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsDeclaration {
    /// Rate of calls, such as `10/s burst=20 per=principal`, as in `rate.rules`. Default: none.
    pub rate: Option<String>,
    /// Calls that run at once. Further ones wait within their `timeout`. Default: no limit.
    pub calls: Option<u32>,
    /// Time of one call, in milliseconds or such as `30s`. Default `60s`.
    pub timeout: Option<Quantity>,
    /// Bytes of the output of one call, such as `1MiB`. A call with more fails. Default `1MiB`.
    pub output_bytes: Option<Quantity>,
}

/// Limits that a call keeps while it runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallLimits {
    /// Time of the call.
    pub timeout: Duration,
    /// Bytes of its output.
    pub output_bytes_max: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_mins(1), output_bytes_max: 1 << 20 }
    }
}

const TIMEOUT: Unit = Unit::Milliseconds { min: 1, max: 24 * 3600 * 1000 };
const OUTPUT_BYTES: Unit = Unit::Bytes { min: 1, max: 1 << 30 };

impl LimitsDeclaration {
    /// The limits of a call.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub fn call_limits(&self) -> Result<CallLimits, Problem> {
        let mut limits = CallLimits::default();
        if let Some(timeout) = &self.timeout {
            limits.timeout = Duration::from_millis(timeout.parse("limits.timeout", &TIMEOUT)?);
        }
        if let Some(bytes) = &self.output_bytes {
            let bytes = bytes.parse("limits.output_bytes", &OUTPUT_BYTES)?;
            limits.output_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        if self.calls == Some(0) {
            let hint = "write 1 or more, or enabled = false";
            return Err(Problem::new("limits.calls", "is 0", hint));
        }
        if let Some(rate) = &self.rate {
            check_rate(rate)?;
        }
        Ok(limits)
    }

    /// The rate rule of the tool `name`, as in the option `rate.rules`.
    pub fn rate_rule(&self, name: &str) -> Option<String> {
        self.rate.as_ref().map(|rate| format!("tools/call {name} rate={rate}"))
    }
}

/// Checks a rate as it stands in a rule of `rate.rules`.
///
/// # Errors
///
/// It is no rate.
fn check_rate(rate: &str) -> Result<(), Problem> {
    let rule = format!("tools/call rate={rate}");
    let Err(error) = RateRules::parse(std::slice::from_ref(&rule)) else { return Ok(()) };
    let message = error.strip_prefix(&format!("\"{rule}\": ")).unwrap_or(&error);
    let hint = "write a rate such as \"10/s burst=20 per=principal\"";
    Err(Problem::new("limits.rate", message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_units_and_defaults() {
        let read = |text: &str| toml::from_str::<LimitsDeclaration>(text).unwrap().call_limits();
        assert_eq!(read(""), Ok(CallLimits::default()));
        let limits = read("timeout = \"2s\"\noutput_bytes = 4096").unwrap();
        assert_eq!((limits.timeout.as_secs(), limits.output_bytes_max), (2, 4096));
        for wrong in [
            "timeout = 0",
            "timeout = \"x\"",
            "output_bytes = \"2GiB\"",
            "calls = 0",
            "rate = \"often\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
