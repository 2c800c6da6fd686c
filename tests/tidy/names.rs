//! Names carry the domain: spelled out, no drawers for odds and ends, tests named as sentences.
//!
//! Looked at are the names that our code gives (after `fn`, `struct`, `mod`, `let`, …) and the
//! names of files; names that other crates gave are theirs.

use crate::Finding;
use crate::source::Source;

/// Words that say nothing, or say it short, with what to write.
const BANNED: [(&str, &str); 18] = [
    ("util", "what it does"),
    ("utils", "what it does"),
    ("helper", "what it does"),
    ("helpers", "what it does"),
    ("manager", "what it is: a slab, a table, a pool, …"),
    ("common", "what is common in it"),
    ("misc", "what it does"),
    ("msg", "message"),
    ("req", "request"),
    ("resp", "response"),
    ("cfg", "config or options"),
    ("ctx", "what it carries"),
    ("conn", "connection"),
    ("addr", "address"),
    ("tmp", "what it holds"),
    ("idx", "index"),
    ("cnt", "count"),
    ("num", "count or number"),
];

/// Keywords after which our code gives a name.
const GIVES: [&str; 10] =
    ["fn", "struct", "enum", "trait", "mod", "const", "static", "type", "let", "union"];

/// Finds names that say nothing and tests that are not sentences.
pub(crate) fn check(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 0..file.tokens.len() {
        if !GIVES.contains(&file.word(index)) {
            continue;
        }
        let after_mut = usize::from(file.word(index + 1) == "mut");
        let name = file.word(index + 1 + after_mut);
        let line = file.tokens[index].line;
        if let Some(message) = refuse(name) {
            findings.push(Finding::new(&file.path, line, message));
        }
        if file.word(index) != "fn" {
            continue;
        }
        let is_getter = name.starts_with("get_") && name != "get_mut";
        if is_getter && !file.in_test(index) && !is_given(file, index) {
            let message = format!("`{name}`: a getter is named after what it gives");
            findings.push(Finding::new(&file.path, line, message));
        }
        let is_test = index >= 4 && file.reads(index - 4, &["#", "[", "test", "]"]);
        // In a macro the name is still to come.
        if is_test && name != "$" && (name.starts_with("test_") || name.split('_').count() < 3) {
            let message = format!("test `{name}`: name it as a sentence about behaviour");
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings
}

/// Whether the trait that is implemented around the function at `index` has named it.
fn is_given(file: &Source, index: usize) -> bool {
    (0..index).filter(|&at| file.word(at) == "impl").any(|at| {
        let body = (at..index).find(|&next| file.word(next) == "{");
        body.is_some_and(|body| {
            let names_trait = (at..body).any(|next| file.word(next) == "for");
            names_trait && file.closing(body) > index
        })
    })
}

/// Finds files and folders whose name says nothing.
pub(crate) fn check_paths(paths: &[String]) -> Vec<Finding> {
    paths
        .iter()
        .filter(|path| path.ends_with(".rs"))
        .filter_map(|path| {
            let message = path.split(['/', '.']).find_map(refuse)?;
            Some(Finding::new(path, 1, message))
        })
        .collect()
}

fn refuse(name: &str) -> Option<String> {
    words(name).iter().find_map(|word| {
        let (_, instead) = BANNED.iter().find(|(banned, _)| banned == word)?;
        Some(format!("name `{name}`: `{word}` says too little; write {instead}"))
    })
}

/// The words of a name in snake case or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && after_small;
        after_small = character.is_lowercase();
        if begins || matches!(character, '_' | '-') {
            words.push(String::new());
        }
        if let (true, Some(last)) = (character.is_alphanumeric(), words.last_mut()) {
            last.extend(character.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check(&Source::new("src/x.rs", text)).into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn names_that_say_nothing_are_found_in_either_case() {
        assert_eq!(findings("struct SessionManager;").len(), 1);
        assert_eq!(findings("mod utils;").len(), 1);
        assert_eq!(findings("fn parse_req() {}").len(), 1);
        assert_eq!(findings("fn a() { let mut tmp = 1; }").len(), 1);
        assert_eq!(findings("const ADDR_MAX: u8 = 1;").len(), 1);
    }

    #[test]
    fn longer_words_and_names_of_others_are_not_found() {
        assert!(findings("fn required_address() { sockaddr.addr; request.req }").is_empty());
        assert!(findings("struct Commonwealth; fn get() {}").is_empty());
    }

    #[test]
    fn a_getter_with_its_verb_is_found() {
        assert_eq!(findings("fn get_length() {}").len(), 1);
        assert_eq!(findings("impl A for B {} impl B { fn get_length() {} }").len(), 1);
        assert!(findings("impl A for B { fn get_length() {} }").is_empty());
    }

    #[test]
    fn a_test_that_is_no_sentence_is_found() {
        assert_eq!(findings("#[test]\nfn test_slab_works_well() {}").len(), 1);
        assert_eq!(findings("#[test]\nfn round_trip() {}").len(), 1);
        assert!(findings("#[test]\nfn a_dead_key_names_nothing() {}").is_empty());
    }

    #[test]
    fn a_file_named_after_a_drawer_is_found() {
        let paths = ["src/base/utils.rs".to_owned(), "src/helper/mod.rs".to_owned()];
        assert_eq!(check_paths(&paths).len(), 2);
        assert!(check_paths(&["src/base/slab.rs".to_owned()]).is_empty());
    }
}
