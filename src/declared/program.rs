//! A program in the folder of tools (`--tools DIR`), and what it says about itself.
//!
//! The description stands in `NAME.toml` beside the program `NAME` or `NAME.EXTENSION`, or in a
//! block of comments at the top of the program, each line after `corelane:`:
//!
//! ```sh
//! #!/bin/sh
//! # corelane: description = "Free space of a folder."
//! # corelane: [arguments.path]
//! # corelane: type = "string"
//! ```
//!
//! Keys are those of `[[tool]]`. The name is that of the file without its extension; the arguments
//! come as one JSON object on standard input.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use crate::declared::document::{Lines, SourceFile, Table};
use crate::declared::fault::Fault;
use crate::declared::secrets::Secrets;

/// A program and the text that describes it.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    name: String,
    /// The file of the description. In that of the program itself, all other lines are empty.
    pub file: SourceFile,
}

/// Bytes at the top of a program that may describe it.
const TOP_BYTES: u64 = 64 * 1024;

/// What stands before each line of a description.
const MARK: &str = "corelane:";

impl Program {
    /// Reads the description of the program at `path`; `None` if it is no program.
    ///
    /// # Errors
    ///
    /// The program or its description cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, Fault> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_description = path.extension().is_some_and(|it| it == "toml");
        if file_name.starts_with('.') || is_description {
            return Ok(None);
        }
        let fault = |error: std::io::Error| {
            Fault::of_file(path, format!("cannot be read: {error}"), "make it readable")
        };
        let metadata = std::fs::metadata(path).map_err(fault)?;
        let beside = path.with_extension("toml");
        let has_description = beside.is_file();
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            if metadata.is_file() && has_description {
                let hint = "make it executable: chmod +x";
                return Err(Fault::of_file(path, "is not executable", hint));
            }
            return Ok(None);
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = if has_description {
            SourceFile::read(&beside, true)?
        } else {
            let mut top = Vec::new();
            let file = File::open(path).map_err(fault)?;
            file.take(TOP_BYTES).read_to_end(&mut top).map_err(fault)?;
            let text = description_in(&String::from_utf8_lossy(&top));
            SourceFile { path: path.to_owned(), text, is_declarations_only: true }
        };
        let path = std::path::absolute(path).map_err(fault)?;
        Ok(Some(Self { path, name, file }))
    }

    /// The files that the description depends on.
    pub fn paths(&self) -> [PathBuf; 2] {
        [self.path.clone(), self.path.with_extension("toml")]
    }

    /// The declaration of the tool.
    ///
    /// # Errors
    ///
    /// The description is not TOML, or has a variable that is not set.
    pub fn table<'t>(
        &'t self,
        lines: &'t Lines<'t>,
        secrets: &mut Secrets,
    ) -> Result<Table<'t>, Fault> {
        let path = self.path.to_string_lossy().replace('{', "{{").replace('}', "}}");
        let mut command = DeArray::new();
        command.push(Spanned::new(0..0, DeValue::String(Cow::Owned(path))));
        let defaults = [
            ("name", DeValue::String(Cow::Borrowed(self.name.as_str()))),
            ("command", DeValue::Array(command)),
        ];
        self.file.tool_table(lines, secrets, defaults)
    }
}

/// Returns `top` with the lines of the description at their places, and every other line empty.
fn description_in(top: &str) -> String {
    let mut text = String::new();
    let mut has_begun = false;
    for line in top.lines() {
        let comment = line.trim_start().trim_start_matches(['#', '/', '-', ';', '%', '*']);
        let described = comment.trim_start().strip_prefix(MARK);
        match described {
            Some(described) => {
                has_begun = true;
                // The columns of a fault are those of the program.
                let indent = line.chars().count() - described.chars().count();
                text.extend(std::iter::repeat_n(' ', indent));
                text.push_str(described);
            }
            // The block has ended.
            None if has_begun => break,
            None => {}
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_stands_in_first_comments() {
        let top = "#!/bin/sh\n# corelane: a = 1\n# corelane: b = 2\n\n# corelane: c = 3\n";
        let table: toml::Table = toml::from_str(&description_in(top)).unwrap();
        assert_eq!(table.keys().collect::<Vec<_>>(), ["a", "b"]);
        let table: toml::Table = toml::from_str(&description_in("// corelane: x = 1\n")).unwrap();
        assert_eq!(table.len(), 1);
        let error = toml::from_str::<toml::Table>(&description_in("# corelane: a = \n"));
        assert_eq!(error.unwrap_err().span().unwrap().start, 16);
        assert_eq!(description_in("\u{fffd}\u{fffd}\nx"), "\n\n");
    }
}
