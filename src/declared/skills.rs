//! A directory of skills (`--skills DIR`, SEP-2640): every folder in it that has a `SKILL.md`.
//!
//! The files of a skill are resources. Invariants: a file is read only below the directory, which
//! no link leaves; its contents are those that the skill lists, or the read fails.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{DirEntry, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corelane_protocol::model::ResourceContents;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::declared::command::{PathFault, open_beneath};
use crate::declared::entry::{Entry, Fingerprint, Item};
use crate::declared::fault::Fault;
use crate::service::{HandlerError, Resource, Skill, SkillFile};

/// Most files of one skill, as clients accept it.
const FILES_MAX: usize = 512;
/// Most bytes of all files of one skill, as clients accept it.
const BYTES_MAX: u64 = 16 << 20;
/// Most skills of one directory.
const SKILLS_MAX: usize = 1000;
/// Most folders in each other.
const DEPTH_MAX: usize = 16;
/// Most characters of a skill's name.
const NAME_LENGTH_MAX: usize = 64;
/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";

/// What a directory of skills has.
#[derive(Debug, Default)]
pub struct SkillDirectory {
    /// The skills that can be offered.
    pub skills: Vec<LoadedSkill>,
    /// Why others are not offered, and which files are left out.
    pub warnings: Vec<Fault>,
    /// The files that were read, and the folders that were listed.
    pub paths: BTreeSet<PathBuf>,
}

/// A skill and its files, as entries of the catalog.
#[derive(Debug)]
pub struct LoadedSkill {
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// The skill and the resources.
    pub entries: Vec<Entry>,
}

/// A file of a skill that was read.
struct FoundFile {
    /// Path below the directory of skills.
    relative: PathBuf,
    uri: String,
    digest: Fingerprint,
    size: u64,
}

impl SkillDirectory {
    /// Reads every skill below `root`; `root` itself may be one.
    pub fn read(root: &Path) -> Self {
        let mut directory = Self::default();
        let scan = Scan { root: &Arc::from(root) };
        scan.visit(Path::new(""), 0, &mut directory);
        directory
    }

    fn warn(&mut self, path: PathBuf, message: impl Into<String>, hint: &str) {
        self.warnings.push(Fault::of_file(path, message, hint));
    }
}

/// Reads the folders below a directory.
struct Scan<'r> {
    root: &'r Arc<Path>,
}

