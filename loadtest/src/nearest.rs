//! The known name that a misspelled one means.

/// Similarity from which a name is taken for a misspelling of another, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.6;

/// Returns the name that is most similar to `name`, if one is similar.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let similarity =
        |other: &str| strsim::normalized_damerau_levenshtein(&name, &other.to_lowercase());
    let candidates = known.into_iter().map(|other| (similarity(other), other));
    let similar = candidates.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_name_is_recognized() {
        let known = ["search", "fetch", "get_weather"];
        for (name, meant) in [
            ("serach", Some("search")),
            ("Search", Some("search")),
            ("getWeather", Some("get_weather")),
            ("delete", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
