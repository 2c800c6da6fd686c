//! Which operations of a document become tools.

use super::declaration::OperationFilter;

/// What a filter compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationTraits<'a> {
    pub(super) path: &'a str,
    /// Method in upper case.
    pub(super) method: &'a str,
    pub(super) operation_id: Option<&'a str>,
    pub(super) tags: &'a [&'a str],
}

impl OperationFilter {
    /// Whether the filter has a key.
    pub(super) fn has_key(&self) -> bool {
        [&self.tag, &self.path, &self.method, &self.operation].into_iter().any(Option::is_some)
    }

    /// Whether the filter applies to an operation.
    pub(super) fn applies(&self, operation: &OperationTraits<'_>) -> bool {
        let Self { tag, path, method, operation: id } = self;
        let is = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| matches(pattern, text))
        };
        let has_tag = tag.is_none() || operation.tags.iter().any(|it| is(tag, it));
        let has_method = method.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(operation.method));
        let has_id = is(id, operation.operation_id.unwrap_or_default());
        has_tag && has_method && has_id && is(path, operation.path)
    }

    /// The filter as it stands in the file.
    pub(super) fn describe(&self) -> String {
        let Self { tag, path, method, operation } = self;
        let keys = [("tag", tag), ("path", path), ("method", method), ("operation", operation)];
        let given = keys
            .iter()
            .filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} = {value:?}")));
        format!("{{ {} }}", given.collect::<Vec<_>>().join(", "))
    }
}

/// Whether `text` is as `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(index) => rest = &rest[index + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        let yes = [["*", ""], ["a", "a"], ["/a/*", "/a/b/c"], ["*b*d", "abcd"], ["a*a", "aba"]];
        for [pattern, text] in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for [pattern, text] in [["", "a"], ["a", "ab"], ["a*a", "a"], ["*b*d", "abce"]] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
