//! Access to files below a root: names, metadata, contents. This module does not depend on the
//! catalog.
//!
//! Invariants: all file access on behalf of a client goes through [`Root`], which opens only what
//! lies beneath it. Check and use are one operation: the kernel resolves a path below the root that
//! has no links in one call (`openat2` with `RESOLVE_BENEATH`). A path with links, and without this
//! call any path, is walked component by component with an open folder at each, and links are
//! followed by hand: so it is known where they lead. In both cases a link that is created meanwhile
//! cannot lead out. Opening does not block: a pipe without a writer opens at once and is rejected
//! by its type.
//!
//! Relative links within the root are followed; unless hidden names are offered, only if no name in
//! their targets is hidden. The root itself is opened again each time, and links in its path are
//! followed anew, so that a folder that was replaced is served.
//!
//! Source: openat2(2), Linux 5.6; `path_resolution(7)`.
//!
//! Two different contents of one name have different metadata, as far as the timestamps of the file
//! system distinguish them.

mod relative_path;

mod listing;

mod content;

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub(super) use self::content::{FileContent, FileRange, ReadError};
pub(super) use self::listing::{Listing, ScanLimits};
pub(super) use self::relative_path::{RelativePath, RootUri};

/// A folder whose files are served.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    /// Whether links to hidden names are followed.
    pub follows_hidden: bool,
}

impl Root {
    /// Returns the folder at `path`. Links in its path are followed each time; links below it to
    /// hidden names are not.
    ///
    /// # Errors
    ///
    /// It is not a readable folder.
    pub fn new(path: &Path) -> io::Result<Self> {
        let root = Self { path: absolute_path(path)?, follows_hidden: false };
        drop(root.open_root()?);
        Ok(root)
    }

    /// Returns its absolute path, as it was given: links in it are not resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file at `place`; returns `Ok(None)` if it is missing, out of reach, or not a
    /// regular file.
    ///
    /// # Errors
    ///
    /// A resource limit of the system is reached, or an I/O error occurred.
    pub fn open_file(&self, place: &RelativePath) -> io::Result<Option<(File, FileMetadata)>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Some(opened) = none_if_unreachable(self.open(place, flags))? else {
            return Ok(None);
        };
        let facts = FileMetadata::from_stat(&rustix::fs::fstat(&opened.descriptor)?);
        let facts = facts.map(|facts| FileMetadata { target: opened.target, ..facts });
        Ok(facts.map(|facts| (File::from(opened.descriptor), facts)))
    }

    /// Returns the metadata of the file `name` in an open folder, without opening it; `None` if it
    /// is a link or not a regular file.
    pub fn metadata_at(folder: &OwnedFd, name: &CStr) -> Option<FileMetadata> {
        FileMetadata::from_stat(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?)
    }

    /// Opens the folder at `place`.
    ///
    /// # Errors
    ///
    /// As the system reports it.
    pub fn open_folder(&self, place: &RelativePath) -> io::Result<OwnedFd> {
        Ok(self.open(place, FOLDER_FLAGS)?.descriptor)
    }

    /// Returns why the file at `place`, which is a link or cannot be read, is not offered; `None`
    /// if it can be opened.
    pub fn open_error(&self, place: &RelativePath) -> Option<io::Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.open(place, flags).err().map(io::Error::from)
    }

    /// Returns whether the file `name` in an open folder may be read.
    pub fn is_readable_at(folder: &OwnedFd, name: &CStr) -> bool {
        let access = rustix::fs::accessat(folder, name, Access::READ_OK, AtFlags::empty());
        access != Err(Errno::ACCESS)
    }

    /// Returns the links on the way to the root, in the order in which they are followed: each
    /// change of one of them may be a change of the root.
    pub fn links(&self) -> Vec<PathBuf> {
        let mut links = Vec::new();
        let mut steps = reversed_components(self.path.as_os_str().as_bytes());
        let mut here = PathBuf::from("/");
        while let Some(step) = steps.pop() {
            match step.as_slice() {
                b"." => {}
                b".." => drop(here.pop()),
                name => {
                    here.push(OsStr::from_bytes(name));
                    let Ok(target) = std::fs::read_link(&here) else { continue };
                    if links.len() == LINKS_MAX {
                        break;
                    }
                    links.push(here.clone());
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    } else {
                        here.pop();
                    }
                    steps.extend(reversed_components(target.as_os_str().as_bytes()));
                }
            }
        }
        links
    }

    fn open_root(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, &self.path, FOLDER_FLAGS, Mode::empty())
    }

    fn open(&self, place: &RelativePath, flags: OFlags) -> Result<Opened, Errno> {
        let root = self.open_root()?;
        if place.is_root() {
            return Ok(Opened { descriptor: root, target: None });
        }
        open_beneath(root, place, flags, self.follows_hidden)
    }
}

