//! Files as contents: a fixed path, or one with placeholders below a fixed folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::declared::call::{Call, Failure, Output};
use crate::declared::command::{PathFault, open_beneath};
use crate::declared::fill::fill;
use crate::declared::problem::Problem;
use crate::declared::room::CallRoom;
use crate::declared::template::{Part, Template};

/// Reads a file for each call.
#[derive(Clone, Debug)]
pub struct FileReader {
    /// Folder that the path cannot leave.
    folder: PathBuf,
    /// Path in the folder.
    path: Template,
}

impl FileReader {
    /// A reader of `path`, which starts from `base`.
    ///
    /// # Errors
    ///
    /// A placeholder is malformed, or the folder before the first one does not exist.
    pub fn new(path: &str, base: &Path) -> Result<Self, Problem> {
        let template = Template::parse("file", path)?;
        let fixed = match template.parts().first() {
            Some(Part::Text(text)) => text.as_str(),
            _ => "",
        };
        let split = fixed.rfind('/').map_or(0, |index| index + 1);
        let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let folder = base.join(&fixed[..split]);
        let folder = folder.canonicalize().map_err(|error| {
            let message = format!("{} cannot be used: {error}", folder.display());
            Problem::new("file", message, "name a folder that exists")
        })?;
        let rest = template.without_start(split);
        if rest.parts().is_empty() {
            return Err(Problem::new("file", format!("{path:?} is no file"), "name a file"));
        }
        Ok(Self { folder, path: rest })
    }

    /// Names of the arguments in the path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.path.names()
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// There is no such file in the folder, or it is longer than the limit.
    pub async fn call(&self, call: Call, room: &CallRoom<'_>) -> Result<Output, Failure> {
        let path = fill(&self.path, &call);
        let bytes_max = room.bytes_max();
        let reader = self.clone();
        let opened = run_blocking(move || reader.open(&path, bytes_max)).await?;
        room.grow(opened.length).await;
        run_blocking(move || opened.read(bytes_max)).await
    }

    fn open(&self, path: &str, bytes_max: usize) -> Result<OpenedFile, Failure> {
        let opened = open_beneath(&self.folder, Path::new(path));
        let (file, _) = opened.map_err(|fault| match fault {
            PathFault::Outside => {
                Failure::invalid_argument(format_args!("{path:?} leads out of its folder"))
            }
            PathFault::Missing => Failure::invalid_argument(format_args!("there is no {path:?}")),
            PathFault::Other(error) => unreadable(path, &error),
        })?;
        let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
        if !metadata.is_file() {
            return Err(Failure::invalid_argument(format_args!("{path:?} is not a file")));
        }
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(too_long(path, bytes_max));
        }
        Ok(OpenedFile { path: path.to_owned(), file, length })
    }
}

/// A file that has `length` bytes, or has changed since.
struct OpenedFile {
    path: String,
    file: File,
    length: usize,
}

impl OpenedFile {
    fn read(self, bytes_max: usize) -> Result<Output, Failure> {
        let path = &self.path;
        let mut bytes = Vec::with_capacity(self.length);
        let limit = bytes_max as u64 + 1;
        let read = self.file.take(limit).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(path, &error))?;
        if bytes.len() > bytes_max {
            return Err(too_long(path, bytes_max));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Output::Text(text),
            Err(error) => {
                let guess = mime_guess::from_path(path).first_or_octet_stream();
                let data = Bytes::from(error.into_bytes());
                Output::Media { mime_type: guess.essence_str().to_owned(), data }
            }
        })
    }
}

fn too_long(path: &str, max: usize) -> Failure {
    Failure::failed(format_args!("{path:?} is longer than {max} bytes (limits.output_bytes)"))
}

fn unreadable(path: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format_args!("{path:?} cannot be read: {error}"))
}

/// Runs `work` on a thread that may wait.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Failure::failed("the file could not be read")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn file_is_read_below_fixed_folder() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("logs")).unwrap();
        fs::write(top.path().join("logs/a.txt"), "A").unwrap();
        fs::write(top.path().join("secret.txt"), "S").unwrap();
        symlink("../secret.txt", top.path().join("logs/link.txt")).unwrap();
        let reader = FileReader::new("logs/{name}.txt", top.path()).unwrap();
        let read = |name: &str| {
            let arguments = json!({ "name": name });
            let Value::Object(arguments) = arguments else { panic!("not an object") };
            let call = Call { arguments, ..Call::default() };
            reader.open(&fill(&reader.path, &call), 4)?.read(4)
        };
        assert_eq!(read("a"), Ok(Output::Text("A".to_owned())));
        for name in ["../secret", "link", "none", "/etc/passwd"] {
            assert!(matches!(read(name), Err(Failure::InvalidArgument(_))), "{name}");
        }
        fs::write(top.path().join("logs/a.txt"), "12345").unwrap();
        assert!(matches!(read("a"), Err(Failure::Failed(_))));
        fs::write(top.path().join("logs/a.txt"), [0xff]).unwrap();
        assert!(matches!(read("a"), Ok(Output::Media { .. })));
        assert!(FileReader::new("none/{name}", top.path()).is_err());
    }
}
