//! The files of the repository, read once for each test.
//!
//! Build output and installed packages (`target`, `node_modules`, …) and `.git` are left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// Folders that are not read.
const LEFT_OUT: [&str; 7] =
    ["target", ".git", "node_modules", "__pycache__", ".venv", "corpus", "artifacts"];

/// File name extensions of text files.
const TEXTS: [&str; 16] = [
    "rs", "md", "toml", "sh", "py", "mjs", "ts", "js", "css", "html", "yml", "yaml", "conf",
    "service", "txt", "json",
];

/// Every file of the repository.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    paths: Vec<String>,
    texts: BTreeMap<String, String>,
    rust: Vec<Source>,
}

/// A crate in a folder of `src`, whose modules stand below the path of that folder.
pub(crate) struct Crate {
    /// Its name in code.
    pub(crate) name: &'static str,
    /// Its folder below `src`, as a module path.
    pub(crate) root: &'static [&'static str],
}

/// The crates in `src` besides `corelane`, each before those that contain its folder.
pub(crate) const CRATES: [Crate; 9] = [
    Crate { name: "corelane_base", root: &["base"] },
    Crate { name: "corelane_client", root: &["client"] },
    Crate { name: "corelane_engine", root: &["engine"] },
    Crate { name: "corelane_parity_check", root: &["parity", "check"] },
    Crate { name: "corelane_parity", root: &["parity"] },
    Crate { name: "corelane_process", root: &["process"] },
    Crate { name: "corelane_protocol", root: &["protocol"] },
    Crate { name: "corelane_tls", root: &["tls"] },
    Crate { name: "corelane_transport", root: &["transport"] },
];

/// The modules of the library by path (`engine::ring`), with their children in order.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    children: BTreeMap<Vec<String>, Vec<Child>>,
}

/// One `mod name;` in its parent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) for_tests: bool,
}

impl Repository {
    /// Reads the repository around this test.
    pub(crate) fn read() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        walk(&root, &root, &mut paths);
        paths.sort();
        let is_text = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let ending = name.rsplit('.').next().unwrap_or(name);
            TEXTS.contains(&ending) || name.starts_with("LICENSE") || path.starts_with(".ci/")
        };
        let texts: BTreeMap<String, String> = paths
            .iter()
            .filter(|path| is_text(path))
            .map(|path| {
                let text = fs::read_to_string(root.join(path));
                (path.clone(), text.unwrap_or_else(|error| panic!("{path}: {error}")))
            })
            .collect();
        let rust = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| Source::new(path, text))
            .collect();
        Self { root, paths, texts, rust }
    }

    /// Every Rust file.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.rust.iter()
    }

    /// Every text file: path and text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every path, with forward slashes.
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Every path with the bytes of its file.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (&str, u64)> {
        let bytes = |path| fs::metadata(self.root.join(path)).map_or(0, |facts| facts.len());
        self.paths.iter().map(move |path| (path.as_str(), bytes(path)))
    }

    /// Whether a file or folder stands at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The modules of the library.
    pub(crate) fn modules(&self) -> Modules {
        Modules::read(self.rust())
    }
}

impl Modules {
    /// Reads the `mod` lines of every file under `src`.
    pub(crate) fn read<'a>(files: impl Iterator<Item = &'a Source>) -> Self {
        let mut modules = Self::default();
        for file in files {
            let Some(path) = module_of(&file.path) else {
                continue;
            };
            let children: Vec<Child> = file
                .declared_modules()
                .map(|(index, name)| Child {
                    name: name.to_owned(),
                    for_tests: file.in_test(index),
                })
                .collect();
            modules.children.entry(path).or_default().extend(children);
        }
        modules
    }

    /// The children of the module at `path`, in the order of its `mod` lines.
    pub(crate) fn children(&self, path: &[String]) -> &[Child] {
        self.children.get(path).map_or(&[], Vec::as_slice)
    }

    /// Whether the file at `path` is a module for tests only, or of a test program.
    pub(crate) fn is_for_tests(&self, path: &str) -> bool {
        let Some(module) = module_of(path) else {
            return !path.starts_with("src/");
        };
        let inner = &module[crate_root(&module).len()..];
        if inner.len() < module.len() && inner.first().is_some_and(|first| first == "tests") {
            return true;
        }
        (0..module.len()).any(|depth| {
            self.children(&module[..depth])
                .iter()
                .any(|child| child.for_tests && child.name == module[depth])
        })
    }
}

/// The path of the crate root above a module: that of `crate::` in there; empty in `corelane`.
pub(crate) fn crate_root(module: &[String]) -> &[String] {
    let found = CRATES.iter().find(|known| {
        module.len() >= known.root.len() && module.iter().zip(known.root).all(|(a, b)| a == b)
    });
    &module[..found.map_or(0, |known| known.root.len())]
}

/// The module path of a file under `src`: `src/engine/ring/mod.rs` is `engine::ring`, `lib.rs` and
/// `main.rs` are the root of their folder.
pub(crate) fn module_of(path: &str) -> Option<Vec<String>> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut names: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    Some(names)
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder that can be read lists its entries");
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
            walk(root, &entry.path(), paths);
        } else if kind.is_file() && name != ".git" {
            let path = entry.path();
            let inner = path.strip_prefix(root).expect("the walk stays inside its root");
            paths.push(inner.to_string_lossy().replace('\\', "/"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_path_gives_its_module() {
        let names = |path| module_of(path).map(|names| names.join("::"));
        assert_eq!(names("src/engine/ring/mod.rs").as_deref(), Some("engine::ring"));
        assert_eq!(names("src/base/slab.rs").as_deref(), Some("base::slab"));
        assert_eq!(names("src/lib.rs").as_deref(), Some(""));
        assert_eq!(names("src/parity/check/lib.rs").as_deref(), Some("parity::check"));
        assert_eq!(names("tests/tidy/main.rs"), None);
    }

    #[test]
    fn crate_in_folder_has_own_root() {
        let module = |path| module_of(path).unwrap_or_default();
        let inside = module("src/parity/check/wire/http.rs");
        assert_eq!(crate_root(&inside), ["parity", "check"]);
        assert_eq!(crate_root(&module("src/base/slab.rs")), ["base"]);
        assert!(crate_root(&module("src/server/shard.rs")).is_empty());
    }

    #[test]
    fn module_under_test_attribute_is_for_tests() {
        let parent = Source::new("src/base/mod.rs", "mod slab;\n#[cfg(test)]\nmod trials;");
        let modules = Modules::read([&parent].into_iter());
        assert!(modules.is_for_tests("src/base/trials.rs"));
        assert!(modules.is_for_tests("src/base/trials/deep.rs"));
        assert!(!modules.is_for_tests("src/base/slab.rs"));
        assert!(modules.is_for_tests("tests/any.rs"));
        assert!(modules.is_for_tests("src/base/tests/any.rs"));
        assert!(!modules.is_for_tests("src/server/tests/any.rs"));
    }

    #[test]
    fn walk_skips_build_output() {
        let repository = Repository::read();
        assert!(repository.paths().iter().any(|path| path == "tests/tidy/repository.rs"));
        assert!(!repository.paths().iter().any(|path| path.starts_with("target/")));
    }
}