/// An open file or folder.
#[derive(Debug)]
struct Opened {
    descriptor: OwnedFd,
    /// Its place, if links were followed to it.
    target: Option<RelativePath>,
}

/// Opens `place` below `root`.
fn open_beneath(
    root: OwnedFd,
    place: &RelativePath,
    flags: OFlags,
    follows_hidden: bool,
) -> Result<Opened, Errno> {
    match open_without_links(&root, place, flags) {
        // Kernels before 5.6 do not know the call, and some sandboxes forbid unknown calls; or
        // there is a link, whose target has to be known.
        Err(Errno::NOSYS | Errno::PERM | Errno::LOOP) => {
            open_by_components(root, place, flags, follows_hidden)
        }
        result => result.map(|descriptor| Opened { descriptor, target: None }),
    }
}

/// Lets the kernel resolve the whole path; a link in it is an error. A concurrent rename requires
/// another attempt.
#[cfg(target_os = "linux")]
fn open_without_links(
    root: &OwnedFd,
    place: &RelativePath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    for _ in 0..ATTEMPTS_MAX {
        match rustix::fs::openat2(root, place.as_str(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::NOENT)
}

#[cfg(not(target_os = "linux"))]
fn open_without_links(_: &OwnedFd, _: &RelativePath, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Resolves the path by hand. `folders` are open from the root to the current folder, so that `..`
/// in a link goes back to the folder that was visited, whatever was moved meanwhile. A hidden name
/// in `place` or a link is an error unless `follows_hidden`.
fn open_by_components(
    root: OwnedFd,
    place: &RelativePath,
    flags: OFlags,
    follows_hidden: bool,
) -> Result<Opened, Errno> {
    let mut steps = reversed_components(place.as_str().as_bytes());
    let mut folders = vec![root];
    // Those of `folders`, without the root, and at the end that of the file.
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(step) = steps.pop() {
        let Some(here) = folders.last() else { return Err(Errno::XDEV) };
        if step == b"." {
            continue;
        }
        if step == b".." {
            folders.pop();
            names.pop();
            continue;
        }
        if is_hidden_target(&step) && !follows_hidden {
            return Err(Errno::NOENT);
        }
        let is_last = steps.is_empty();
        let how = OFlags::NOFOLLOW | if is_last { flags } else { FOLDER_FLAGS };
        let name = OsStr::from_bytes(&step);
        match rustix::fs::openat(here, name, how, Mode::empty()) {
            Ok(descriptor) => {
                folders.push(descriptor);
                names.push(step);
            }
            // A link: systems report different errors for `O_NOFOLLOW`. If it is not a link,
            // reading it fails.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) => {
                links += 1;
                let target = rustix::fs::readlinkat(here, name, Vec::new())?.into_bytes();
                if links > LINKS_MAX || target.starts_with(b"/") {
                    return Err(Errno::LOOP);
                }
                steps.extend(reversed_components(&target));
            }
            Err(error) => return Err(error),
        }
    }
    let descriptor = folders.pop().ok_or(Errno::XDEV)?;
    if links == 0 {
        return Ok(Opened { descriptor, target: None });
    }
    // A name that cannot be served has no URI that rules could name.
    let target = names.iter().try_fold(RelativePath::default(), |place, name| place.child(name));
    Ok(Opened { descriptor, target: Some(target.ok_or(Errno::NOENT)?) })
}

/// Returns `path` as an absolute one without `.` and `..`. Links before a `..` are resolved, others
/// stay.
fn absolute_path(path: &Path) -> io::Result<PathBuf> {
    let mut absolute = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => {
                absolute = std::fs::canonicalize(&absolute)?;
                absolute.pop();
            }
            component => absolute.push(component),
        }
    }
    Ok(absolute)
}

