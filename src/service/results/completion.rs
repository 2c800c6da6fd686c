//! Result of a completer: possible values of an argument.

use std::borrow::Cow;

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::model::COMPLETION_VALUES_MAX;

/// Values that complete an argument, best first.
///
/// ```
/// use corelane::Completion;
///
/// let completion = Completion::with_prefix(["green", "grey", "red"], "gr");
/// assert_eq!(completion.values(), ["green", "grey"]);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Completion {
    values: Vec<Cow<'static, str>>,
    total: Option<u64>,
    has_more: bool,
}

impl Completion {
    /// No values.
    pub const EMPTY: Self = Self { values: Vec::new(), total: None, has_more: false };

    /// Completes with `values` in this order. The first 100 are sent (the limit of the
    /// specification); `total` counts all of them, and `hasMore` is true if there are more.
    pub fn from_values<T: Into<Cow<'static, str>>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter();
        let kept: Vec<_> = values.by_ref().take(COMPLETION_VALUES_MAX).map(Into::into).collect();
        let rest = values.count();
        let total = Some((kept.len() + rest) as u64);
        Self { values: kept, total, has_more: rest > 0 }
    }

    /// Completes with those of `values` that start with `typed`, ignoring ASCII case.
    pub fn with_prefix<T>(values: impl IntoIterator<Item = T>, typed: &str) -> Self
    where
        T: Into<Cow<'static, str>>,
    {
        let has_prefix = |value: &Cow<'_, str>| {
            let prefix = value.as_bytes().get(..typed.len());
            prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(typed.as_bytes()))
        };
        Self::from_values(values.into_iter().map(Into::into).filter(has_prefix))
    }

    /// Sets `total`, the number of values including those not passed to this completion.
    #[must_use]
    pub fn with_total(self, total: u64) -> Self {
        let has_more = self.has_more || total > self.values.len() as u64;
        Self { total: Some(total), has_more, ..self }
    }

    /// Values to send, at most 100.
    pub fn values(&self) -> &[Cow<'static, str>] {
        &self.values
    }

    /// Number of all values, or `None` if unknown.
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether there are more values than are sent.
    pub const fn has_more(&self) -> bool {
        self.has_more
    }
}

impl HeapBytes for Completion {
    fn heap_bytes(&self) -> usize {
        self.values.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_keeps_100_values_and_counts_all() {
        let completion = Completion::from_values((0..150).map(|count| count.to_string()));
        assert_eq!(completion.values().len(), 100);
        assert_eq!((completion.total(), completion.has_more()), (Some(150), true));
        let completion = Completion::from_values(["a"]);
        assert_eq!((completion.total(), completion.has_more()), (Some(1), false));
        assert!(completion.with_total(2).has_more());
    }

    #[test]
    fn completion_prefix_ignores_ascii_case() {
        let values = ["Paris", "Päris", "park", "Oslo"];
        assert_eq!(Completion::with_prefix(values, "PA").values(), ["Paris", "park"]);
        assert_eq!(Completion::with_prefix(values, "").values().len(), 4);
        let count = Completion::with_prefix(values, "pä").values().len();
        assert!(count <= 1, "no panic inside a multi-byte character");
    }
}
