//! Opening what lies beneath a root, and nothing else.
//!
//! What it keeps true: check and use are one. The kernel resolves a path below the root in one call
//! (`openat2` with `RESOLVE_BENEATH`); where it has no such call the path is walked step by step
//! with an open folder at each step, links followed by hand. Either way a link that is put in place
//! meanwhile cannot lead out. Nothing blocks: a pipe without a writer opens at once and is refused
//! for what it is.
//!
//! Links within the root are followed where they are relative. The root itself is opened anew each
//! time, so that a folder that was replaced is served as it stands.
//!
//! Source: openat2(2), Linux 5.6; `path_resolution(7)`.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::facts::Facts;
use super::place::Place;

/// A folder whose contents are served.
#[derive(Clone, Debug)]
pub(in crate::server::files) struct Root {
    path: PathBuf,
}

impl Root {
    /// The folder at `path`, links in the path to it resolved once. Fails where it is no folder
    /// that can be read.
    pub(in crate::server::files) fn new(path: &Path) -> io::Result<Self> {
        let root = Self { path: std::fs::canonicalize(path)? };
        drop(root.open_root()?);
        Ok(root)
    }

    /// Its absolute path without links.
    pub(in crate::server::files) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file at `place`; `Ok(None)` where there is nothing that may be read: nothing at
    /// all, something out of reach, or something that is no plain file. `Err` where the system is
    /// at its limits.
    pub(in crate::server::files) fn open_file(
        &self,
        place: &Place,
    ) -> io::Result<Option<(File, Facts)>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Some(descriptor) = within_reach(self.open(place, flags))? else {
            return Ok(None);
        };
        let facts = Facts::of(&rustix::fs::fstat(&descriptor)?);
        Ok(facts.map(|facts| (File::from(descriptor), facts)))
    }

    /// The facts of the file called `name` in an open folder, which is not opened for it; `None`
    /// where it is a link or no plain file.
    pub(in crate::server::files) fn facts(folder: &OwnedFd, name: &CStr) -> Option<Facts> {
        Facts::of(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?)
    }

    /// Opens the folder at `place`, with the meanings of [`Root::open_file`].
    pub(in crate::server::files) fn open_folder(
        &self,
        place: &Place,
    ) -> io::Result<Option<OwnedFd>> {
        within_reach(self.open(place, FOLDER))
    }

    fn open_root(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, &self.path, FOLDER, Mode::empty())
    }

    fn open(&self, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.open_root()?;
        if place.is_root() {
            return Ok(root);
        }
        match open_at_once(&root, place, flags) {
            // Kernels before 5.6 do not know the call, and some sandboxes forbid what they do not
            // know.
            Err(Errno::NOSYS | Errno::PERM) => open_by_steps(root, place, flags),
            result => result,
        }
    }
}

/// Has the kernel resolve the whole path. A rename on the way makes it ask for another try.
#[cfg(target_os = "linux")]
fn open_at_once(root: &OwnedFd, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES_MAX {
        match rustix::fs::openat2(root, place.as_str(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::NOENT)
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: &OwnedFd, _: &Place, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Resolves the path here: `folders` are open from the root down to where the walk stands, so that
/// `..` in a link goes back the way that was come, whatever was moved meanwhile.
fn open_by_steps(root: OwnedFd, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut steps = reversed(place.as_str().as_bytes());
    let mut folders = vec![root];
    let mut links = 0;
    while let Some(step) = steps.pop() {
        let Some(here) = folders.last() else { return Err(Errno::XDEV) };
        if step == b"." {
            continue;
        }
        if step == b".." {
            folders.pop();
            continue;
        }
        let is_last = steps.is_empty();
        let how = OFlags::NOFOLLOW | if is_last { flags } else { FOLDER };
        let name = OsStr::from_bytes(&step);
        match rustix::fs::openat(here, name, how, Mode::empty()) {
            Ok(descriptor) if is_last => return Ok(descriptor),
            Ok(descriptor) => folders.push(descriptor),
            // A link, by the names that systems have for meeting one; if it is none, reading it
            // fails.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) => {
                links += 1;
                let target = rustix::fs::readlinkat(here, name, Vec::new())?.into_bytes();
                if links > LINKS_MAX || target.starts_with(b"/") {
                    return Err(Errno::LOOP);
                }
                steps.extend(reversed(&target));
            }
            Err(error) => return Err(error),
        }
    }
    folders.pop().ok_or(Errno::XDEV)
}

/// The steps of a path, the last one first.
fn reversed(path: &[u8]) -> Vec<Vec<u8>> {
    let steps = path.split(|byte| *byte == b'/').filter(|step| !step.is_empty());
    steps.rev().map(<[u8]>::to_vec).collect()
}

/// Sorts errors: those of the system stay errors, all others mean that there is nothing to read.
/// Why there is nothing is not told apart, so that nobody learns what lies out of reach.
fn within_reach(result: Result<OwnedFd, Errno>) -> io::Result<Option<OwnedFd>> {
    match result {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// How folders are opened.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Links followed in one path, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Tries while somebody else renames; openat2(2) advises to try again.
#[cfg(target_os = "linux")]
const TRIES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A way to open a place.
    type Way = fn(OwnedFd, &Place, OFlags) -> Result<OwnedFd, Errno>;

    /// Both ways, to be held to the same results.
    const WAYS: [(&str, Way); 2] = [
        ("at once", |root, place, flags| open_at_once(&root, place, flags)),
        ("by steps", open_by_steps),
    ];

    fn place(path: &str) -> Place {
        Place::of(&Path::new("/").join(path), Path::new("/")).unwrap()
    }

    /// `outside/secret` and a root beside it with links in all directions.
    fn landscape() -> (tempfile::TempDir, Root) {
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
    fn both_ways_reach_what_lies_beneath_and_nothing_else() {
        let (_directory, root) = landscape();
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
            for (name, way) in WAYS {
                let opened = way(root.open_root().unwrap(), &place(path), OFlags::RDONLY);
                let text = opened.ok().map(|descriptor| {
                    let mut text = String::new();
                    File::from(descriptor).read_to_string(&mut text).unwrap();
                    text
                });
                if cfg!(target_os = "linux") || name == "by steps" {
                    assert_eq!(text.as_deref(), content, "{path} {name}");
                }
            }
        }
    }

    #[test]
    fn a_folder_a_pipe_and_a_socket_are_no_files() {
        let (_directory, root) = landscape();
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(root.path().join("door")).unwrap();
        for path in ["sub", "pipe", "door"] {
            assert!(root.open_file(&place(path)).unwrap().is_none(), "{path}");
        }
        assert!(root.open_folder(&place("plain")).unwrap().is_none());
        assert!(root.open_folder(&place("sub")).unwrap().is_some());
    }

    #[test]
    fn a_root_that_was_replaced_is_served_as_it_stands() {
        let (directory, root) = landscape();
        std::fs::rename(root.path(), directory.path().join("old")).unwrap();
        assert!(root.open_file(&place("plain")).unwrap().is_none());
        std::fs::create_dir(root.path()).unwrap();
        std::fs::write(root.path().join("plain"), "new").unwrap();
        let (_, facts) = root.open_file(&place("plain")).unwrap().unwrap();
        assert_eq!(facts.bytes, 3);
    }
}
