//! Latencies that were not measured, in files.
//!
//! No latency is zero, so that zero in memory and null in a file mean that there is none. Zero in
//! results of earlier versions means the same.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a latency, or null for zero.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(us: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*us).filter(|us| *us > 0.0).serialize(serializer)
}

/// Reads a latency, or null as zero.
///
/// # Errors
///
/// Those of the deserializer.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a figure, of which zero means in results of earlier versions that it was not measured.
///
/// # Errors
///
/// Those of the deserializer.
pub fn measured<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de> + PartialEq,
{
    Ok(Option::deserialize(deserializer)?.filter(|value| *value != T::default()))
}
