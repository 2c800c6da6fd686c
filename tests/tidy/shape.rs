//! Shapes that hide what a reader looks for: a tuple as a parameter, a folder with a single file, a
//! module whose file stands beside its folder.
//!
//! What had these shapes when the rules began is listed in `offenders.txt`, one line each: the
//! rule, the path, and for parameters how many. The list is exact: what is new is refused, and what
//! is gone leaves the list.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::source::Source;

/// A file whose functions have tuple patterns as parameters.
const TUPLE_PARAMETERS: &str = "tuple-parameters";
/// A folder of Rust code with one entry.
const SINGLE_FILE: &str = "single-file";
/// `name.rs` beside `name/`, where the tree has `name/mod.rs`.
const FILE_BESIDE_FOLDER: &str = "file-beside-folder";

/// Places with one of the shapes, with their number.
type Offenders<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// Compares the files with the list of offenders, which is the text of the file at `list_path`.
pub(crate) fn check(
    files: &[&Source],
    paths: &[String],
    list: &str,
    list_path: &str,
) -> Vec<Finding> {
    let (listed, mut findings) = read_list(list, list_path);
    let mut found = shaped_paths(paths);
    for file in files {
        let tuples = (0..file.tokens.len()).map(|index| tuple_parameters(file, index)).sum();
        if tuples > 0 {
            found.insert((TUPLE_PARAMETERS, &file.path), tuples);
        }
    }
    let names: BTreeSet<(&str, &str)> = found.keys().chain(listed.keys()).copied().collect();
    for name in names {
        let (rule, path) = name;
        let (now, before) = (found.get(&name).copied(), listed.get(&name).copied());
        let (now, before) = (now.unwrap_or_default(), before.unwrap_or_default());
        if now > before {
            findings.push(Finding::new(path, 1, refusal(rule, now, before)));
        } else if now < before {
            let message =
                format!("`{rule} {path}` is {now} by now, not {before}; correct the line");
            findings.push(Finding::new(list_path, 1, message));
        }
    }
    findings
}

fn refusal(rule: &str, now: usize, before: usize) -> String {
    match rule {
        TUPLE_PARAMETERS => format!(
            "{now} parameters are tuple patterns, {before} of them listed; name each parameter, or \
             pass a struct"
        ),
        SINGLE_FILE => "the folder has a single file; move the file up".to_owned(),
        _ => {
            "a folder of this name stands beside it; move the file to `mod.rs` in there".to_owned()
        }
    }
}

/// Reads the list: its offenders, and the lines that cannot be read.
fn read_list<'a>(list: &'a str, list_path: &str) -> (Offenders<'a>, Vec<Finding>) {
    let (mut listed, mut findings) = (Offenders::new(), Vec::new());
    for (number, line) in list.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let entry = match words.as_slice() {
            [rule @ TUPLE_PARAMETERS, path, count] => {
                count.parse().ok().map(|count| ((*rule, *path), count))
            }
            [rule @ (SINGLE_FILE | FILE_BESIDE_FOLDER), path] => Some(((*rule, *path), 1)),
            _ => None,
        };
        match entry {
            Some((name, count)) if listed.insert(name, count).is_none() => {}
            _ => findings.push(Finding::new(list_path, number + 1, "repeated or not readable")),
        }
    }
    (listed, findings)
}

/// The folders with a single file, and the files beside a folder of their name.
fn shaped_paths(paths: &[String]) -> Offenders<'_> {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in paths {
        let mut inner = path.as_str();
        while let Some((folder, _)) = inner.rsplit_once('/') {
            entries.entry(folder).or_default().insert(inner);
            inner = folder;
        }
    }
    let is_rust = |path: &str| path.ends_with(".rs");
    let single = entries
        .iter()
        .filter(|(_, inside)| inside.len() == 1 && inside.iter().copied().all(is_rust))
        .map(|(folder, _)| ((SINGLE_FILE, *folder), 1));
    let beside = paths
        .iter()
        .filter(|path| path.strip_suffix(".rs").is_some_and(|name| entries.contains_key(name)))
        .map(|path| ((FILE_BESIDE_FOLDER, path.as_str()), 1));
    single.chain(beside).collect()
}

/// The number of tuple patterns among the parameters of the function whose `fn` stands at `index`.
fn tuple_parameters(file: &Source, index: usize) -> usize {
    if file.word(index) != "fn" || file.word(index + 1) == "(" {
        return 0;
    }
    // A macro may leave the name open: `fn $name(…)`.
    let index = if file.word(index + 1) == "$" { index + 1 } else { index };
    // Bounds of type parameters may have parentheses: `fn a<F: Fn(u8)>(b: F)`.
    let after_generics =
        if file.word(index + 2) == "<" { file.closing_angle(index + 2) + 1 } else { index + 2 };
    let (mut at, end) = (after_generics + 1, file.closing(after_generics));
    let mut tuples = 0;
    while at < end {
        let mut pattern = at;
        while matches!(file.word(pattern), "&" | "mut" | "#") {
            let is_attribute = file.word(pattern) == "#";
            pattern = if is_attribute { file.closing(pattern + 1) + 1 } else { pattern + 1 };
        }
        tuples += usize::from(file.word(pattern) == "(");
        at = file.after_comma(at, end);
    }
    tuples
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuples(text: &str) -> usize {
        let file = Source::new("src/x.rs", text);
        (0..file.tokens.len()).map(|index| tuple_parameters(&file, index)).sum()
    }

    #[test]
    fn tuple_patterns_of_functions_are_counted() {
        assert_eq!(tuples("fn a((b, c): (u8, u8), &(d, e): &(u8, u8)) {}"), 2);
        assert_eq!(tuples("fn a<F: Fn(u8) -> u8>(b: F, mut c: u8, (d, e): (u8, u8)) {}"), 1);
        assert_eq!(tuples("fn a(#[expect(x)] (b, c): (u8, u8)) {}"), 1);
    }

    #[test]
    fn tuple_types_and_closures_are_no_tuple_parameters() {
        assert_eq!(tuples("fn a(b: (u8, u8), c: Map<u8, (u8, u8)>, Key(d): Key) {}"), 0);
        assert_eq!(tuples("fn a() { b(|(c, d)| c) } type E = fn((u8, u8));"), 0);
        assert_eq!(tuples("macro_rules! a { ($b:ident) => { fn $b() {} } }"), 0);
    }

    #[test]
    fn list_of_offenders_is_exact() {
        let file = Source::new("src/a.rs", "fn a((b, c): (u8, u8)) {}");
        let paths = ["src/a.rs", "src/a/d.rs", "src/mod.rs"].map(str::to_owned);
        let check = |list: &str| check(&[&file], &paths, list, "list").len();
        let exact = "tuple-parameters src/a.rs 1\nsingle-file src/a\nfile-beside-folder src/a.rs\n";
        assert_eq!(check(exact), 0);
        assert_eq!(check(""), 3);
        assert_eq!(check(&exact.replace(" 1\n", " 2\n")), 1);
        assert_eq!(check(&format!("{exact}single-file src/e\nany words\n")), 2);
    }

    #[test]
    fn folder_with_other_entries_is_no_offender() {
        let paths = ["a/mod.rs", "a/b.rs", "c/d/mod.rs", "c/d/e.rs", "f/g.txt"].map(str::to_owned);
        assert!(shaped_paths(&paths).is_empty());
    }
}
