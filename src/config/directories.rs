//! Directories that options name, held against the disk.
//!
//! What it keeps true: a directory that could not be served is named with its option, the reason
//! and the remedy before anything starts. It opens directories and reads no file.

use std::fs;
use std::io;
use std::path::Path;

use crate::config::options::Options;
use crate::config::problem::Refusal;

/// Every directory that `options` name and this process cannot read: keys with reasons.
pub fn unreadable(options: &Options) -> Vec<(&'static str, Refusal)> {
    let files = &options.files;
    [("resources.directory", &files.resources), ("prompts.directory", &files.prompts)]
        .into_iter()
        .filter_map(|(key, path)| Some((key, judge(path.as_deref()?)?)))
        .collect()
}

fn judge(path: &Path) -> Option<Refusal> {
    let error = fs::read_dir(path).err()?;
    let path = path.display();
    let (what, remedy) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("{path} does not exist"), "create it, name another directory, or off")
        }
        io::ErrorKind::NotADirectory => {
            (format!("{path} is not a directory"), "name the directory that holds the files")
        }
        io::ErrorKind::PermissionDenied => {
            (format!("{path} may not be read by this process"), "give it the right to read it")
        }
        _ => (format!("{path} cannot be read: {error}"), "name another directory, or off"),
    };
    Some(Refusal::new(what, remedy))
}
