//! Every Rust file is a module of some crate, and every link of a document resolves.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::repository::CRATES;
use crate::source::Source;

/// Finds files that no crate root reaches through its `mod` lines.
pub(crate) fn check_dead(files: &[&Source]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &Source> =
        files.iter().map(|file| (file.path.as_str(), *file)).collect();
    let mut open: Vec<String> =
        by_path.keys().filter(|path| is_root(path)).map(|&path| path.to_owned()).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    while let Some(path) = open.pop() {
        let Some(file) = by_path.get(path.as_str()) else {
            continue;
        };
        if reached.insert(path) {
            open.extend(children(file));
        }
    }
    let dead = by_path.keys().filter(|&&path| !reached.contains(path));
    dead.map(|path| {
        let message = "no crate root reaches this file; declare it with `mod`, or remove it";
        Finding::new(path, 1, message)
    })
    .collect()
}

/// Whether cargo builds a crate from this file.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        // Packages of their own: one that a test runs, and comparisons with other servers.
        ["tests", "judges", _, _, "src", "main.rs"]
        // The example that the conformance suite starts.
        | ["tests", "judges", "conformance", "client", "main.rs"]
        // The server that the tests of the gateway start.
        | ["tests", "gateway", "upstream_fixture", "main.rs"]
        | ["benches", _, "src", "lib.rs"]
        | ["benches", _, "src", "bin", _]
        | ["benches", _, "benches" | "tests", _]
        // The members of the workspace that the tests and the benches share.
        | ["tests", "support", "src", "lib.rs"]
        | ["build.rs"]
        | ["fuzz", "fuzz_targets", _] => true,
        // Crates in folders of `src`, and their test programs.
        ["src", inner @ ..]
            if CRATES.iter().any(|known| {
                matches!(
                    inner.strip_prefix(known.root),
                    Some(["lib.rs"] | ["tests", _] | ["tests", _, "main.rs"])
                )
            }) =>
        {
            true
        }
        ["src" | "benches" | "examples" | "tests", inner @ ..] => matches!(
            (parts[0], inner),
            ("src", ["lib.rs" | "main.rs"] | ["bin", _])
                | ("benches" | "examples" | "tests", [_] | [_, "main.rs"])
        ),
        // A member of the workspace.
        [_, inner @ ..] if matches!(inner.first(), Some(&("src" | "benches" | "tests"))) => {
            is_root(&inner.join("/"))
        }
        _ => false,
    }
}

/// The paths that a file's `mod` lines may mean.
fn children(file: &Source) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    let owns_folder = matches!(stem, "mod" | "lib" | "main") || is_root(&file.path);
    let base = if owns_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    for (index, name) in file.declared_modules() {
        if let Some(path) = path_attribute(file, index) {
            found.push(normal(&format!("{folder}/{path}")));
            continue;
        }
        let mut inside = base.clone();
        for module in file.inline_modules(index) {
            inside = format!("{inside}/{module}");
        }
        found.push(format!("{inside}/{name}.rs"));
        found.push(format!("{inside}/{name}/mod.rs"));
    }
    found
}

/// The text of `#[path = "…"]` in the lines right above the `mod` at `index`.
fn path_attribute(file: &Source, index: usize) -> Option<String> {
    let line = file.tokens[index].line;
    let lines: Vec<&str> = file.text.lines().take(line).collect();
    let mut above = lines.iter().rev().skip(1).take_while(|line| line.trim().starts_with("#["));
    let attribute = above.find(|line| line.trim().starts_with("#[path"))?;
    attribute.split('"').nth(1).map(str::to_owned)
}

/// The path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Finds links of a document that do not resolve, and documents without exactly one title.
pub(crate) fn check_document(path: &str, text: &str, has: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut fenced = false;
    let mut titles = 0;
    let mut links: Vec<(usize, &str)> = Vec::new();
    let mut anchors: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        titles += usize::from(line.starts_with("# "));
        if line.starts_with('#') {
            anchors.push(anchor(line));
        }
        links.extend(links_of(line).map(|link| (index + 1, link)));
    }
    if titles != 1 {
        findings.push(Finding::new(path, 1, format!("{titles} titles; a document has one")));
    }
    for (line, link) in links {
        let (target, place) = link.split_once('#').unwrap_or((link, ""));
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        if !target.is_empty() && !has(&normal(&format!("{folder}/{target}"))) {
            findings.push(Finding::new(path, line, format!("link to `{target}`: no such file")));
        }
        if target.is_empty() && !anchors.iter().any(|anchor| anchor == place) {
            findings.push(Finding::new(path, line, format!("link to `#{place}`: no such heading")));
        }
    }
    findings
}

