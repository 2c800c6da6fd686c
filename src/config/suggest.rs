//! What somebody may have meant.
//!
//! What it keeps true: a proposal is always one of the candidates, and far words get none. The
//! same words in another order (`tcp.max_connections`) and the same ending (`connections_max`)
//! count as near as a slip of the finger.

/// The candidate nearest to `word`, where one is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (likeness(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// From 0 (nothing in common) to 1 (the same).
fn likeness(word: &str, candidate: &str) -> f64 {
    let (word, candidate) = (word.to_lowercase(), candidate.to_lowercase());
    if parts(&word) == parts(&candidate) {
        return 1.0;
    }
    if strsim::damerau_levenshtein(&word, &candidate) == 1 {
        return 0.9;
    }
    let ending = candidate.rsplit('.').next().unwrap_or(&candidate);
    let whole = strsim::normalized_damerau_levenshtein(&word, &candidate);
    let end = 0.95 * strsim::normalized_damerau_levenshtein(&word, ending);
    whole.max(end)
}

/// The words that a name is made of, in alphabetical order.
fn parts(name: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = name.split(['.', '_', '-']).collect();
    parts.sort_unstable();
    parts
}

/// Found by trying the table's keys with one and two slips: those stay above it, and no two keys
/// of different meaning come near.
const LIKENESS_MIN: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = ["tcp.connections_max", "tcp.idle_ms_max", "shards", "http.address"];

    #[test]
    fn slips_other_orders_and_missing_sections_find_their_key() {
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
    fn one_slip_is_near_even_in_a_short_word() {
        assert_eq!(nearest("tpc", ["http", "ring", "tcp"]), Some("tcp"));
    }

    #[test]
    fn far_words_get_no_proposal() {
        for word in ["", "x", "colour", "tls.certificate"] {
            assert_eq!(nearest(word, KEYS), None, "{word}");
        }
    }
}
