//! Which top-level module may use which: the layer table, as data.
//!
//! A use is any path that begins with `crate::` (or `corelane::`), and any name of a crate in `src`
//! (`corelane_base`), in production code and in inline tests alike.

use crate::Finding;
use crate::repository::{CRATES, Modules, crate_root, module_of};
use crate::source::Source;

/// A top-level module and those that it may use besides itself.
struct Layer {
    module: &'static str,
    may_use: &'static [&'static str],
}

/// A module uses only modules above its own line.
const LAYERS: [Layer; 21] = [
    Layer { module: "base", may_use: &[] },
    Layer { module: "telemetry", may_use: &["base"] },
    Layer { module: "protocol", may_use: &["base"] },
    Layer { module: "transport", may_use: &["base", "protocol"] },
    Layer { module: "engine", may_use: &["base"] },
    Layer { module: "tls", may_use: &["base", "transport", "engine"] },
    Layer { module: "parity", may_use: &["base", "protocol"] },
    Layer { module: "process", may_use: &[] },
    Layer { module: "guard", may_use: &["base", "protocol"] },
    Layer { module: "service", may_use: &["base", "protocol"] },
    Layer {
        module: "connection",
        may_use: &["base", "telemetry", "protocol", "transport", "tls", "engine"],
    },
    Layer {
        module: "client",
        may_use: &["base", "protocol", "transport", "tls", "parity", "engine", "process"],
    },
    Layer {
        module: "server",
        may_use: &[
            "base",
            "telemetry",
            "protocol",
            "transport",
            "tls",
            "parity",
            "guard",
            "service",
            "engine",
            "connection",
        ],
    },
    Layer { module: "files", may_use: &["telemetry", "protocol", "service", "server"] },
    Layer {
        module: "declared",
        may_use: &[
            "base",
            "telemetry",
            "protocol",
            "guard",
            "engine",
            "process",
            "guard",
            "service",
            "server",
            "files",
        ],
    },
    Layer {
        module: "gateway",
        may_use: &[
            "base",
            "telemetry",
            "protocol",
            "engine",
            "client",
            "guard",
            "service",
            "server",
            "declared",
        ],
    },
    Layer { module: "tower", may_use: &["protocol", "server"] },
    Layer {
        module: "testing",
        may_use: &["base", "telemetry", "protocol", "client", "service", "server"],
    },
    Layer { module: "config", may_use: ALL },
    Layer { module: "cli", may_use: ALL },
    Layer { module: "main", may_use: ALL },
];

/// Every module.
const ALL: &[&str] = &[
    "base",
    "telemetry",
    "protocol",
    "transport",
    "tls",
    "parity",
    "process",
    "guard",
    "service",
    "engine",
    "connection",
    "client",
    "server",
    "files",
    "declared",
    "gateway",
    "tower",
    "testing",
    "config",
    "cli",
];

/// The crate of the checks of the parity dialect: its folder, its name, and who uses it. It uses no
/// other crate of the workspace.
pub(crate) const CHECKER_FOLDER: &str = "src/parity/check/";
const CHECKER: &str = "corelane_parity_check";
const CHECKER_USER: &str = "src/cli/parity_check.rs";

/// Finds uses that the table does not allow.
pub(crate) fn check(file: &Source) -> Vec<Finding> {
    if file.path.starts_with(CHECKER_FOLDER) {
        let message = "the checks of the parity dialect use no code of `corelane`";
        return find_word(file, "corelane", message);
    }
    let Some(module) = top_module(&file.path) else {
        return Vec::new();
    };
    if file.path != CHECKER_USER {
        let found = find_word(file, CHECKER, "only the command `parity-check` uses this crate");
        if !found.is_empty() {
            return found;
        }
    }
    let Some(layer) = LAYERS.iter().find(|layer| layer.module == module) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for index in 0..file.tokens.len() {
        let line = file.tokens[index].line;
        for used in used_modules(file, index) {
            if used != module && !layer.may_use.contains(&used) {
                findings.push(Finding::new(&file.path, line, refusal(layer, used)));
            }
        }
    }
    findings
}

/// The top-level modules that the path at `index` names; who uses the checker is checked apart.
fn used_modules(file: &Source, index: usize) -> Vec<&str> {
    let word = file.word(index);
    if let Some(used) = CRATES.iter().find(|known| known.name == word && word != CHECKER) {
        return vec![used.root[0]];
    }
    let in_crate = module_of(&file.path).is_some_and(|module| !crate_root(&module).is_empty());
    let begins = word == "corelane" || (word == "crate" && !in_crate);
    if !begins || file.word(index + 1) != "::" {
        return Vec::new();
    }
    file.paths_at(index).iter().filter_map(|path| path.get(1).copied()).collect()
}

fn find_word(file: &Source, word: &str, message: &str) -> Vec<Finding> {
    let found = file.tokens.iter().filter(|token| token.text == word);
    found.map(|token| Finding::new(&file.path, token.line, message)).collect()
}