impl Scan<'_> {
    /// Reads the skill in the folder `relative`, or those in its folders.
    fn visit(&self, relative: &Path, depth: usize, directory: &mut SkillDirectory) {
        let path = self.path(relative);
        if self.path(relative.join(SKILL_FILE)).symlink_metadata().is_ok() {
            if directory.skills.len() == SKILLS_MAX {
                let message = format!("is not offered: there are more than {SKILLS_MAX} skills");
                return directory.warn(path, message, "serve fewer folders");
            }
            match self.read_skill(relative, directory) {
                Ok(skill) => directory.skills.push(skill),
                Err(fault) => directory.warnings.push(fault),
            }
            return;
        }
        for entry in self.list(relative, directory) {
            let child = relative.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() && self.path(&child).is_dir() => {
                    let hint = "copy the folder into the directory, or name its own directory";
                    directory.warn(self.path(&child), "is a link and is not followed", hint);
                }
                Ok(kind) if kind.is_dir() && depth == DEPTH_MAX => {
                    let message = format!("is not read: it is in more than {DEPTH_MAX} folders");
                    directory.warn(self.path(&child), message, "move it up");
                }
                Ok(kind) if kind.is_dir() => self.visit(&child, depth + 1, directory),
                _ => {}
            }
        }
    }

    fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        if relative.as_os_str().is_empty() {
            self.root.to_path_buf()
        } else {
            self.root.join(relative)
        }
    }

    /// The entries of a folder by their names, without those that begin with a dot.
    fn list(&self, relative: &Path, directory: &mut SkillDirectory) -> Vec<DirEntry> {
        let path = self.path(relative);
        directory.paths.insert(path.clone());
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            // It may be made later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                directory.warn(path, format!("cannot be read: {error}"), "make it readable");
                return Vec::new();
            }
        };
        let is_hidden = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
        let mut entries: Vec<DirEntry> =
            entries.filter_map(Result::ok).filter(|entry| !is_hidden(entry)).collect();
        entries.sort_by_key(DirEntry::file_name);
        entries
    }

    fn read_skill(
        &self,
        folder: &Path,
        directory: &mut SkillDirectory,
    ) -> Result<LoadedSkill, Fault> {
        let skill_file = folder.join(SKILL_FILE);
        let path = self.path(&skill_file);
        directory.paths.insert(path.clone());
        let fault = |message: String, hint: &str| Fault::of_file(&path, message, hint);
        let text = self.read_file(&skill_file, BYTES_MAX).map_err(|error| {
            fault(format!("cannot be read: {error}"), "make it a readable file of the directory")
        })?;
        let text = String::from_utf8(text)
            .map_err(|_| fault("is not UTF-8".to_owned(), "save it as UTF-8"))?;
        let hint = "begin with a line ---, then name: and description:, then a line ---";
        let front_matter = read_front_matter(&text).map_err(|error| fault(error, hint))?;
        let folder_path = self.path(folder);
        let folder_name = folder_path.canonicalize().unwrap_or(folder_path);
        let folder_name = folder_name.file_name().and_then(|name| name.to_str());
        let name = check_name(&front_matter, folder_name)
            .map_err(|(message, hint)| fault(message, hint))?;
        let description = front_matter.get("description").and_then(Value::as_str);
        let Some(description) = description.filter(|text| !text.trim().is_empty()) else {
            let hint = "say what the skill does and when to use it";
            return Err(fault("has no description".to_owned(), hint));
        };
        let steps = folder.parent().unwrap_or_else(|| Path::new(""));
        let prefix = encode_path(&steps.join(&name))
            .map(|path| format!("skill://{path}/"))
            .ok_or_else(|| fault("is in a folder that is not UTF-8".to_owned(), "rename it"))?;
        let files = self.read_files(folder, &prefix, directory)?;
        let entries = self.make_entries(&name, description, &front_matter, &prefix, files);
        Ok(LoadedSkill { path, entries })
    }

    /// Reads the files of the skill in `folder`, whose URIs begin with `prefix`.
    fn read_files(
        &self,
        folder: &Path,
        prefix: &str,
        directory: &mut SkillDirectory,
    ) -> Result<Vec<FoundFile>, Fault> {
        let mut files = Vec::new();
        let mut bytes_left = BYTES_MAX;
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((current, depth)) = folders.pop() {
            for entry in self.list(&current, directory) {
                let relative = current.join(entry.file_name());
                let path = self.path(&relative);
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && depth < DEPTH_MAX {
                    folders.push((relative, depth + 1));
                    continue;
                }
                directory.paths.insert(path.clone());
                let found = self.find_file(folder, &relative, prefix, bytes_left);
                match found {
                    Ok(found) => {
                        bytes_left -= found.size;
                        files.push(found);
                    }
                    Err(FileFault::TooLong) => {
                        let message = "is a file of a skill with more than 16 MiB";
                        return Err(Fault::of_file(path, message, "remove files"));
                    }
                    Err(FileFault::Unusable(reason)) => {
                        let message = format!("is left out of its skill: {reason}");
                        directory.warn(path, message, "make it a readable file of the directory");
                    }
                }
                if files.len() > FILES_MAX {
                    let message = format!("has more than {FILES_MAX} files");
                    return Err(Fault::of_file(self.path(folder), message, "remove files"));
                }
            }
        }
        files.sort_by(|one, other| one.uri.cmp(&other.uri));
        Ok(files)
    }

    fn find_file(
        &self,
        folder: &Path,
        relative: &Path,
        prefix: &str,
        bytes_max: u64,
    ) -> Result<FoundFile, FileFault> {
        let inner = relative.strip_prefix(folder).unwrap_or(relative);
        let inner = encode_path(inner)
            .ok_or_else(|| FileFault::Unusable("its name is not UTF-8".to_owned()))?;
        let bytes = self.read_file(relative, bytes_max)?;
        Ok(FoundFile {
            relative: relative.to_owned(),
            uri: format!("{prefix}{inner}"),
            digest: Sha256::digest(&bytes).into(),
            size: bytes.len() as u64,
        })
    }

    fn read_file(&self, relative: &Path, bytes_max: u64) -> Result<Vec<u8>, FileFault> {
        read_beneath(self.root, relative, bytes_max)
    }

    fn make_entries(
        &self,
        name: &str,
        description: &str,
        front_matter: &Map<String, Value>,
        prefix: &str,
        files: Vec<FoundFile>,
    ) -> Vec<Entry> {
        let uri = format!("{prefix}{SKILL_FILE}");
        let listed = files.iter().map(|file| SkillFile {
            uri: file.uri.clone(),
            digest: format_digest(&file.digest),
            size: file.size,
        });
        let mut hash = Sha256::new();
        hash.update(Value::Object(front_matter.clone()).to_string());
        for file in &files {
            hash.update(&file.uri);
            hash.update(file.digest);
        }
        let skill = Skill::new(uri.as_str(), front_matter.clone(), listed);
        let skill = entry(hash.finalize().into(), Item::Skill(skill));
        let resources = files.into_iter().map(|file| {
            let mut hash = Sha256::new();
            hash.update(file.digest);
            let is_skill_file = file.uri == uri;
            let path = file.uri.strip_prefix(prefix).unwrap_or_default();
            let own_name = if is_skill_file { name.to_owned() } else { format!("{name}/{path}") };
            let mut builder = Resource::new(file.uri.as_str(), own_name).size(file.size);
            if is_skill_file {
                hash.update(description);
                builder = builder.description(description);
            }
            let mime_type = mime_guess::from_path(&file.relative).first_raw();
            if let Some(mime_type) = mime_type {
                builder = builder.mime_type(mime_type);
            }
            let root = Arc::clone(self.root);
            let size = usize::try_from(file.size).unwrap_or(usize::MAX);
            let resource =
                builder.blocking_sized(move |_| size, move |_, _| file.read(&root, mime_type));
            entry(hash.finalize().into(), Item::Resource(resource))
        });
        std::iter::once(skill).chain(resources).collect()
    }
}

