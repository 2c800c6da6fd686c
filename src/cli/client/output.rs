//! What a command prints, and the file that it writes instead: results for people, or as the server
//! sent them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ArgMatches;
use corelane_client::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::flags::{JSON, OUTPUT};
use super::text::{self, printable, printable_json};

/// Where a command writes its results: standard output, buffered until [`Output::flush`].
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    is_json: bool,
    is_terminal: bool,
    /// Where the content goes instead.
    file: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) enum Content<'a> {
    Text(&'a str),
    /// Base64 with its MIME type.
    Bytes {
        data: &'a str,
        mime_type: &'a str,
    },
    /// A link to a resource.
    Link {
        uri: &'a str,
        name: &'a str,
    },
    /// A block of an unknown type.
    Unknown {
        kind: &'a str,
    },
}

impl<'a> From<&'a ContentBlock> for Content<'a> {
    fn from(block: &'a ContentBlock) -> Self {
        match block {
            ContentBlock::Text { text } => Self::Text(text),
            ContentBlock::Image { data, mime_type } | ContentBlock::Audio { data, mime_type } => {
                Self::Bytes { data, mime_type }
            }
            ContentBlock::ResourceLink { uri, name, .. } => Self::Link { uri, name },
            ContentBlock::Resource { resource } => resource.into(),
            ContentBlock::Other { kind, .. } => Self::Unknown { kind },
            _ => Self::Unknown { kind: "unknown" },
        }
    }
}

impl<'a> From<&'a ResourceContents> for Content<'a> {
    fn from(contents: &'a ResourceContents) -> Self {
        match (&contents.text, &contents.blob) {
            (Some(text), _) => Self::Text(text),
            (None, Some(data)) => {
                let mime_type = contents.mime_type.as_deref();
                Self::Bytes { data, mime_type: mime_type.unwrap_or("application/octet-stream") }
            }
            (None, None) => Self::Link { uri: &contents.uri, name: "no contents" },
        }
    }
}

impl Output {
    pub(crate) fn new(matches: &ArgMatches) -> Self {
        let file = matches.try_get_one::<PathBuf>(OUTPUT).ok().flatten();
        Self {
            out: BufWriter::new(io::stdout()),
            is_json: matches.get_flag(JSON),
            is_terminal: io::stdout().is_terminal(),
            file: file.cloned(),
        }
    }

    /// Returns whether results are printed as the server sent them.
    pub(crate) const fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints a document as it is, except that characters which are harmful on a terminal are
    /// escaped.
    pub(crate) fn write_document(&mut self, document: &RawValue) -> io::Result<()> {
        self.out.write_all(printable_json(document.get()).as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Prints a text of a server and ends its line.
    pub(crate) fn write_line(&mut self, text: &str) -> io::Result<()> {
        let text = if self.is_terminal { printable(text) } else { text.into() };
        self.out.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { self.out.write_all(b"\n") }
    }

    /// Prints rows of aligned columns.
    pub(crate) fn write_rows(&mut self, indent: usize, rows: &[Vec<String>]) -> io::Result<()> {
        text::write_rows(&mut self.out, indent, rows)
    }

    /// Prints the content, and the structured result unless a text block holds the same.
    pub(crate) fn write_result(&mut self, result: &CallToolResult) -> Result<(), Failure> {
        let structured = result.structured_content.as_ref();
        let repeats_structured = |content: &Content<'_>| match (content, structured) {
            (Content::Text(text), Some(structured)) => {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
            }
            _ => false,
        };
        let mut contents: Vec<Content<'_>> = result.content.iter().map(Content::from).collect();
        contents.retain(|content| !repeats_structured(content));
        let text = structured.map(|value| format!("{value:#}"));
        if let Some(text) = &text {
            contents.push(Content::Text(text));
        }
        self.write_contents(&contents)
    }

    /// Returns the file of the command line.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Prints content, or writes it to the file of the command line.
    pub(crate) fn write_contents(&mut self, contents: &[Content<'_>]) -> Result<(), Failure> {
        if let Some(path) = self.file.take() {
            return self.write_file(&path, contents);
        }
        for content in contents {
            self.write_content(content)?;
        }
        Ok(())
    }

    fn write_content(&mut self, content: &Content<'_>) -> io::Result<()> {
        match content {
            Content::Text(text) => self.write_line(text),
            Content::Link { uri, name } => self.write_line(&format!("[{uri}, {name}]")),
            Content::Unknown { kind } => {
                self.write_line(&format!("[{kind}, a type that --json prints]"))
            }
            Content::Bytes { data, mime_type } => {
                let size = match BASE64_STANDARD.decode(data) {
                    Ok(bytes) => format!("{} bytes", bytes.len()),
                    Err(_) => "invalid base64".to_owned(),
                };
                self.write_line(&format!("[{mime_type}, {size}]"))
            }
        }
    }

    /// Writes the only content that is not text, or else the texts, to a file. Prints the rest.
    fn write_file(&mut self, path: &Path, contents: &[Content<'_>]) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            let text = format!("{} was not written: {error}", path.display());
            Failure::call(text, None)
        };
        let is_bytes = |content: &&Content<'_>| matches!(content, Content::Bytes { .. });
        match contents.iter().filter(is_bytes).count() {
            0 => {}
            1 => {
                for content in contents {
                    if let Content::Bytes { data, .. } = content {
                        let bytes = BASE64_STANDARD.decode(data).map_err(|error| failed(&error))?;
                        OutputFile::write(path, &bytes).map_err(|error| failed(&error))?;
                    }
                    self.write_content(content)?;
                }
                return Ok(());
            }
            count => {
                let hint = "print the result with --json".to_owned();
                let text = format!(
                    "{} was not written: the result holds {count} images, audio or blobs",
                    path.display()
                );
                return Err(Failure::call(text, hint));
            }
        }
        let texts = contents.iter().filter_map(|content| match content {
            Content::Text(text) => Some(*text),
            Content::Bytes { .. } | Content::Link { .. } | Content::Unknown { .. } => None,
        });
        let texts: Vec<&str> = texts.collect();
        if texts.is_empty() {
            return Err(failed(&"the result holds neither text nor bytes"));
        }
        OutputFile::write(path, texts.join("\n").as_bytes()).map_err(|error| failed(&error))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns what a failed tool says about its failure.
pub(crate) fn error_text(result: &CallToolResult) -> String {
    let text = result.text();
    match &result.structured_content {
        _ if !text.trim().is_empty() => text,
        Some(structured) => structured.to_string(),
        None => "the result has isError and no text".to_owned(),
    }
}

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

    pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.append(content)?;
        file.finish()
    }

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
