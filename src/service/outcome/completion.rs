//! How an argument may go on.

use std::borrow::Cow;

use crate::protocol::message::COMPLETION_VALUES_MAX;

/// Values that an argument may take, best first.
///
/// ```
/// use corelane::service::Completion;
///
/// let completion = Completion::starting(["green", "grey", "red"], "gr");
/// assert_eq!(completion.values(), ["green", "grey"]);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Completion {
    values: Vec<Cow<'static, str>>,
    total: Option<u64>,
    has_more: bool,
}

impl Completion {
    /// Nothing to offer.
    pub const NONE: Self = Self { values: Vec::new(), total: None, has_more: false };

    /// These values, in this order. Only the first 100 are sent; where there were more, the client
    /// is told so and how many.
    pub fn of<T: Into<Cow<'static, str>>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter();
        let kept: Vec<_> = values.by_ref().take(COMPLETION_VALUES_MAX).map(Into::into).collect();
        let rest = values.count();
        let total = Some((kept.len() + rest) as u64);
        Self { values: kept, total, has_more: rest > 0 }
    }

    /// Those of `values` that begin with `typed`, without regard to ASCII case.
    pub fn starting<T>(values: impl IntoIterator<Item = T>, typed: &str) -> Self
    where
        T: Into<Cow<'static, str>>,
    {
        let begins = |value: &Cow<'_, str>| {
            let head = value.as_bytes().get(..typed.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(typed.as_bytes()))
        };
        Self::of(values.into_iter().map(Into::into).filter(begins))
    }

    /// The same values, `total` of how many there are in all: for sources that give a part.
    #[must_use]
    pub fn of_total(self, total: u64) -> Self {
        let has_more = self.has_more || total > self.values.len() as u64;
        Self { total: Some(total), has_more, ..self }
    }

    /// The values that are sent.
    pub fn values(&self) -> &[Cow<'static, str>] {
        &self.values
    }

    /// How many there are in all, where that is known.
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether there are more than are sent.
    pub const fn has_more(&self) -> bool {
        self.has_more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_hundred_values_are_kept_and_the_rest_is_told() {
        let completion = Completion::of((0..150).map(|count| count.to_string()));
        assert_eq!(completion.values().len(), 100);
        assert_eq!((completion.total(), completion.has_more()), (Some(150), true));
        let completion = Completion::of(["a"]);
        assert_eq!((completion.total(), completion.has_more()), (Some(1), false));
        assert!(completion.of_total(2).has_more());
    }

    #[test]
    fn a_beginning_is_found_whatever_its_case() {
        let values = ["Paris", "Päris", "park", "Oslo"];
        assert_eq!(Completion::starting(values, "PA").values(), ["Paris", "park"]);
        assert_eq!(Completion::starting(values, "").values().len(), 4);
        assert!(Completion::starting(values, "pä").values().len() <= 1, "no panic inside a letter");
    }
}
