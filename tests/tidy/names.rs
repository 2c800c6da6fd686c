//! Identifiers: standard words, no drawers for odds and ends, short test names.
//!
//! Checked are the names that our code gives (after `fn`, `struct`, `mod`, `let`, …, fields and
//! variants included) and the names of files. Names that other crates gave are theirs.

use crate::Finding;
use crate::source::Source;

/// Words that say nothing, with what to write instead.
const EMPTY: [(&str, &str); 8] = [
    ("util", "what it does"),
    ("utils", "what it does"),
    ("helper", "what it does"),
    ("helpers", "what it does"),
    ("manager", "what it is: a slab, a table, a pool, …"),
    ("common", "what is common in it"),
    ("misc", "what it does"),
    ("stuff", "what it holds"),
];

/// Words of a private vocabulary, with the standard term.
const PRIVATE: [(&str, &str); 61] = [
    ("asker", "requester"),
    ("berth", "thread handle"),
    ("census", "gauges"),
    ("circular", "broadcast"),
    ("commons", "shared model"),
    ("cork", "buffer_output"),
    ("courier", "sender"),
    ("crew", "thread group"),
    ("deed", "action"),
    ("dialogue", "client requests"),
    ("door", "listener"),
    ("doubts", "warnings"),
    ("errand", "action"),
    ("evening", "simulation"),
    ("farewell", "close frame"),
    ("gathering", "simulation"),
    ("hear", "receive"),
    ("hears", "receives"),
    ("heard", "received"),
    ("inlet", "shard input"),
    ("inquiry", "task input"),
    ("ladder", "checks"),
    ("lane", "channel or connection"),
    ("lease", "receive buffer, or a timeout by its name"),
    ("letter", "message"),
    ("letters", "messages"),
    ("mailbox", "inbox"),
    ("mirrored", "consistent"),
    ("moment", "instant"),
    ("nursery", "process pool"),
    ("outlet", "reply_to"),
    ("owed", "outstanding"),
    ("parting", "closing"),
    ("party", "peer"),
    ("passage", "message context"),
    ("patience", "timeouts"),
    ("pose", "request"),
    ("posed", "requested"),
    ("redeem", "decrypt"),
    ("remedy", "hint"),
    ("repay", "complete"),
    ("road", "dispatcher, request path"),
    ("rouse", "wake"),
    ("rung", "check"),
    ("said", "outcome"),
    ("seal", "encrypt"),
    ("sealer", "cipher"),
    ("shelf", "registry"),
    ("shortages", "exhaustion"),
    ("speech", "settings"),
    ("spoken", "written"),
    ("stash", "pending_input"),
    ("strain", "backpressure"),
    ("street", "network"),
    ("tally", "counter"),
    ("tell", "send, notify, log"),
    ("tells", "sends"),
    ("tenure", "guard"),
    ("told", "sent, notified"),
    ("utterance", "output"),
    ("whom", "target"),
];

/// Words of a test's name, at least and at most.
const TEST_WORDS: std::ops::RangeInclusive<usize> = 2..=8;

/// Keywords after which our code gives a name.
const GIVES: [&str; 10] =
    ["fn", "struct", "enum", "trait", "mod", "const", "static", "type", "let", "union"];

/// Finds banned words in names, getters with `get_`, and test names that are too short or too long.
pub(crate) fn check(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 0..file.tokens.len() {
        if matches!(file.word(index), "struct" | "enum" | "union") {
            for (name, line) in file.members(index) {
                findings.extend(refuse(name).map(|found| Finding::new(&file.path, line, found)));
            }
        }
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
        let is_getter =
            name.starts_with("get_") && name != "get_mut" && !name.starts_with("get_prompt");
        if is_getter && !file.in_test(index) && !is_given(file, index) {
            let message = format!("`{name}`: a getter is named after what it gives");
            findings.push(Finding::new(&file.path, line, message));
        }
        let is_test = index >= 4 && file.reads(index - 4, &["#", "[", "test", "]"]);
        // In a macro the name is still to come.
        let words = name.split('_').filter(|word| !word.is_empty()).count();
        if is_test && name != "$" && (name.starts_with("test_") || !TEST_WORDS.contains(&words)) {
            let message = format!(
                "test `{name}` has {words} words: write subject_condition_result in {} to {}",
                TEST_WORDS.start(),
                TEST_WORDS.end()
            );
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
        let (_, instead) = EMPTY.iter().chain(&PRIVATE).find(|(banned, _)| banned == word)?;
        Some(format!("name `{name}`: not `{word}`; write {instead}"))
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
    fn banned_word_is_found_in_either_case() {
        assert_eq!(findings("struct SessionManager;").len(), 1);
        assert_eq!(findings("mod utils;").len(), 1);
        assert_eq!(findings("fn parse_letter() {}").len(), 1);
        assert_eq!(findings("fn a() { let mut party = 1; }").len(), 1);
        assert_eq!(findings("const LEASE_MAX: u8 = 1;").len(), 1);
    }

    #[test]
    fn field_and_variant_are_checked() {
        assert_eq!(findings("struct A { road: u8, pub(crate) lane: u8 }").len(), 2);
        assert_eq!(findings("enum A { Letter(u8), Ok { patience: u8 } }").len(), 2);
    }

    #[test]
    fn longer_words_and_foreign_names_pass() {
        assert!(findings("fn ctx_of(addr: u8, conn: u8) { newsletter.letters; }").is_empty());
        assert!(findings("struct Commonwealth; fn get() {}").is_empty());
    }

    #[test]
    fn getter_with_get_prefix_is_found() {
        assert_eq!(findings("fn get_length() {}").len(), 1);
        assert_eq!(findings("impl A for B {} impl B { fn get_length() {} }").len(), 1);
        assert!(findings("impl A for B { fn get_length() {} }").is_empty());
    }

    #[test]
    fn name_length_of_test_is_checked() {
        assert_eq!(findings("#[test]\nfn test_slab_works() {}").len(), 1);
        assert_eq!(findings("#[test]\nfn trip() {}").len(), 1);
        assert_eq!(findings("#[test]\nfn a_b_c_d_e_f_g_h_i() {}").len(), 1);
        assert!(findings("#[test]\nfn dead_key_finds_nothing() {}").is_empty());
    }

    #[test]
    fn file_with_banned_name_is_found() {
        let paths = ["src/base/utils.rs".to_owned(), "src/server/letter/mod.rs".to_owned()];
        assert_eq!(check_paths(&paths).len(), 2);
        assert!(check_paths(&["src/base/slab.rs".to_owned()]).is_empty());
    }
}
