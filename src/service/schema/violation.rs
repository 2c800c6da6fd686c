//! Description of a value that violates a schema, for the model that sent it.
//!
//! Built only for invalid values, so that valid ones cost no allocation.

use std::fmt;

/// A violation of a schema. Boxed, so that `Result<(), Violation>` is one word.
#[derive(Clone, Debug)]
pub(super) struct Violation(Box<ViolationDetails>);

/// The violation and its location.
#[derive(Clone, Debug)]
struct ViolationDetails {
    /// Path to the value, joined by dots; empty for the root.
    path: String,
    /// What is wrong, phrased to follow the path.
    problem: String,
}

/// A limit in an error message.
#[derive(Clone, Copy, Debug)]
pub(super) enum BoundValue {
    /// A number of units, such as characters.
    Count(usize, &'static str),
    /// A number.
    Number(f64),
}

impl Violation {
    #[cold]
    fn new(problem: String) -> Self {
        Self(Box::new(ViolationDetails { path: String::new(), problem }))
    }

    /// A number or length is out of bounds: "must be at least 3".
    #[cold]
    pub(super) fn out_of_bounds(relation: &str, bound: BoundValue) -> Self {
        Self::new(match bound {
            BoundValue::Count(count, unit) => format!("must have {relation} {count} {unit}"),
            BoundValue::Number(number) => format!("must be {relation} {number}"),
        })
    }

    /// The value is not one of `enum` or `const`.
    #[cold]
    pub(super) fn not_allowed_value(choices: impl Iterator<Item = String>) -> Self {
        Self::new(format!("must be {}", join_alternatives(choices)))
    }

    /// The value has the wrong type.
    #[cold]
    pub(super) fn wrong_type(kinds: impl Iterator<Item = &'static str>) -> Self {
        Self::new(format!("must be {}", join_alternatives(kinds.map(String::from))))
    }

    /// A required member is missing.
    #[cold]
    pub(super) fn missing() -> Self {
        Self::new(String::from("is missing"))
    }

    /// An additional member that is not allowed.
    #[cold]
    pub(super) fn unknown_property() -> Self {
        Self::new(String::from("is not allowed: unknown property"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ViolationDetails { path, problem } = &*self.0;
        if path.is_empty() {
            return write!(formatter, "arguments: {problem}");
        }
        write!(formatter, "`{path}` {problem}")
    }
}

/// Adds the parent member or index `name` to the path of a violation.
#[cold]
pub(super) fn within(name: &str, mut inner: Violation) -> Violation {
    let path = &mut inner.0.path;
    let separator = if path.is_empty() { "" } else { "." };
    path.insert_str(0, separator);
    path.insert_str(0, name);
    inner
}

fn join_alternatives(choices: impl Iterator<Item = String>) -> String {
    choices.collect::<Vec<_>>().join(" or ")
}
