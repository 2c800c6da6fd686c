//! No cycle of modules, neither by imports nor by calls of methods.
//!
//! The modules of one parent form a graph: one uses another where a path names it or anything
//! below it, or where it calls a method that the other adds to a type of a third module. Inline
//! tests are free.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::repository::module_of;
use crate::siblings::resolve;
use crate::source::Source;

type Path = Vec<String>;

/// The uses between the modules of one crate: from, to, and where.
type Uses = BTreeMap<(Path, Path), (String, usize)>;

/// The uses between the children of one module: from, to, and the first place.
type Graph = BTreeMap<(String, String), (String, usize)>;

/// Finds cycles between the children of any module of `src` and of `loadtest/src`.
pub(crate) fn check(files: &[&Source]) -> Vec<Finding> {
    ["src/", "loadtest/src/"].into_iter().flat_map(|root| check_crate(files, root)).collect()
}

fn check_crate(files: &[&Source], root: &str) -> Vec<Finding> {
    let own: Vec<(&Source, Path)> = files
        .iter()
        .filter_map(|file| {
            let inner = file.path.strip_prefix(root)?;
            Some((*file, module_of(&format!("src/{inner}"))?))
        })
        .filter(|(file, _)| !file.path.ends_with("/tests.rs") && !file.path.contains("/tests/"))
        .collect();
    let uses = uses(&own);
    // Children of one parent, with the first place where one uses another.
    let mut graphs: BTreeMap<Path, Graph> = BTreeMap::new();
    for ((from, to), place) in uses {
        let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
            let graph = graphs.entry(from[..shared].to_vec()).or_default();
            graph.entry((one.clone(), other.clone())).or_insert(place);
        }
    }
    graphs.into_iter().flat_map(|(parent, graph)| cycles(&parent, &graph)).collect()
}

fn uses(own: &[(&Source, Path)]) -> Uses {
    let owners = method_owners(own);
    let mut uses = Uses::new();
    for (file, module) in own {
        for index in (0..file.tokens.len()).filter(|&index| !file.in_test(index)) {
            let place = || (file.path.clone(), file.tokens[index].line);
            let inner = index > 0 && file.word(index - 1) == "::";
            if !inner
                && matches!(file.word(index), "crate" | "super")
                && file.word(index + 1) == "::"
            {
                let inline = file.inline_modules(index);
                for path in file.paths_at(index) {
                    if let Some(target) = resolve(module, &inline, &path) {
                        uses.entry((module.clone(), target)).or_insert_with(place);
                    }
                }
            }
            let is_call = index > 0 && file.word(index - 1) == "." && file.word(index + 1) == "(";
            if let Some(Some(owner)) = owners.get(file.word(index)).filter(|_| is_call) {
                uses.entry((module.clone(), owner.clone())).or_insert_with(place);
            }
        }
    }
    uses
}

/// The module of each method that stands in an `impl` block outside of its type's module, or `None`
/// where the name is not unique in the crate.
fn method_owners(own: &[(&Source, Path)]) -> BTreeMap<String, Option<Path>> {
    let mut owners: BTreeMap<String, Option<Path>> = BTreeMap::new();
    let mut add = |name: &str, owner: Option<&Path>| {
        let known = owners.entry(name.to_owned()).or_insert_with(|| owner.cloned());
        if known.as_ref() != owner {
            *known = None;
        }
    };
    for (file, module) in own {
        for index in (0..file.tokens.len()).filter(|&index| !file.in_test(index)) {
            let block = (file.word(index) == "impl").then(|| inherent(file, index)).flatten();
            if let Some((name, open)) = block {
                let owner = Some(module).filter(|_| !defines(file, name));
                for method in methods_of(file, open) {
                    add(method, owner);
                }
            } else if matches!(file.word(index), "trait" | "impl")
                && let Some(open) = file.body(index)
            {
                for method in methods_of(file, open) {
                    add(method, None);
                }
            }
        }
    }
    owners
}

/// Whether `file` defines the type `name`.
fn defines(file: &Source, name: &str) -> bool {
    (0..file.tokens.len())
        .any(|at| matches!(file.word(at), "struct" | "enum") && file.word(at + 1) == name)
}

/// The cycles of one graph, each reported once at its first use.
fn cycles(parent: &[String], graph: &Graph) -> Vec<Finding> {
    let reaches = |from: &str, to: &str| {
        let (mut open, mut seen) = (vec![from.to_owned()], BTreeSet::new());
        while let Some(name) = open.pop() {
            for (one, other) in graph.keys().filter(|(one, _)| *one == name) {
                debug_assert_eq!(*one, name);
                if other == to {
                    return true;
                }
                if seen.insert(other.clone()) {
                    open.push(other.clone());
                }
            }
        }
        false
    };
    let parent = if parent.is_empty() { "the crate".to_owned() } else { parent.join("::") };
    graph
        .iter()
        .filter(|((one, other), _)| one < other && reaches(other, one))
        .map(|((one, other), (file, line))| {
            let back = graph.get(&(other.clone(), one.clone()));
            let back = back.map_or_else(
                || "by way of others".to_owned(),
                |(file, line)| format!("at {file}:{line}"),
            );
            let message =
                format!("`{one}` uses `{other}`, which uses `{one}` {back}: a cycle in {parent}");
            Finding::new(file, *line, message)
        })
        .collect()
}

/// The type's name and the opening brace of the inherent `impl` block at `index`.
fn inherent(file: &Source, index: usize) -> Option<(&str, usize)> {
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
fn methods_of(file: &Source, open: usize) -> Vec<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let files: Vec<&Source> = files.iter().collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn import_cycle_is_found() {
        let (a, b) = ("use crate::b::B;", "use crate::a::A;");
        assert_eq!(findings(&[("src/a.rs", a), ("src/b.rs", b)]).len(), 1);
        assert_eq!(findings(&[("loadtest/src/a.rs", a), ("loadtest/src/b.rs", b)]).len(), 1);
        assert!(findings(&[("src/a.rs", a), ("src/b.rs", "")]).is_empty());
        assert!(findings(&[("src/a.rs", a), ("loadtest/src/b.rs", b)]).is_empty());
    }

    #[test]
    fn cycle_of_three_is_found() {
        let files = [
            ("src/a.rs", "use crate::b;"),
            ("src/b.rs", "use crate::c;"),
            ("src/c.rs", "use super::a;"),
        ];
        assert!(!findings(&files).is_empty());
    }

    #[test]
    fn call_of_method_in_split_impl_closes_cycle() {
        let a = "use crate::b::B; impl A { fn only_here(&self) {} }";
        let b = "fn f(a: u8) { a.only_here(); }";
        assert_eq!(findings(&[("src/a.rs", a), ("src/b.rs", b)]).len(), 1);
        let two = format!("{b} struct C; impl C {{ fn only_here(&self) {{}} }}");
        assert!(findings(&[("src/a.rs", a), ("src/b.rs", &two)]).is_empty());
        let own = format!("struct A; {a}");
        assert!(findings(&[("src/a.rs", &own), ("src/b.rs", b)]).is_empty());
    }

    #[test]
    fn inline_tests_are_free() {
        let b = "#[cfg(test)]\nmod tests { use crate::a::A; }";
        assert!(findings(&[("src/a.rs", "use crate::b::B;"), ("src/b.rs", b)]).is_empty());
    }
}