/// Returns whether a name in the target of a link is hidden: it begins with one dot. Names with two
/// are internal links in volumes of Kubernetes (`..data`), through which each file is read.
fn is_hidden_target(name: &[u8]) -> bool {
    name.starts_with(b".") && !name.starts_with(b"..")
}

/// Returns the components of a path, the last one first.
fn reversed_components(path: &[u8]) -> Vec<Vec<u8>> {
    let steps = path.split(|byte| *byte == b'/').filter(|step| !step.is_empty());
    steps.rev().map(<[u8]>::to_vec).collect()
}

/// Maps errors: resource limits and I/O errors stay errors, all others become `None`. The reasons
/// are not distinguished, so that clients learn nothing about files out of reach.
fn none_if_unreachable<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(opened) => Ok(Some(opened)),
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Flags to open folders.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Limit of links followed in one path, the same as the kernel's.
const LINKS_MAX: usize = 40;

/// Attempts during concurrent renames; openat2(2) advises to retry.
#[cfg(target_os = "linux")]
const ATTEMPTS_MAX: usize = 32;

/// Metadata of a regular file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileMetadata {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last modification, in milliseconds since 1970; 0 if it was before.
    pub modified_ms: u64,
    /// Device, inode and ctime, which change with every change of the file, and if another file is
    /// renamed over it.
    version: [u64; 4],
    /// The place of the file, if links lead to it from the one that was opened.
    pub target: Option<RelativePath>,
}

impl FileMetadata {
    /// Returns the metadata of `stat`, or `None` if it is not a regular file.
    pub fn from_stat(stat: &Stat) -> Option<Self> {
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let (seconds, nanoseconds) = (to_u64(stat.st_mtime), to_u64(stat.st_mtime_nsec));
        is_plain.then(|| Self {
            bytes: to_u64(stat.st_size),
            modified_ms: seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000),
            version: [
                to_u64(stat.st_dev),
                to_u64(stat.st_ino),
                to_u64(stat.st_ctime),
                to_u64(stat.st_ctime_nsec),
            ],
            target: None,
        })
    }

    /// Returns a text that changes with every change of the file.
    pub fn etag(&self) -> String {
        let [_, _, seconds, nanoseconds] = self.version;
        format!("{seconds:x}.{nanoseconds:x}-{:x}", self.bytes)
    }
}

