//! Where `unsafe` code may stand, and what the pure modules must not use.
//!
//! `unsafe` is allowed in three modules of the engine and in the counting allocators of tests and
//! benches. The pure modules use no clock, socket, thread, atomic, lock or log.

use crate::Finding;
use crate::layers::CHECKER_FOLDER;
use crate::repository::Modules;
use crate::source::Source;

/// Folders and files that may be unsafe.
const UNSAFE: [&str; 6] = [
    "src/engine/ring/",
    "src/engine/buffer/",
    "src/engine/mesh/",
    "src/engine/mesh.rs",
    "tests/support/src/alloc_counter.rs",
    "benches/",
];

/// Modules without side effects.
const PURE: [&str; 7] = ["base", "protocol", "transport", "tls", "parity", "guard", "service"];

/// What a pure module does not name, as tokens, with the reason.
const IMPURE: [(&[&str], &str); 17] = [
    (&["std", "::", "thread"], "it starts no thread"),
    (&["std", "::", "fs"], "it opens no file"),
    (&["std", "::", "env"], "it reads no environment"),
    (&["std", "::", "process"], "it starts no process"),
    (&["std", "::", "os"], "it uses no descriptor"),
    (&["std", "::", "time", "::", "Instant"], "time is an argument"),
    (&["std", "::", "time", "::", "SystemTime"], "time is an argument"),
    (&["sync", "::", "atomic"], "it shares nothing"),
    (&["Mutex"], "it shares nothing"),
    (&["RwLock"], "it shares nothing"),
    (&["Condvar"], "it waits for nothing"),
    (&["TcpStream"], "it knows no socket"),
    (&["TcpListener"], "it knows no socket"),
    (&["UdpSocket"], "it knows no socket"),
    (&["ToSocketAddrs"], "it resolves no name"),
    (&["tracing", "::"], "it counts; drivers log"),
    (&["async", "fn"], "it never awaits"),
];

/// Finds `unsafe` outside the allowed folders.
pub(crate) fn check_unsafe(file: &Source) -> Vec<Finding> {
    if UNSAFE.iter().any(|free| file.path.starts_with(free)) {
        return Vec::new();
    }
    let found = file.tokens.iter().filter(|token| token.text == "unsafe");
    found
        .map(|token| {
            let message = "`unsafe` stands only in engine/ring, engine/buffer and engine/mesh";
            Finding::new(&file.path, token.line, message)
        })
        .collect()
}

/// Finds what a pure module must not use, outside its tests.
pub(crate) fn check_pure(file: &Source, modules: &Modules) -> Vec<Finding> {
    let Some(pure) = PURE.iter().find(|name| file.path.starts_with(&format!("src/{name}/"))) else {
        return Vec::new();
    };
    if modules.is_for_tests(&file.path) || file.path.starts_with(CHECKER_FOLDER) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for index in (0..file.tokens.len()).filter(|&index| !file.in_test(index)) {
        for (words, reason) in IMPURE.iter().filter(|(words, _)| file.reads(index, words)) {
            let message = format!("`{}` in the pure module `{pure}`: {reason}", words.concat());
            findings.push(Finding::new(&file.path, file.tokens[index].line, message));
        }
    }
    findings
}

/// Finds a pure module that does not forbid unsafe code.
pub(crate) fn check_forbid(file: &Source) -> Option<Finding> {
    let is_head = PURE.iter().any(|name| {
        file.path == format!("src/{name}/mod.rs") || file.path == format!("src/{name}/lib.rs")
    });
    let words = ["#", "!", "[", "forbid", "(", "unsafe_code"];
    let forbids = (0..file.tokens.len()).any(|index| file.reads(index, &words));
    (is_head && !forbids).then(|| {
        let message = "begin the pure module with `#![forbid(unsafe_code)]`";
        Finding::new(&file.path, 1, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_allowed_folders_is_found() {
        let count = |path| check_unsafe(&Source::new(path, "fn a() { unsafe { b() } }")).len();
        assert_eq!(count("src/server/x.rs"), 1);
        assert_eq!(count("src/engine/shard.rs"), 1);
        assert_eq!(count("src/engine/ring/uring.rs"), 0);
        let text = "#![forbid(unsafe_code)] // unsafe\n";
        assert!(check_unsafe(&Source::new("src/base/mod.rs", text)).is_empty());
    }

    #[test]
    fn impure_word_is_found_in_pure_module_only() {
        for (words, reason) in IMPURE {
            let text = words.join(" ");
            let found = check_pure(&Source::new("src/guard/x.rs", &text), &Modules::default());
            assert!(found.iter().any(|found| found.message.ends_with(reason)), "{text}");
            let found = check_pure(&Source::new("src/engine/x.rs", &text), &Modules::default());
            assert!(found.is_empty(), "{text}");
        }
    }

    #[test]
    fn tests_of_pure_module_may_start_threads() {
        let text = "#[cfg(test)]\nmod tests { use std::thread; }";
        assert!(check_pure(&Source::new("src/base/x.rs", text), &Modules::default()).is_empty());
    }

    #[test]
    fn pure_module_without_forbid_is_found() {
        let found = |path, text| check_forbid(&Source::new(path, text)).is_some();
        assert!(found("src/base/mod.rs", "//! Head of the module.\n"));
        assert!(!found("src/base/mod.rs", "#![forbid(unsafe_code)]\n"));
        assert!(!found("src/engine/mod.rs", ""));
        assert!(found("src/base/lib.rs", "//! Head of the crate.\n"));
        assert!(!found("src/base/slab.rs", ""));
    }
}
