//! Figures that were not measured, in files of earlier versions.

use serde::{Deserialize, Deserializer};

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