fn refusal(layer: &Layer, used: &str) -> String {
    let allowed = match layer.may_use {
        [] => "nothing but itself".to_owned(),
        modules => modules.join(", "),
    };
    if LAYERS.iter().any(|layer| layer.module == used) {
        format!("`{}` may not use `{used}`; it may use {allowed}", layer.module)
    } else {
        format!("`crate::{used}` is not a module: name the module that defines it ({allowed})")
    }
}

/// Finds modules of the crate root and crates in `src` that the tables do not list.
pub(crate) fn check_modules(modules: &Modules, paths: &[String]) -> Vec<Finding> {
    let own = modules.children(&[]).iter().map(|child| child.name.as_str());
    let mut findings: Vec<Finding> = own
        .filter(|name| !LAYERS.iter().any(|layer| layer.module == *name))
        .map(|name| {
            let message = format!("module `{name}` has no line in the layer table");
            Finding::new("src/lib.rs", 1, message)
        })
        .collect();
    for path in paths {
        let inner = path.strip_prefix("src/").and_then(|inner| inner.strip_suffix("/Cargo.toml"));
        let Some(inner) = inner else { continue };
        let folders: Vec<&str> = inner.split('/').collect();
        let has_layer = path.starts_with(CHECKER_FOLDER)
            || LAYERS.iter().any(|layer| layer.module == folders[0]);
        if !has_layer || !CRATES.iter().any(|known| known.root == folders) {
            let message = "the crate has no line in the table of crates or in that of layers";
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

fn top_module(path: &str) -> Option<String> {
    module_of(path)?.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn use_of_upper_module_is_found() {
        let found = findings("src/service/rpc.rs", "\nuse crate::engine::ring::Ring;");
        assert_eq!(
            found,
            ["src/service/rpc.rs:2: `service` may not use `engine`; it may use base, protocol"]
        );
    }

    #[test]
    fn server_use_of_files_is_found() {
        let found = findings("src/server/x.rs", "use crate::files::Files;");
        assert!(found[0].contains("`server` may not use `files`"), "{found:?}");
        assert!(findings("src/files/x.rs", "use crate::server::Server;").is_empty());
    }

    #[test]
    fn use_in_group_or_expression_is_found() {
        assert_eq!(findings("src/guard/x.rs", "use crate::{base, engine::ring};").len(), 1);
        assert_eq!(findings("src/service/x.rs", "fn a() { crate::server::run() }").len(), 1);
        assert_eq!(findings("src/guard/x.rs", "use corelane::service;").len(), 1);
    }

    #[test]
    fn allowed_use_passes() {
        assert!(
            findings("src/connection/x.rs", "use crate::{engine, transport, connection::y};")
                .is_empty()
        );
        assert!(findings("src/main.rs", "use corelane::server::Server;").is_empty());
        assert!(findings("src/base/x.rs", "pub(crate) fn a() {}").is_empty());
    }

    #[test]
    fn crate_counts_as_module_of_its_folder() {
        let text = "use corelane_base::slab::Slab;";
        assert_eq!(findings("src/tower/x.rs", text).len(), 1);
        assert!(findings("src/service/x.rs", text).is_empty());
        assert!(findings("src/base/x.rs", "use crate::slab::Slab;").is_empty());
        assert_eq!(findings("src/base/x.rs", "use corelane::server::Server;").len(), 1);
    }

    #[test]
    fn checks_of_parity_stand_alone() {
        let text = "use crate::wire::Channel; use corelane::client::Client;";
        assert_eq!(findings("src/parity/check/peer.rs", text).len(), 1);
        let user = "use corelane_parity_check::run;";
        assert_eq!(findings("src/server/x.rs", user).len(), 1);
        assert!(findings(CHECKER_USER, user).is_empty());
    }

    #[test]
    fn comments_and_strings_may_name_any_module() {
        let text = "//! See [`crate::engine`].\nconst A: &str = \"crate::engine::x\";";
        assert!(findings("src/base/x.rs", text).is_empty());
    }

    #[test]
    fn use_through_crate_root_is_found() {
        let found = findings("src/connection/x.rs", "use crate::Server;");
        assert!(found[0].contains("is not a module"), "{found:?}");
    }

    #[test]
    fn table_uses_only_lines_above() {
        for (place, layer) in LAYERS.iter().enumerate().take(12) {
            for used in layer.may_use {
                assert!(LAYERS[..place].iter().any(|lower| lower.module == *used), "{used}");
            }
        }
    }

    #[test]
    fn module_without_layer_is_found() {
        let root = Source::new("src/lib.rs", "pub mod base;\npub mod attic;");
        let modules = Modules::read([&root].into_iter());
        let found = check_modules(&modules, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("attic"));
        let crates = ["src/base/Cargo.toml", "src/server/Cargo.toml"].map(str::to_owned);
        let found = check_modules(&Modules::default(), &crates);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "src/server/Cargo.toml");
    }
}
