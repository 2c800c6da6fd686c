//! What is wrong with a value, as a sentence that names the place.
//!
//! What it keeps true: nothing here is built before something is wrong, so that a value that is
//! right costs no allocation. A model reads these sentences and corrects itself by them.

use std::fmt;

/// One value that is not what its rule says. One word, so that a check that passes hands back
/// little.
#[derive(Clone, Debug)]
pub(super) struct Violation(Box<Finding>);

/// What was found, and where.
#[derive(Clone, Debug)]
struct Finding {
    /// The way to the value, joined by points; empty for the whole.
    place: String,
    /// The rest of the sentence.
    problem: String,
}

/// A bound, in the words of its kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    /// So many of something.
    Count(usize, &'static str),
    /// A plain number.
    Number(f64),
}

impl Violation {
    #[cold]
    fn new(problem: String) -> Self {
        Self(Box::new(Finding { place: String::new(), problem }))
    }

    /// It is beyond a bound: "must be at least 3".
    #[cold]
    pub(super) fn bound(relation: &str, bound: Amount) -> Self {
        Self::new(match bound {
            Amount::Count(count, unit) => format!("must have {relation} {count} {unit}"),
            Amount::Number(number) => format!("must be {relation} {number}"),
        })
    }

    /// It is none of the values it may be.
    #[cold]
    pub(super) fn choice(choices: impl Iterator<Item = String>) -> Self {
        Self::new(format!("must be {}", alternatives(choices)))
    }

    /// It has another kind.
    #[cold]
    pub(super) fn kind(kinds: impl Iterator<Item = &'static str>) -> Self {
        Self::new(format!("must be {}", alternatives(kinds.map(String::from))))
    }

    /// It is not there.
    #[cold]
    pub(super) fn missing() -> Self {
        Self::new(String::from("is missing"))
    }

    /// It must not be there.
    #[cold]
    pub(super) fn unknown() -> Self {
        Self::new(String::from("is not known"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { place, problem } = &*self.0;
        if place.is_empty() {
            return write!(formatter, "the arguments: {problem}");
        }
        write!(formatter, "`{place}` {problem}")
    }
}

/// The same violation, seen from one level above: inside of `name`.
#[cold]
pub(super) fn at(name: &str, mut inner: Violation) -> Violation {
    let place = &mut inner.0.place;
    let joint = if place.is_empty() { "" } else { "." };
    place.insert_str(0, joint);
    place.insert_str(0, name);
    inner
}

fn alternatives(choices: impl Iterator<Item = String>) -> String {
    choices.collect::<Vec<_>>().join(" or ")
}
