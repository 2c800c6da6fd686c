//! A file that a command writes: it has all of the content, or stays as it was.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is written. Unless it is finished, what was written is removed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    /// What is written until it is complete; `None` for what is no regular file, such as a pipe.
    temporary: Option<PathBuf>,
}

impl OutputFile {
    /// Begins a file, beside the one that it replaces.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A link stays a link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let replaced = fs::metadata(&path).ok();
        if replaced.as_ref().is_some_and(|replaced| !replaced.is_file()) {
            return Ok(Self { file: File::create(&path)?, path, temporary: None });
        }
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        if let Some(replaced) = replaced {
            file.set_permissions(replaced.permissions())?;
        }
        Ok(Self { file, path, temporary: Some(temporary) })
    }

    /// Writes all content.
    pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.append(content)?;
        file.finish()
    }

    /// Appends content.
    pub(crate) fn append(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }

    /// Puts the file in its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error before names what keeps it.
            fs::remove_file(temporary).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_file_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        OutputFile::write(&path, b"old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.append(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        OutputFile::write(&path, b"").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn link_and_device_are_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.txt"), folder.path().join("b.txt"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        OutputFile::write(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        OutputFile::write(Path::new("/dev/null"), b"new").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
