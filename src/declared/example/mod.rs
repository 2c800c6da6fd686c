//! The example that `corelane new` writes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

/// A file of the example.
struct ExampleFile {
    path: &'static str,
    text: &'static str,
    mode: u32,
}

const FILES: [ExampleFile; 5] = [
    ExampleFile { path: "corelane.toml", text: include_str!("files/corelane.toml"), mode: 0o644 },
    ExampleFile {
        path: "tools/word_count.sh",
        text: include_str!("files/tools/word_count.sh"),
        mode: 0o755,
    },
    ExampleFile { path: "openapi.json", text: include_str!("files/openapi.json"), mode: 0o644 },
    ExampleFile { path: "notes/first.md", text: include_str!("files/notes/first.md"), mode: 0o644 },
    ExampleFile {
        path: "notes/second.md",
        text: include_str!("files/notes/second.md"),
        mode: 0o644,
    },
];

/// The schema for editors.
const SCHEMA: &str = "corelane.schema.json";

/// The database.
const DATABASE: &str = "shop.db";

const ITEMS: &str =
    "create table items (id integer primary key, name text not null, price real not null);
insert into items (name, price) values ('apple', 0.5), ('bread', 3.2), ('cheese', 7.9);";

/// Writes the example and the `schema` of its file into `folder`, which is made if it does not
/// exist. Returns the paths.
///
/// # Errors
///
/// One of the files exists already, and nothing is written; or a file cannot be written.
pub fn write_example(folder: &Path, schema: &Value) -> io::Result<Vec<PathBuf>> {
    let names = FILES.iter().map(|file| file.path).chain([SCHEMA, DATABASE]);
    let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        let message = format!("{} exists already; name an empty folder", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    for ExampleFile { path, text, mode } in &FILES {
        write(&folder.join(path), text.as_bytes(), *mode)?;
    }
    let schema = serde_json::to_vec_pretty(schema)?;
    write(&folder.join(SCHEMA), &schema, 0o644)?;
    let database = Connection::open(folder.join(DATABASE)).map_err(io::Error::other)?;
    database.execute_batch(ITEMS).map_err(io::Error::other)?;
    Ok(paths)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{Declared, Sources};

    #[test]
    fn example_is_valid_and_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let paths = write_example(&folder, &Value::Null).unwrap();
        assert!(paths.iter().all(|path| path.is_file()), "{paths:?}");
        let file = Some(folder.join("corelane.toml"));
        let declared = Declared::new(Sources {
            file,
            tools: Some(folder.join("tools")),
            ..Sources::default()
        });
        let loaded = declared.load().unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        assert_eq!(
            write_example(&folder, &Value::Null).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
    }
}
