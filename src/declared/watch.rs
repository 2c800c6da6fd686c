//! Follows changes of the files of declarations.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::declared::load::Loaded;
use crate::files::FileFault;
use crate::files::change_batch::ChangeBatch;
use crate::files::watcher::{Consumer, WatchedPaths};
use crate::telemetry::Event;

/// What the files of declarations were when they were read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileState {
    files: BTreeMap<PathBuf, Option<Identity>>,
}

/// What differs if a file was written or replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    mode: u32,
    modified: i64,
    modified_nanoseconds: i64,
}

impl FileState {
    /// Looks at the files that `loaded` depends on.
    pub fn of(loaded: &Loaded) -> Self {
        Self { files: loaded.paths.iter().map(|path| (path.clone(), identity(path))).collect() }
    }

    /// Looks at the same files again.
    fn again(&self) -> Self {
        Self { files: self.files.keys().map(|path| (path.clone(), identity(path))).collect() }
    }

    /// Whether a file has changed since.
    fn has_changed(&self) -> bool {
        self.files.iter().any(|(path, known)| identity(path) != *known)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        mode: metadata.mode(),
        modified: metadata.mtime(),
        modified_nanoseconds: metadata.mtime_nsec(),
    })
}

/// Reads the declarations again, publishes them and returns what they depend on now. Faults are
/// logged; nothing is published then.
pub type Reload = Box<dyn Fn() -> FileState + Send>;

/// Reads declarations again when one of their files has changed.
pub struct DeclarationWatch {
    state: FileState,
    reload: Reload,
}

impl DeclarationWatch {
    /// Watches the files of `state`.
    pub fn new(state: FileState, reload: Reload) -> Self {
        Self { state, reload }
    }
}

impl DeclarationWatch {
    /// Reads the declarations. Returns whether they must be read once more, since there are files
    /// that were not looked at before they were read: they can have changed in between.
    fn read_again(&mut self) -> bool {
        // A file that changes after this look is read again.
        let before = self.state.again();
        self.state = (self.reload)();
        let files = &mut self.state.files;
        let has_new_files = files.keys().any(|path| !before.files.contains_key(path));
        let known: Vec<_> =
            before.files.into_iter().filter(|(path, _)| files.contains_key(path)).collect();
        files.extend(known);
        has_new_files
    }
}

/// Reloads in a row while files appear; their events cause the next one.
const RELOADS_MAX: usize = 4;

impl Consumer for DeclarationWatch {
    fn update(&mut self, _: &ChangeBatch) -> WatchedPaths {
        let mut needs_reload = self.state.has_changed();
        for _ in 0..RELOADS_MAX {
            if !needs_reload {
                break;
            }
            needs_reload = self.read_again();
        }
        let mut watched = WatchedPaths::default();
        for path in self.state.files.keys() {
            // A folder is watched for its entries, a file by its folder: editors replace files.
            let parent =
                path.parent().map(|it| if it.as_os_str().is_empty() { ".".as_ref() } else { it });
            let folders = [Some(path.as_path()), parent].into_iter().flatten();
            watched.folders.extend(folders.filter(|it| it.is_dir()).map(Path::to_owned));
        }
        watched
    }

    fn is_pending(&self) -> bool {
        false
    }

    fn report_fault(&mut self, fault: FileFault) {
        Event::FileWarning { warning: &fault.to_string() }.emit();
    }
}
