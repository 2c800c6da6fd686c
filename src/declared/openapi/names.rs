//! Names of tools and arguments.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

/// Characters of a name at most.
const NAME_MAX: usize = 64;
/// Characters of the digest that makes a shortened name unique.
const DIGEST_CHARACTERS: usize = 8;

/// The name of the tool of an operation: `operationId`, or method and path. It depends on nothing
/// else, unless an operation before it has the same name.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    used: BTreeSet<String>,
}

impl ToolNames {
    /// Chooses the name of an operation; `place` is its method and path.
    pub(super) fn choose(&mut self, prefix: &str, id: Option<&str>, place: &str) -> String {
        let id = id.map(clean).filter(|id| !id.is_empty());
        let whole = format!("{prefix}{}", id.unwrap_or_else(|| clean(&place.to_lowercase())));
        let mut name = shorten(&whole, &whole);
        if !self.used.insert(name.clone()) {
            let room = NAME_MAX - DIGEST_CHARACTERS - 1;
            name = format!("{}_{}", &whole[..whole.len().min(room)], digest(place));
            self.used.insert(name.clone());
        }
        name
    }
}

/// Chooses an argument name that is not in `used`, for a parameter in `place`.
pub(super) fn argument_name(used: &BTreeSet<String>, name: &str, place: &str) -> String {
    let plain = clean(name);
    let plain = if plain.is_empty() { "value".to_owned() } else { plain };
    let first = shorten(&plain, name);
    if !used.contains(&first) {
        return first;
    }
    let with_place = shorten(&format!("{plain}_{place}"), &format!("{name} {place}"));
    if !used.contains(&with_place) {
        return with_place;
    }
    let numbered = (2_u32..).map(|number| {
        let whole = format!("{plain}_{place}_{number}");
        shorten(&whole, &format!("{name} {place} {number}"))
    });
    numbered.into_iter().find(|name| !used.contains(name)).unwrap_or(with_place)
}

/// `text` with `_` in place of each run of characters that names cannot have.
pub(super) fn clean(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || "_-".contains(character) {
            name.push(character);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_matches('_').to_owned()
}

/// `name` if it is short enough, else its beginning and the digest of `whole`.
fn shorten(name: &str, whole: &str) -> String {
    if name.len() <= NAME_MAX {
        return name.to_owned();
    }
    format!("{}_{}", &name[..NAME_MAX - DIGEST_CHARACTERS - 1], digest(whole))
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let start = digest.iter().take(DIGEST_CHARACTERS / 2);
    format!("{:08x}", start.fold(0_u32, |number, &byte| (number << 8) | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_is_clean_short_and_unique() {
        let mut names = ToolNames::default();
        assert_eq!(names.choose("", Some("repos/get-all"), "GET /a"), "repos_get-all");
        assert_eq!(names.choose("gh_", None, "GET /pets/{petId}"), "gh_get_pets_petid");
        let long = "x".repeat(80);
        let first = names.choose("", Some(&long), "GET /x");
        assert_eq!(first.len(), 64);
        let again = names.choose("", Some(&long), "GET /y");
        assert!(again.len() == 64 && again != first);
        let same = names.choose("", Some("repos.get-all"), "POST /a");
        assert!(same.starts_with("repos_get-all_") && same.len() == 22, "{same}");
        assert_eq!(names.choose("", Some("\u{e4}\u{1f980}"), "GET /z"), "get_z");
    }

    #[test]
    fn argument_names_are_distinct() {
        let mut used = BTreeSet::new();
        let mut choose = |name: &str, place: &str| {
            let name = argument_name(&used, name, place);
            used.insert(name.clone());
            name
        };
        assert_eq!(choose("id", "path"), "id");
        assert_eq!(choose("id", "query"), "id_query");
        assert_eq!(choose("id", "body"), "id_body");
        assert_eq!(choose("id_body", "body"), "id_body_body");
        assert_eq!(choose("id", "body"), "id_body_2");
        assert_eq!(choose("filter[a.b]", "query"), "filter_a_b");
        assert_eq!(choose("$", "query"), "value");
    }
}
