//! Which room may use which: the layer table of the house, as data.
//!
//! A room is a folder of `src`. A use is any path that begins with `crate::` (or `corelane::`),
//! in production code and in inline tests alike.

use crate::Finding;
use crate::repository::{Modules, module_of};
use crate::source::Source;

/// A room and the rooms that it may use besides itself.
struct Layer {
    room: &'static str,
    may_use: &'static [&'static str],
}

/// From the ground up: a room uses only rooms above its own line.
const LAYERS: [Layer; 13] = [
    Layer { room: "base", may_use: &[] },
    Layer { room: "observe", may_use: &["base"] },
    Layer { room: "protocol", may_use: &["base"] },
    Layer { room: "transport", may_use: &["base", "protocol"] },
    Layer { room: "guard", may_use: &["base", "protocol"] },
    Layer { room: "service", may_use: &["base", "protocol"] },
    Layer { room: "engine", may_use: &["base", "observe"] },
    Layer { room: "link", may_use: &["base", "observe", "protocol", "transport", "engine"] },
    Layer {
        room: "client",
        may_use: &["base", "observe", "protocol", "transport", "engine", "link"],
    },
    Layer {
        room: "server",
        may_use: &[
            "base",
            "observe",
            "protocol",
            "transport",
            "guard",
            "service",
            "engine",
            "link",
            "client",
        ],
    },
    Layer { room: "config", may_use: ALL },
    Layer { room: "cli", may_use: ALL },
    Layer { room: "main", may_use: ALL },
];

/// Every room but the three at the top, which may use each other too.
const ALL: &[&str] = &[
    "base",
    "observe",
    "protocol",
    "transport",
    "guard",
    "service",
    "engine",
    "link",
    "client",
    "server",
    "config",
    "cli",
];

/// Finds uses of rooms that the file's own room may not see.
pub(crate) fn check(file: &Source) -> Vec<Finding> {
    let Some(room) = room_of(&file.path) else {
        return Vec::new();
    };
    let Some(layer) = LAYERS.iter().find(|layer| layer.room == room) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for index in 0..file.tokens.len() {
        let begins = matches!(file.word(index), "crate" | "corelane");
        if !begins || file.word(index + 1) != "::" {
            continue;
        }
        let line = file.tokens[index].line;
        for path in file.paths_at(index) {
            let Some(&used) = path.get(1) else { continue };
            if used != room && !layer.may_use.contains(&used) {
                findings.push(Finding::new(&file.path, line, refusal(layer, used)));
            }
        }
    }
    findings
}

fn refusal(layer: &Layer, used: &str) -> String {
    let allowed = match layer.may_use {
        [] => "nothing but itself".to_owned(),
        rooms => rooms.join(", "),
    };
    if LAYERS.iter().any(|layer| layer.room == used) {
        format!("`{}` may not use `{used}`; it may use {allowed}", layer.room)
    } else {
        format!("`crate::{used}` is no room: name the room that it stands in ({allowed})")
    }
}

/// Finds modules of the crate root that the table does not know.
pub(crate) fn check_rooms(modules: &Modules) -> Vec<Finding> {
    modules
        .children(&[])
        .iter()
        .filter(|child| !LAYERS.iter().any(|layer| layer.room == child.name))
        .map(|child| {
            let message = format!("room `{}` has no line in the layer table", child.name);
            Finding::new("src/lib.rs", 1, message)
        })
        .collect()
}

fn room_of(path: &str) -> Option<String> {
    module_of(path)?.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_use_of_a_room_above_is_found_with_line_and_remedy() {
        let found = findings("src/protocol/rpc.rs", "\nuse crate::engine::ring::Ring;");
        assert_eq!(
            found,
            ["src/protocol/rpc.rs:2: `protocol` may not use `engine`; it may use base"]
        );
    }

    #[test]
    fn a_use_inside_a_group_or_an_expression_is_found() {
        assert_eq!(findings("src/engine/x.rs", "use crate::{base, protocol::rpc};").len(), 1);
        assert_eq!(findings("src/base/x.rs", "fn a() { crate::server::run() }").len(), 1);
        assert_eq!(findings("src/guard/x.rs", "use corelane::service;").len(), 1);
    }

    #[test]
    fn what_the_table_allows_is_not_found() {
        assert!(findings("src/link/x.rs", "use crate::{engine, transport, link::y};").is_empty());
        assert!(findings("src/main.rs", "use corelane::server::Server;").is_empty());
        assert!(findings("src/base/x.rs", "pub(crate) fn a() {}").is_empty());
    }

    #[test]
    fn comments_and_strings_may_name_every_room() {
        let text = "//! See [`crate::engine`].\nconst A: &str = \"crate::engine::x\";";
        assert!(findings("src/base/x.rs", text).is_empty());
    }

    #[test]
    fn a_short_cut_through_the_crate_root_is_found() {
        let found = findings("src/link/x.rs", "use crate::Server;");
        assert!(found[0].contains("is no room"), "{found:?}");
    }

    #[test]
    fn no_room_uses_one_that_stands_below_it_in_the_table() {
        for (place, layer) in LAYERS.iter().enumerate().take(10) {
            for used in layer.may_use {
                assert!(LAYERS[..place].iter().any(|lower| lower.room == *used), "{used}");
            }
        }
    }

    #[test]
    fn a_room_without_a_line_is_found() {
        let root = Source::new("src/lib.rs", "pub mod base;\npub mod attic;");
        let found = check_rooms(&Modules::read([&root].into_iter()));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("attic"));
    }
}
