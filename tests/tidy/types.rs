//! Small types: few fields, few methods, one place for their `impl` blocks.
//!
//! Checked are the structs and enums of `src` and `loadtest/src` outside tests. Methods are those
//! of inherent `impl` blocks. A type may have `impl` blocks in the file that defines it and in one
//! other file.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::source::Source;

/// Named fields of a struct, at most.
const FIELDS_MAX: usize = 12;
/// Methods of a type's inherent `impl` blocks, at most.
const METHODS_MAX: usize = 25;
/// Files besides the type's own that hold inherent `impl` blocks of it, at most.
const NEIGHBOURS_MAX: usize = 1;

/// A type that may pass a limit.
pub(crate) struct Exception {
    pub(crate) type_name: &'static str,
    pub(crate) fields_max: usize,
    pub(crate) methods_max: usize,
    pub(crate) neighbours_max: usize,
    pub(crate) reason: &'static str,
}

/// One type with its `impl` blocks.
#[derive(Debug, Default)]
struct Type {
    line: usize,
    fields: usize,
    methods: usize,
    neighbours: BTreeSet<String>,
}

/// The folder that a crate's files stand in.
fn root_of(path: &str) -> Option<&'static str> {
    ["src/", "loadtest/src/"].into_iter().find(|root| path.starts_with(root))
}

/// Finds types above a limit, and exceptions that no type needs.
pub(crate) fn check(files: &[&Source], exceptions: &[Exception]) -> Vec<Finding> {
    let mut types = defined(files);
    add_methods(files, &mut types);
    let mut findings = Vec::new();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    for ((path, name), found) in &types {
        let exception = exceptions.iter().find(|exception| exception.type_name == name);
        let fields_max = exception.map_or(FIELDS_MAX, |it| it.fields_max);
        let methods_max = exception.map_or(METHODS_MAX, |it| it.methods_max);
        let neighbours_max = exception.map_or(NEIGHBOURS_MAX, |it| it.neighbours_max);
        if let Some(exception) = exception
            && (found.fields > FIELDS_MAX
                || found.methods > METHODS_MAX
                || found.neighbours.len() > NEIGHBOURS_MAX)
        {
            needed.insert(exception.type_name);
        }
        let mut find = |message: String| findings.push(Finding::new(path, found.line, message));
        if found.fields > fields_max {
            find(format!("`{name}` has {} fields; the limit is {fields_max}", found.fields));
        }
        if found.methods > methods_max {
            find(format!("`{name}` has {} methods; the limit is {methods_max}", found.methods));
        }
        if found.neighbours.len() > neighbours_max {
            let others: Vec<&str> = found.neighbours.iter().map(String::as_str).collect();
            find(format!(
                "`{name}` has `impl` blocks in {}: {neighbours_max} other file at most",
                others.join(", ")
            ));
        }
    }
    for exception in exceptions.iter().filter(|it| !needed.contains(it.type_name)) {
        let message = format!("`{}` needs no exception: remove it", exception.type_name);
        findings.push(Finding::new("tests/tidy/main.rs", 1, message));
    }
    findings
}

fn defined(files: &[&Source]) -> BTreeMap<(String, String), Type> {
    let mut types = BTreeMap::new();
    for file in files.iter().filter(|file| root_of(&file.path).is_some()) {
        for index in 0..file.tokens.len() {
            let is_struct = file.word(index) == "struct";
            if file.in_test(index) || !(is_struct || file.word(index) == "enum") {
                continue;
            }
            let fields = if is_struct { file.members(index).len() } else { 0 };
            let found = Type { line: file.tokens[index].line, fields, ..Type::default() };
            types.insert((file.path.clone(), file.word(index + 1).to_owned()), found);
        }
    }
    types
}

fn add_methods(files: &[&Source], types: &mut BTreeMap<(String, String), Type>) {
    for file in files {
        let Some(root) = root_of(&file.path) else { continue };
        for index in (0..file.tokens.len()).filter(|&index| file.word(index) == "impl") {
            let Some((name, open)) = inherent(file, index).filter(|_| !file.in_test(index)) else {
                continue;
            };
            let Some(path) = definition(types, root, &file.path, name) else { continue };
            let methods = methods_of(file, open).len();
            if let Some(found) = types.get_mut(&(path.clone(), name.to_owned())) {
                found.methods += methods;
                if path != file.path {
                    found.neighbours.insert(file.path.clone());
                }
            }
        }
    }
}