fn entry(fingerprint: Fingerprint, item: Item) -> Entry {
    Entry { fingerprint, rate_rule: None, runner: None, item }
}

impl FoundFile {
    /// Reads the file for a client.
    ///
    /// # Errors
    ///
    /// It is gone, or it is not what the skill lists.
    fn read(
        &self,
        root: &Path,
        mime_type: Option<&'static str>,
    ) -> Result<ResourceContents, HandlerError> {
        let bytes = match read_beneath(root, &self.relative, self.size) {
            Ok(bytes) if Fingerprint::from(Sha256::digest(&bytes)) == self.digest => bytes,
            Ok(_) | Err(FileFault::TooLong) => {
                let hint = "has changed since its skill was listed; list the skills again";
                return Err(HandlerError::tool(format_args!("{} {hint}", self.uri)));
            }
            Err(FileFault::Unusable(_)) => return Err(HandlerError::NotFound),
        };
        let contents = match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(self.uri.as_str(), text),
            Err(error) => ResourceContents::blob(self.uri.as_str(), error.into_bytes()),
        };
        Ok(match mime_type {
            Some(mime_type) => contents.with_mime_type(mime_type),
            None => contents,
        })
    }
}

/// Why a file cannot be served.
#[derive(Debug)]
enum FileFault {
    /// It has more bytes than allowed.
    TooLong,
    /// Why it cannot be read.
    Unusable(String),
}

impl std::fmt::Display for FileFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => formatter.write_str("it is too long"),
            Self::Unusable(reason) => formatter.write_str(reason),
        }
    }
}

