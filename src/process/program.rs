//! The file that a program is started from.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Where programs are searched for without `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the file of `program`: a path, relative to `directory`, or a name in one of the
/// directories of `search_path`, which has the form of `PATH`.
///
/// # Errors
///
/// A sentence that says what is wrong: there is no such file, it is a directory, or it is not
/// executable.
pub fn find_program(
    program: &OsStr,
    directory: Option<&Path>,
    search_path: Option<&OsStr>,
) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the command has no program; write its name as the first word".to_owned());
    }
    let in_directory = |path: PathBuf| directory.map_or_else(|| path.clone(), |it| it.join(&path));
    if program.as_bytes().contains(&b'/') {
        let path = in_directory(program.into());
        return check(&path).map(|()| path);
    }
    let search_path = search_path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let mut unusable = None;
    for folder in std::env::split_paths(search_path) {
        let path = in_directory(folder).join(program);
        match check(&path) {
            Ok(()) => return Ok(path),
            Err(why) if unusable.is_none() && path.is_file() => unusable = Some(why),
            Err(_) => {}
        }
    }
    Err(unusable.unwrap_or_else(|| {
        let (program, path) = (program.to_string_lossy(), search_path.to_string_lossy());
        format!("the program `{program}` is not in PATH ({path}); install it, or write its path")
    }))
}

/// Returns what is wrong with the file of a program.
fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program `{shown}` does not exist"),
        io::ErrorKind::PermissionDenied => {
            format!("a directory of `{shown}` may not be searched by the user of the server")
        }
        _ => format!("the program `{shown}` cannot be found: {error}"),
    })?;
    if metadata.is_dir() {
        return Err(format!("the program `{shown}` is a directory"));
    }
    if !metadata.is_file() || rustix::fs::access(path, Access::EXEC_OK).is_err() {
        return Err(format!("the program `{shown}` is not executable; run chmod +x on it"));
    }
    Ok(())
}

/// Returns the interpreter that the first line of a script names.
pub(crate) fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let file = std::fs::File::open(path).ok()?;
    let len = std::os::unix::fs::FileExt::read_at(&file, &mut head, 0).ok()?;
    let line = head[..len].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    let word = OsString::from(OsStr::from_bytes(word));
    (!word.is_empty()).then(|| word.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(program: &str, path: Option<&str>) -> Result<PathBuf, String> {
        find_program(OsStr::new(program), None, path.map(OsStr::new))
    }

    #[test]
    fn program_is_found_in_path() {
        assert!(find("sh", None).unwrap().ends_with("sh"));
        assert_eq!(find("/bin/sh", None).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("sh", Some("/nowhere:/bin")).unwrap(), Path::new("/bin/sh"));
        let in_bin = find_program(OsStr::new("./sh"), Some(Path::new("/bin")), None);
        assert_eq!(in_bin.unwrap(), Path::new("/bin/./sh"));
    }

    #[test]
    fn unusable_program_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        let plain = plain.to_str().unwrap();
        let path = folder.path().to_str();
        assert!(find(plain, None).unwrap_err().contains("chmod +x"));
        assert!(find("plain", path).unwrap_err().contains("chmod +x"));
        assert!(find("other", path).unwrap_err().contains("is not in PATH"));
        assert!(find("/no/such", None).unwrap_err().contains("does not exist"));
        assert!(find("/usr", None).unwrap_err().contains("is a directory"));
        assert!(find("", None).unwrap_err().contains("no program"));
    }

    #[test]
    fn interpreter_is_word_of_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("script");
            std::fs::write(&path, text).unwrap();
            interpreter(&path)
        };
        assert_eq!(read("#! /bin/sh -e\nx"), Some("/bin/sh".into()));
        assert_eq!(read("#!/usr/bin/env python3"), Some("/usr/bin/env".into()));
        assert_eq!(read("#!\n"), None);
        assert_eq!(read("text"), None);
    }
}
