//! JSON Schema of the files that `--json` writes, made from the types that write them.

use schemars::{Schema, generate::SchemaSettings};
use serde_json::Value;

use crate::comparison::ComparisonFile;
use crate::result::RunResult;
use crate::sweep::SweepResult;

/// A kind of result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResultKind {
    /// Of `run`.
    Run,
    /// Of `search`.
    Search,
    /// Of `compare`.
    Comparison,
}

impl ResultKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Run, Self::Search, Self::Comparison];

    /// Returns the name of the command's result.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Search => "search",
            Self::Comparison => "comparison",
        }
    }

    /// Returns the kind of a result, or `None` if it is none.
    pub fn of(result: &Value) -> Option<Self> {
        let has = |key| result.get(key).is_some();
        if has("comparisons") {
            Some(Self::Comparison)
        } else if has("steps") {
            Some(Self::Search)
        } else {
            Some(Self::Run).filter(|_| has("verdict") && has("totals"))
        }
    }

    /// Returns the schema (JSON Schema 2020-12).
    pub fn schema(self) -> Value {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let schema: Schema = match self {
            Self::Run => generator.into_root_schema_for::<RunResult>(),
            Self::Search => generator.into_root_schema_for::<SweepResult>(),
            Self::Comparison => generator.into_root_schema_for::<ComparisonFile>(),
        };
        schema.to_value()
    }
}