/// Finds links of a document that name an item, as [`Type::function`](file.rs), which their file
/// does not define.
pub(crate) fn check_items<'t>(
    path: &str,
    text: &str,
    read: &dyn Fn(&str) -> Option<&'t Source>,
) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (item, target) in item_links(line) {
            let name = item.rsplit("::").next().unwrap_or(item);
            let file = read(&normal(&format!("{folder}/{target}")));
            if file.is_some_and(|file| !defines(file, name)) {
                let message = format!("link to `{target}`: it does not define `{name}`");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// The links of one line whose text is code and whose target is a Rust file: text and target.
fn item_links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("[`").filter_map(|(at, _)| {
        let (item, rest) = line[at + 2..].split_once("`](")?;
        let (target, _) = rest.split_once(')')?;
        let is_item = item.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'));
        (is_item && target.ends_with(".rs")).then_some((item, target))
    })
}

/// Whether a file defines a function or type.
fn defines(file: &Source, name: &str) -> bool {
    let defined = ["fn", "struct", "enum", "trait", "type", "const", "macro_rules"];
    (1..file.tokens.len())
        .any(|index| file.word(index) == name && defined.contains(&file.word(index - 1)))
}

/// The targets of `[text](target)` in one line, code left out.
fn links_of(line: &str) -> impl Iterator<Item = &str> {
    let prose = line.split('`').step_by(2);
    prose.flat_map(|part| {
        part.match_indices("](").filter_map(move |(at, _)| {
            let rest = &part[at + 2..];
            rest.find(')').map(|end| &rest[..end])
        })
    })
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let files: Vec<&Source> = files.iter().collect();
        check_dead(&files).into_iter().map(|found| found.file).collect()
    }

    #[test]
    fn file_without_mod_line_is_dead() {
        let found = dead(&[
            ("src/lib.rs", "mod server;"),
            ("src/server/mod.rs", "pub mod shard;"),
            ("src/server/shard.rs", "mod key;"),
            ("src/server/shard/key.rs", ""),
            ("src/server/attic.rs", ""),
            ("src/server/tests/attic.rs", ""),
            ("src/base/lib.rs", "pub mod slab;"),
            ("src/base/slab.rs", ""),
            ("src/base/attic.rs", ""),
            ("src/base/tests/slab.rs", ""),
        ]);
        let attics = ["src/base/attic.rs", "src/server/attic.rs", "src/server/tests/attic.rs"];
        assert_eq!(found, attics);
    }

    #[test]
    fn tests_benches_and_members_are_crate_roots() {
        let found = dead(&[
            ("tests/alloc.rs", ""),
            ("tests/tidy/main.rs", "mod words;"),
            ("tests/tidy/words.rs", ""),
            ("tests/support/judge.rs", ""),
            ("tests/support/src/lib.rs", "mod damage;"),
            ("tests/support/src/damage.rs", ""),
            ("benches/floor/main.rs", ""),
            ("benches/support/src/lib.rs", "mod frames;"),
            ("benches/support/src/frames.rs", ""),
            ("loadtest/src/main.rs", ""),
            ("loadtest/benches/generator/main.rs", ""),
            ("loadtest/tests/drive.rs", ""),
            ("tests/judges/conformance/client/main.rs", ""),
            ("tests/judges/interop/rust/src/main.rs", "mod host;"),
            ("tests/judges/interop/rust/src/host.rs", ""),
            ("benches/other/src/lib.rs", "mod process;"),
            ("benches/other/src/process.rs", ""),
            ("benches/other/src/bin/server.rs", ""),
            ("benches/other/benches/calls.rs", ""),
            ("benches/other/tests/results.rs", ""),
        ]);
        assert_eq!(found, ["tests/support/judge.rs"]);
    }

    #[test]
    fn path_attribute_and_inline_module_are_followed() {
        let found = dead(&[
            ("tests/judge.rs", "#[path = \"support/judge.rs\"]\nmod judge;"),
            ("tests/support/judge.rs", ""),
            ("src/lib.rs", "mod a { mod b; }"),
            ("src/a/b.rs", ""),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn broken_link_is_found_with_its_line() {
        let text = "# Title\n\n[a](src/lib.rs) [b](gone.md) [c](#here) `[d](no.md)`\n\n## Here\n";
        let found = check_document("README.md", text, &|path| path == "src/lib.rs");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].message.contains("gone.md")), (3, true));
        let found = check_document("tests/README.md", "# T\n[a](../src/x.rs)\n", &|path| {
            path == "src/x.rs"
        });
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn link_to_undefined_item_is_found() {
        let source = Source::new("src/a.rs", "struct Shard; impl Shard { fn receive(&self) {} }");
        let text = "[`Shard::receive`](../src/a.rs) [`Shard`](../src/a.rs) [a](../src/a.rs)\n\
                    [`Shard::send`](../src/a.rs)";
        let read = |path: &str| (path == "src/a.rs").then_some(&source);
        let found = check_items("docs/a.md", text, &read);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line, found[0].message.contains("`send`")), (2, true));
    }

    #[test]
    fn document_has_one_title() {
        let found = |text| check_document("a.md", text, &|_| true).len();
        assert_eq!(found("no title\n"), 1);
        assert_eq!(found("# One\n# Two\n"), 1);
        assert_eq!(found("# One\n```sh\n# comment\n```\n"), 0);
    }
}