/// Converts a system integer, whose type depends on the platform; negative numbers become 0.
fn to_u64(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A method to open a path.
    type OpenMethod = fn(OwnedFd, &RelativePath, OFlags, bool) -> Result<Opened, Errno>;

    /// Both methods, which must give the same results.
    const OPEN_METHODS: [(&str, OpenMethod); 2] =
        [("at once", open_beneath), ("by steps", open_by_components)];

    fn place(path: &str) -> RelativePath {
        RelativePath::from_absolute(&Path::new("/").join(path), Path::new("/")).unwrap()
    }

    /// Creates `outside/secret` and a root beside it with links in all directions.
    fn root_with_links() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("sub/deep")).unwrap();
        std::fs::create_dir(directory.path().join("outside")).unwrap();
        std::fs::write(directory.path().join("outside/secret"), "secret").unwrap();
        std::fs::write(root.join("plain"), "plain").unwrap();
        std::fs::write(root.join("sub/deep/file"), "deep").unwrap();
        for (target, link) in [
            ("plain", "to-plain"),
            ("sub", "to-sub"),
            ("../plain", "sub/up"),
            ("deep/../deep/./file", "sub/winding"),
            ("../../plain", "sub/deep/up-twice"),
            ("../outside/secret", "out"),
            ("../root/plain", "out-and-back"),
            ("../../outside", "sub/out"),
            ("/etc/hostname", "absolute"),
            ("loop", "loop"),
            ("missing", "dangling"),
            ("/proc/self/root", "magic"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let root = Root::new(&root).unwrap();
        (directory, root)
    }

    #[test]
    fn both_open_methods_reach_only_files_beneath() {
        let (_directory, root) = root_with_links();
        for (path, content) in [
            ("plain", Some("plain")),
            ("sub/deep/file", Some("deep")),
            ("to-plain", Some("plain")),
            ("to-sub/deep/file", Some("deep")),
            ("sub/up", Some("plain")),
            ("sub/winding", Some("deep")),
            ("sub/deep/up-twice", Some("plain")),
            ("to-sub/deep/up-twice", Some("plain")),
            ("out", None),
            ("out-and-back", None),
            ("sub/out/secret", None),
            ("absolute", None),
            ("loop", None),
            ("dangling", None),
            ("magic/etc/hostname", None),
            ("plain/below", None),
            ("missing", None),
        ] {
            for (name, open) in OPEN_METHODS {
                let opened = open(root.open_root().unwrap(), &place(path), OFlags::RDONLY, true);
                let text = opened.ok().map(|opened| {
                    let mut text = String::new();
                    File::from(opened.descriptor).read_to_string(&mut text).unwrap();
                    text
                });
                assert_eq!(text.as_deref(), content, "{path} {name}");
            }
        }
    }

    #[test]
    fn both_open_methods_know_where_links_lead() {
        let (_directory, root) = root_with_links();
        for (path, target) in [
            ("plain", None),
            ("sub/deep/file", None),
            ("to-plain", Some("plain")),
            ("to-sub/deep/file", Some("sub/deep/file")),
            ("sub/winding", Some("sub/deep/file")),
            ("to-sub/deep/up-twice", Some("plain")),
        ] {
            for (name, open) in OPEN_METHODS {
                let opened = open(root.open_root().unwrap(), &place(path), OFlags::RDONLY, false);
                let found = opened.unwrap().target;
                assert_eq!(found.as_ref().map(RelativePath::as_str), target, "{path} {name}");
            }
        }
        symlink("back\\slash", root.path().join("to-backslash")).unwrap();
        std::fs::write(root.path().join("back\\slash"), "unservable").unwrap();
        assert!(root.open_file(&place("to-backslash")).unwrap().is_none());
    }

    #[test]
    fn folder_pipe_and_socket_are_not_files() {
        let (_directory, root) = root_with_links();
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        for path in ["sub", "pipe", "socket"] {
            assert!(root.open_file(&place(path)).unwrap().is_none(), "{path}");
        }
        assert!(root.open_folder(&place("plain")).is_err());
        assert!(root.open_folder(&place("sub")).is_ok());
    }

    #[test]
    fn replaced_root_is_served() {
        let (directory, root) = root_with_links();
        std::fs::rename(root.path(), directory.path().join("old")).unwrap();
        assert!(root.open_file(&place("plain")).unwrap().is_none());
        std::fs::create_dir(root.path()).unwrap();
        std::fs::write(root.path().join("plain"), "new").unwrap();
        let (_, facts) = root.open_file(&place("plain")).unwrap().unwrap();
        assert_eq!(facts.bytes, 3);
    }

    #[test]
    fn links_to_root_are_followed_anew() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for release in ["1", "2"] {
            std::fs::create_dir_all(base.join("releases").join(release)).unwrap();
            std::fs::write(base.join("releases").join(release).join("v"), release).unwrap();
        }
        symlink("releases/1", base.join("one")).unwrap();
        symlink(base.join("one"), base.join("current")).unwrap();
        let root = Root::new(&base.join("releases/../current/.")).unwrap();
        assert_eq!(root.path(), base.join("current"));
        assert_eq!(root.links(), [base.join("current"), base.join("one")]);
        let read = || {
            let (mut file, _) = root.open_file(&place("v")).unwrap()?;
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            Some(text)
        };
        assert_eq!(read().as_deref(), Some("1"));
        std::fs::remove_file(base.join("one")).unwrap();
        assert_eq!(read(), None);
        symlink("releases/2", base.join("one")).unwrap();
        assert_eq!(read().as_deref(), Some("2"));
        std::fs::remove_file(base.join("current")).unwrap();
        symlink("current", base.join("current")).unwrap();
        assert!(read().is_none() && root.links().len() == LINKS_MAX);
    }
}
