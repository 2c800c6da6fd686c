//! A child module uses only siblings that its parent's `mod` lines list before it.
//!
//! So the `mod` lines are a layer order, and no two siblings use each other. Inline tests are free.

use crate::Finding;
use crate::repository::{Modules, crate_root, module_of};
use crate::source::Source;

/// Finds uses of siblings that are listed after the file's own module.
pub(crate) fn check(file: &Source, modules: &Modules) -> Vec<Finding> {
    let Some(module) = module_of(&file.path) else {
        return Vec::new();
    };
    if modules.is_for_tests(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for index in 0..file.tokens.len() {
        if file.in_test(index) || !begins_path(file, index) {
            continue;
        }
        for path in file.paths_at(index) {
            let Some(target) = resolve(&module, &file.inline_modules(index), &path) else {
                continue;
            };
            if let Some(message) = refuse(&module, &target, modules) {
                findings.push(Finding::new(&file.path, file.tokens[index].line, message));
            }
        }
    }
    findings
}

fn begins_path(file: &Source, index: usize) -> bool {
    let inner = index > 0 && file.word(index - 1) == "::";
    !inner && matches!(file.word(index), "crate" | "super") && file.word(index + 1) == "::"
}

/// The absolute path that `path` means inside `module`.
pub(crate) fn resolve(module: &[String], inline: &[&str], path: &[&str]) -> Option<Vec<String>> {
    let mut here: Vec<String> = module.to_vec();
    here.extend(inline.iter().map(|&name| name.to_owned()));
    let supers = path.iter().take_while(|&&name| name == "super").count();
    if path[0] == "crate" {
        here.truncate(crate_root(module).len());
    } else {
        here.truncate(here.len().checked_sub(supers)?);
    }
    let names = path.iter().skip(supers.max(1)).map(|&name| name.to_owned());
    here.extend(names);
    Some(here)
}

/// Why `module` may not use `target`, if so.
fn refuse(module: &[String], target: &[String], modules: &Modules) -> Option<String> {
    let shared = module.iter().zip(target).take_while(|(one, other)| one == other).count();
    let (own, used) = (module.get(shared)?, target.get(shared)?);
    if shared == 0 {
        return None;
    }
    let children = modules.children(&module[..shared]);
    let place = |name: &String| children.iter().position(|child| child.name == *name);
    if place(used)? <= place(own)? {
        return None;
    }
    let parent = module[..shared].join("::");
    Some(format!(
        "`{own}` uses `{used}`, which `{parent}` lists after it; list `{used}` first (rustfmt does \
         not sort across an empty line), or move what both need into a module before them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let parent = Source::new("src/server/mod.rs", "mod clock;\nmod ring;\nmod shard;");
        let inner = Source::new("src/server/ring/mod.rs", "mod poll;\nmod uring;");
        let modules = Modules::read([&parent, &inner].into_iter());
        check(&Source::new(path, text), &modules).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn use_of_later_sibling_is_found() {
        let found = findings("src/server/clock.rs", "\nuse crate::server::shard::Shard;");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("src/server/clock.rs:2: `clock` uses `shard`"), "{found:?}");
        assert_eq!(findings("src/server/clock.rs", "use super::ring;").len(), 1);
        assert_eq!(findings("src/server/ring/poll.rs", "use super::uring::Ring;").len(), 1);
        assert_eq!(findings("src/server/ring/poll.rs", "use crate::server::shard;").len(), 1);
    }

    #[test]
    fn earlier_siblings_parents_and_children_pass() {
        assert!(
            findings("src/server/shard.rs", "use crate::server::{clock, ring::Ring};").is_empty()
        );
        assert!(findings("src/server/ring/poll.rs", "use super::Ring;").is_empty());
        assert!(findings("src/server/ring/mod.rs", "use self::uring::Ring;").is_empty());
        assert!(findings("src/server/mod.rs", "pub use crate::server::shard::Shard;").is_empty());
    }

    #[test]
    fn use_of_later_module_of_crate_is_found() {
        let root = Source::new("src/engine/lib.rs", "mod clock;\nmod ring;");
        let modules = Modules::read([&root].into_iter());
        let text = "use crate::ring::Ring;";
        assert_eq!(check(&Source::new("src/engine/clock.rs", text), &modules).len(), 1);
        assert!(check(&Source::new("src/engine/ring/mod.rs", text), &modules).is_empty());
    }

    #[test]
    fn inline_module_shifts_super() {
        let text = "mod part { use super::shard; }";
        assert!(findings("src/server/clock.rs", text).is_empty());
    }

    #[test]
    fn inline_tests_may_use_later_siblings() {
        let text = "#[cfg(test)]\nmod tests { use crate::server::shard; }";
        assert!(findings("src/server/clock.rs", text).is_empty());
    }
}