/// Reads the regular file `relative` below `root`, which no link leaves.
fn read_beneath(root: &Path, relative: &Path, bytes_max: u64) -> Result<Vec<u8>, FileFault> {
    let (file, _) = open_beneath(root, relative).map_err(|fault| {
        FileFault::Unusable(match fault {
            PathFault::Outside => "a link leads out of the directory".to_owned(),
            PathFault::Missing => "there is no such file".to_owned(),
            PathFault::Other(error) => error.to_string(),
        })
    })?;
    read_regular(file, bytes_max)
}

fn read_regular(file: File, bytes_max: u64) -> Result<Vec<u8>, FileFault> {
    let unusable = |error: io::Error| FileFault::Unusable(error.to_string());
    if !file.metadata().map_err(unusable)?.is_file() {
        return Err(FileFault::Unusable("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(unusable)?;
    if bytes.len() as u64 > bytes_max { Err(FileFault::TooLong) } else { Ok(bytes) }
}

fn format_digest(digest: &Fingerprint) -> String {
    let mut text = "sha256:".to_owned();
    for byte in digest {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the path as in a URI; `None` if it is not UTF-8.
fn encode_path(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    Some(utf8_percent_encode(path, ESCAPED).to_string())
}

/// Characters that are escaped in a URI path: all but the unreserved ones and the separator.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Reads the YAML between the lines `---` at the start of a text.
fn read_front_matter(text: &str) -> Result<Map<String, Value>, String> {
    let is_fence = |line: &str| line.trim_end_matches(['\r', '\n']) == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line));
    let first = first.ok_or("does not begin with a front matter")?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            return serde_saphyr::from_str(&text[first.len()..end])
                .map_err(|error| format!("the front matter is not valid YAML: {error}"));
        }
        end += line.len();
    }
    Err("has a front matter without end".to_owned())
}

/// Returns the name of a skill, which is that of its folder.
///
/// # Errors
///
/// What is wrong with it, and what to do.
fn check_name(
    front_matter: &Map<String, Value>,
    folder: Option<&str>,
) -> Result<String, (String, &'static str)> {
    let Some(name) = front_matter.get("name").and_then(Value::as_str) else {
        return Err(("has no name".to_owned(), "write the name of the folder as name:"));
    };
    let is_part = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    if name.len() > NAME_LENGTH_MAX || !name.split('-').all(is_part) {
        let hint = "write 1 to 64 characters of a-z 0-9, with single hyphens between them";
        return Err((format!("name {name:?} is not the name of a skill"), hint));
    }
    if folder != Some(name) {
        let folder = folder.unwrap_or_default();
        let hint = "give the folder the name of the skill";
        return Err((format!("name {name:?} is not that of the folder {folder:?}"), hint));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const PDF: &str = "---\nname: pdf\ndescription: Reads PDF.\n---\nUse it.\n";

    fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// URIs of the skills.
    fn uris(directory: &SkillDirectory) -> Vec<String> {
        directory.skills.iter().map(|skill| skill.entries[0].key().name).collect()
    }

    fn only_skill(directory: &SkillDirectory) -> &Skill {
        let [skill] = &directory.skills[..] else { panic!("{:?}", directory.warnings) };
        let Item::Skill(skill) = &skill.entries[0].item else { panic!("a skill") };
        skill
    }

    #[test]
    fn skill_lists_files_with_digest_and_size() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "office/pdf/SKILL.md", PDF);
        write(root.path(), "office/pdf/scripts/a b.py", "abc");
        write(root.path(), "office/pdf/.git/config", "x");
        write(root.path(), "README.md", "no skill");
        let directory = SkillDirectory::read(root.path());
        assert_eq!(directory.warnings, []);
        let skill = only_skill(&directory);
        assert_eq!(skill.uri(), "skill://office/pdf/SKILL.md");
        let files: Vec<_> =
            skill.files().iter().map(|file| (file.uri.as_str(), file.size)).collect();
        let script = "skill://office/pdf/scripts/a%20b.py";
        assert_eq!(files, [(skill.uri(), PDF.len() as u64), (script, 3)]);
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(skill.files()[1].digest, digest);
        assert!(directory.paths.contains(&root.path().join("office/pdf/scripts")));
    }

    #[test]
    fn directory_may_be_one_skill() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "pdf/SKILL.md", PDF);
        write(root.path(), "pdf/part/SKILL.md", "a file of the skill");
        let directory = SkillDirectory::read(&root.path().join("pdf"));
        assert_eq!(uris(&directory), ["skill://pdf/SKILL.md"]);
        assert_eq!(only_skill(&directory).files().len(), 2);
    }

    #[test]
    fn broken_skills_are_warnings() {
        let root = tempfile::tempdir().unwrap();
        let front = |name: &str| format!("---\nname: {name}\ndescription: D.\n---\n");
        write(root.path(), "pdf/SKILL.md", PDF);
        write(root.path(), "none/SKILL.md", "no front matter");
        write(root.path(), "open/SKILL.md", "---\nname: open\n");
        write(root.path(), "yaml/SKILL.md", "---\na: [\n---\n");
        write(root.path(), "other/SKILL.md", front("another"));
        write(root.path(), "Upper/SKILL.md", front("Upper"));
        write(root.path(), "a--b/SKILL.md", front("a--b"));
        write(root.path(), "bare/SKILL.md", "---\nname: bare\n---\n");
        write(root.path(), "bytes/SKILL.md", [0xff]);
        write(root.path(), "dir/SKILL.md/x", "");
        write(root.path(), "many/SKILL.md", front("many"));
        for number in 0..FILES_MAX {
            write(root.path(), &format!("many/{number}"), "");
        }
        write(root.path(), "long/SKILL.md", front("long"));
        let file = File::create(root.path().join("long/data")).unwrap();
        file.set_len(BYTES_MAX).unwrap();
        let directory = SkillDirectory::read(root.path());
        assert_eq!(uris(&directory), ["skill://pdf/SKILL.md"]);
        assert_eq!(directory.warnings.len(), 11, "{:#?}", directory.warnings);
    }

    #[test]
    fn links_do_not_leave_directory_of_skills() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("skills");
        write(top.path(), "secret", "s");
        write(top.path(), "outside/pdf/SKILL.md", PDF);
        write(&root, "pdf/SKILL.md", PDF);
        write(&root, "shared.txt", "in");
        symlink("../shared.txt", root.join("pdf/inside")).unwrap();
        symlink("../../secret", root.join("pdf/outside")).unwrap();
        symlink("../../outside", root.join("pdf/folder")).unwrap();
        symlink("../outside/pdf", root.join("linked")).unwrap();
        fs::create_dir(root.join("evil")).unwrap();
        symlink("../../outside/pdf/SKILL.md", root.join("evil/SKILL.md")).unwrap();
        let directory = SkillDirectory::read(&root);
        let files: Vec<&str> =
            only_skill(&directory).files().iter().map(|file| file.uri.as_str()).collect();
        assert_eq!(files, ["skill://pdf/SKILL.md", "skill://pdf/inside"]);
        let warned: Vec<_> =
            directory.warnings.iter().map(|it| it.path.file_name().unwrap().to_owned()).collect();
        assert_eq!(warned, ["SKILL.md", "linked", "folder", "outside"]);
    }

    #[test]
    fn changed_file_is_not_served() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a", "one");
        let file = FoundFile {
            relative: "a".into(),
            uri: "skill://x/a".to_owned(),
            digest: Sha256::digest("one").into(),
            size: 3,
        };
        assert!(file.read(root.path(), None).is_ok());
        for text in ["two", "longer"] {
            write(root.path(), "a", text);
            assert!(matches!(file.read(root.path(), None), Err(HandlerError::Tool(_))));
        }
        fs::remove_file(root.path().join("a")).unwrap();
        assert!(matches!(file.read(root.path(), None), Err(HandlerError::NotFound)));
    }
}