/// The type's name and the opening brace of the inherent `impl` block at `index`.
pub(crate) fn inherent(file: &Source, index: usize) -> Option<(&str, usize)> {
    // `impl` in a type (`-> impl Trait`, `: impl Fn`) begins no item.
    if index > 0 && !matches!(file.word(index - 1), "}" | ";" | "]" | "{" | "unsafe") {
        return None;
    }
    let open = file.body(index)?;
    if (index..open).any(|at| file.word(at) == "for" && file.word(at + 1) != "<") {
        return None;
    }
    let mut at = index + 1;
    if file.word(at) == "<" {
        let mut depth = 0_usize;
        loop {
            match file.word(at) {
                "<" => depth += 1,
                ">" if file.word(at - 1) != "-" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
    }
    let path_end = (at..open).find(|&at| matches!(file.word(at), "<" | "where")).unwrap_or(open);
    Some((file.word(path_end.checked_sub(1)?), open))
}

/// The names of the functions directly inside the block that opens at `open`.
pub(crate) fn methods_of(file: &Source, open: usize) -> Vec<&str> {
    let (mut at, end, mut names) = (open + 1, file.closing(open), Vec::new());
    while at < end {
        match file.word(at) {
            "fn" => {
                names.push(file.word(at + 1));
                at += 1;
            }
            "{" | "(" | "[" => at = file.closing(at) + 1,
            _ => at += 1,
        }
    }
    names
}

/// The file that defines `name`, seen from `path`: the file itself, else the only one of the crate,
/// else the one with the longest common beginning.
fn definition(
    types: &BTreeMap<(String, String), Type>,
    root: &str,
    path: &str,
    name: &str,
) -> Option<String> {
    let shared = |other: &str| {
        path.split('/').zip(other.split('/')).take_while(|(one, other)| one == other).count()
    };
    let paths = types.keys().filter(|(path, it)| it == name && path.starts_with(root));
    paths.map(|(path, _)| path).max_by_key(|it| (*it == path, shared(it))).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)], exceptions: &[Exception]) -> Vec<String> {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let files: Vec<&Source> = files.iter().collect();
        check(&files, exceptions).iter().map(ToString::to_string).collect()
    }

    fn fields(count: usize) -> String {
        "f: Vec<(u8, u8)>, ".repeat(count)
    }

    #[test]
    fn struct_with_many_fields_is_found() {
        let text = |count| format!("\nstruct A {{ {} }}", fields(count));
        assert!(findings(&[("src/x.rs", &text(FIELDS_MAX))], &[]).is_empty());
        let found = findings(&[("src/x.rs", &text(FIELDS_MAX + 1))], &[]);
        assert_eq!(found, ["src/x.rs:2: `A` has 13 fields; the limit is 12"]);
    }

    #[test]
    fn methods_of_all_blocks_are_added() {
        let methods = |count| "fn m() {} ".repeat(count);
        let one = format!("struct A; impl A {{ {} }}", methods(20));
        let other = format!("impl A {{ {} }}", methods(6));
        let found = findings(&[("src/a.rs", &one), ("src/b.rs", &other)], &[]);
        assert_eq!(found, ["src/a.rs:1: `A` has 26 methods; the limit is 25"]);
        let found =
            findings(&[("src/a.rs", &one), ("src/b.rs", "impl T for A { fn m() {} }")], &[]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn impl_blocks_in_many_files_are_found() {
        let files =
            [("src/a.rs", "struct A;"), ("src/b.rs", "impl A {}"), ("src/c.rs", "impl A {}")];
        assert_eq!(findings(&files, &[]).len(), 1);
        assert!(findings(&files[..2], &[]).is_empty());
    }

    #[test]
    fn exception_is_used_or_found() {
        let exception = || Exception {
            type_name: "A",
            fields_max: 13,
            methods_max: METHODS_MAX,
            neighbours_max: NEIGHBOURS_MAX,
            reason: "a table",
        };
        let text = format!("struct A {{ {} }}", fields(13));
        assert!(findings(&[("src/x.rs", &text)], &[exception()]).is_empty());
        assert_eq!(findings(&[("src/x.rs", "struct A;")], &[exception()]).len(), 1);
    }
}
