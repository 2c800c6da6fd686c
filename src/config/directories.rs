//! Checks that the directories named by options can be read. Opens directories, reads no file.

use std::fs;
use std::io;
use std::path::Path;

use crate::config::issue::Diagnostic;
use crate::config::options::Options;

/// Returns a diagnostic per directory that `options` name and this process cannot read, with the
/// key of its option.
pub fn find_unreadable(options: &Options) -> Vec<(&'static str, Diagnostic)> {
    let files = &options.files;
    [("resources.directory", &files.resources), ("prompts.directory", &files.prompts)]
        .into_iter()
        .filter_map(|(key, path)| Some((key, check(path.as_deref()?)?)))
        .collect()
}

fn check(path: &Path) -> Option<Diagnostic> {
    let error = fs::read_dir(path).err()?;
    let path = path.display();
    let (message, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("{path} does not exist"), "create it, name another directory, or off")
        }
        io::ErrorKind::NotADirectory => {
            (format!("{path} is not a directory"), "name the directory that holds the files")
        }
        io::ErrorKind::PermissionDenied => {
            (format!("{path}: permission denied"), "grant this process read permission")
        }
        _ => (format!("{path} cannot be read: {error}"), "name another directory, or off"),
    };
    Some(Diagnostic::new(message, hint))
}
