//! Suggestions for misspelled names.
//!
//! A suggestion is always one of the candidates. The same words in another order
//! (`tcp.max_connections`) and the last part of a key (`connections_max`) count as close matches.

/// Returns the candidate most similar to `word`, the first of several, or `None` if none is similar
/// enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (similarity(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, candidate)| candidate)
}

/// Returns the similarity from 0 (nothing in common) to 1 (the same words).
fn similarity(word: &str, candidate: &str) -> f64 {
    let (word, candidate) = (word.to_lowercase(), candidate.to_lowercase());
    if sorted_words(&word) == sorted_words(&candidate) {
        return 1.0;
    }
    if strsim::damerau_levenshtein(&word, &candidate) == 1 {
        return 0.9;
    }
    let last = candidate.rsplit('.').next().unwrap_or(&candidate);
    let whole = strsim::normalized_damerau_levenshtein(&word, &candidate);
    let end = 0.95 * strsim::normalized_damerau_levenshtein(&word, last);
    whole.max(end)
}

/// Returns the words of a name, sorted.
fn sorted_words(name: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = name.split(['.', '_', '-']).collect();
    parts.sort_unstable();
    parts
}

/// Determined with the table's keys: one or two typing errors stay above it, and no two keys of
/// different meaning reach it.
const SIMILARITY_MIN: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = ["tcp.connections_max", "tcp.idle_timeout", "shards", "http.address"];

    #[test]
    fn misspelled_reordered_and_partial_keys_are_suggested() {
        for (word, key) in [
            ("tcp.conections_max", "tcp.connections_max"),
            ("tcp.max_connections", "tcp.connections_max"),
            ("connections_max", "tcp.connections_max"),
            ("TCP-CONNECTIONS-MAX", "tcp.connections_max"),
            ("shrads", "shards"),
            ("shard", "shards"),
        ] {
            assert_eq!(nearest(word, KEYS), Some(key), "{word}");
        }
    }

    #[test]
    fn one_typo_in_short_word_is_suggested() {
        assert_eq!(nearest("tpc", ["http", "ring", "tcp"]), Some("tcp"));
    }

    #[test]
    fn dissimilar_words_get_no_suggestion() {
        for word in ["", "x", "colour", "tls.certificate"] {
            assert_eq!(nearest(word, KEYS), None, "{word}");
        }
    }
}
