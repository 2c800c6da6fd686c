//! Arguments with `within`: paths that must be in a folder.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use serde_json::{Map, Value};

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure};
use crate::declared::problem::Problem;

/// The folders of the arguments that have one.
#[derive(Debug, Default)]
pub struct Folders {
    folders: Vec<(String, PathBuf)>,
}

impl Folders {
    /// The folders of `arguments`, by their real paths.
    ///
    /// # Errors
    ///
    /// One is no folder.
    pub fn new(arguments: &Arguments, base: &Path) -> Result<Self, Vec<Problem>> {
        let (mut folders, mut problems) = (Vec::new(), Vec::new());
        for name in arguments.names() {
            let Some(within) = arguments.rules(name).and_then(|it| it.within.as_ref()) else {
                continue;
            };
            match base.join(within).canonicalize() {
                Ok(folder) if folder.is_dir() => folders.push((name.to_owned(), folder)),
                result => {
                    let reason = match result {
                        Ok(_) => "is not a folder".to_owned(),
                        Err(error) => format!("cannot be used: {error}"),
                    };
                    let message = format!("{} {reason}", within.display());
                    let key = format!("arguments.{name}.within");
                    problems.push(Problem::new(key, message, "name a folder that exists"));
                }
            }
        }
        if problems.is_empty() { Ok(Self { folders }) } else { Err(problems) }
    }

    /// Returns the full paths of the arguments of `call` that have a folder. A relative path starts
    /// from the folder. The last name of a path need not exist.
    ///
    /// # Errors
    ///
    /// A path leads out of its folder, by its names or by a link.
    pub fn resolve(&self, call: &Call) -> Result<Map<String, Value>, Failure> {
        let mut resolved = Map::new();
        for (name, folder) in &self.folders {
            let value = match call.arguments.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::String(path)) => Value::from(resolve(name, folder, path)?),
                Some(Value::Array(paths)) => {
                    let paths = paths.iter().map(|path| {
                        let text = path.as_str().ok_or_else(|| wrong_type(name))?;
                        resolve(name, folder, text).map(Value::from)
                    });
                    Value::Array(paths.collect::<Result<_, _>>()?)
                }
                Some(_) => return Err(wrong_type(name)),
            };
            resolved.insert(name.clone(), value);
        }
        Ok(resolved)
    }
}

fn wrong_type(name: &str) -> Failure {
    Failure::invalid_argument(format_args!("argument {name} is not the text of a path"))
}

fn resolve(name: &str, folder: &Path, path: &str) -> Result<String, Failure> {
    let invalid = |reason: &str| {
        Failure::invalid_argument(format_args!("argument {name}: {path:?} {reason}"))
    };
    let relative = Path::new(path);
    let relative = match relative.strip_prefix(folder) {
        Ok(inner) => inner,
        Err(_) if relative.is_absolute() => {
            return Err(invalid(&format!("is not in {}", folder.display())));
        }
        Err(_) => relative,
    };
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let found = match find_beneath(folder, relative) {
        // A file that the command makes: its folder must be there.
        Err(PathFault::Missing) => match (relative.parent(), relative.file_name()) {
            (Some(parent), Some(last)) => {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                find_beneath(folder, parent).and_then(|parent| {
                    let path = parent.join(last);
                    // A link whose target does not exist could lead anywhere.
                    if path.is_symlink() { Err(PathFault::Outside) } else { Ok(path) }
                })
            }
            _ => Err(PathFault::Missing),
        },
        other => other,
    };
    let found = found.map_err(|fault| match fault {
        PathFault::Outside => invalid(&format!("leads out of {}", folder.display())),
        PathFault::Missing => invalid("does not exist"),
        PathFault::Other(error) => invalid(&format!("cannot be used: {error}")),
    })?;
    found.into_os_string().into_string().map_err(|_| invalid("leads to a name that is not UTF-8"))
}

/// Why a path below a folder cannot be used.
#[derive(Debug)]
pub enum PathFault {
    /// It leads out of the folder.
    Outside,
    /// It leads to nothing.
    Missing,
    /// Why it cannot be opened.
    Other(std::io::Error),
}

/// Opens the path `relative` below `folder`, which neither its names nor a link leave. Returns the
/// file and its real path.
pub fn open_beneath(folder: &Path, relative: &Path) -> Result<(File, PathBuf), PathFault> {
    open_with(folder, relative, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Returns the real path of `relative` below `folder`.
fn find_beneath(folder: &Path, relative: &Path) -> Result<PathBuf, PathFault> {
    open_with(folder, relative, OFlags::PATH).map(|(_, path)| path)
}

fn open_with(folder: &Path, relative: &Path, flags: OFlags) -> Result<(File, PathBuf), PathFault> {
    let fault = |error: Errno| match error {
        Errno::XDEV | Errno::LOOP => PathFault::Outside,
        Errno::NOENT | Errno::NOTDIR => PathFault::Missing,
        other => PathFault::Other(other.into()),
    };
    let root = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let root = rustix::fs::open(folder, root, Mode::empty()).map_err(fault)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(root, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
    let file = File::from(file.map_err(fault)?);
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = std::fs::read_link(link).map_err(PathFault::Other)?;
    Ok((file, path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_argument_stays_in_folder() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let folder = top.join("data");
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::write(top.join("secret"), "x").unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        symlink("in", folder.join("link")).unwrap();
        symlink("../new", folder.join("dangling")).unwrap();
        let found = |path: &str| resolve("path", &folder, path);
        let full = |path: &str| folder.join(path).to_str().unwrap().to_owned();
        assert_eq!(found("in").unwrap(), full("in"));
        assert_eq!(found("link").unwrap(), full("in"));
        assert_eq!(found(&full("in")).unwrap(), full("in"));
        assert_eq!(found("in/new").unwrap(), full("in/new"));
        assert_eq!(found("").unwrap(), folder.to_str().unwrap());
        for path in
            ["../secret", "out", "dangling", "in/../../secret", "/etc/passwd", "none/new", ".."]
        {
            assert!(found(path).is_err(), "{path}");
        }
    }
}
