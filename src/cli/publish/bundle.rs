//! The bundle that hosts install (MCPB): a ZIP archive of a manifest, this program, and the folder
//! of the configuration file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use corelane_base::variables::{self, Variable};
use corelane_protocol::model::Implementation;
use serde_json::{Map, Value, json};

use crate::cli::print_diagnostic;
use crate::cli::publish::zip::ZipWriter;
use crate::config::Options;

/// What is packed.
pub(crate) struct Bundle<'o> {
    pub(crate) info: &'o Implementation,
    pub(crate) options: &'o Options,
    /// Name and description of each tool.
    pub(crate) tools: Vec<(String, Option<String>)>,
    /// The program; `None` for this one.
    pub(crate) program: Option<PathBuf>,
    /// The archive; `None` for the name of the server and its version.
    pub(crate) output: Option<PathBuf>,
}

/// Version of the manifest.
const MANIFEST_VERSION: &str = "0.3";
/// The program in the archive.
const PROGRAM: &str = "server/corelane";
/// The folder of the configuration file in the archive.
const FOLDER: &str = "config";
/// Most files of a folder.
const FILES_MAX: usize = 10_000;
/// Most bytes of a folder.
const BYTES_MAX: u64 = 512 << 20;

impl Bundle<'_> {
    /// Writes the archive, and the names of its files to standard error.
    ///
    /// # Errors
    ///
    /// What cannot be packed or written.
    pub(crate) fn pack(&self, config: Option<&Path>) -> Result<(), String> {
        let hint = "name one with --config";
        let config = config.ok_or_else(|| format!("there is no configuration file; {hint}"))?;
        let name = config.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("{} has no name in UTF-8", config.display()))?;
        let manifest = self.manifest(name, &variable_names(config)?)?;
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let output = match &self.output {
            Some(output) => output.clone(),
            None => format!(
                "{}-{}.mcpb",
                manifest["name"].as_str().unwrap_or("server"),
                self.info.version
            )
            .into(),
        };
        let files = list_folder(folder_of(config))?;
        let failed = |error: io::Error| format!("{} cannot be written: {error}", output.display());
        let parent = output.parent().filter(|it| !it.as_os_str().is_empty());
        let file = tempfile_in(parent.unwrap_or_else(|| Path::new(".")), &output);
        let (file, path) = file.map_err(failed)?;
        let packed = write_archive(file, &manifest, &program, &files);
        let packed = packed.and_then(|()| fs::rename(&path, &output).map_err(failed));
        if packed.is_err() {
            // The archive is incomplete.
            fs::remove_file(&path).ok();
        }
        packed?;
        print_diagnostic("packed", &output.display());
        Ok(())
    }

    /// Returns the manifest; `config` is the name of the configuration file.
    fn manifest(&self, config: &str, variables: &[String]) -> Result<Value, String> {
        let Self { info, options, .. } = self;
        let card = &options.card;
        let registered = card.name.as_deref().and_then(|name| name.split_once('/'));
        let name = registered.map_or(info.name.as_str(), |(_, name)| name);
        let author = card.author.as_deref().or_else(|| registered.map(|(namespace, _)| namespace));
        let hint = "set card.author, or card.name with its namespace";
        let author = author.ok_or_else(|| format!("the bundle has no author; {hint}"))?;
        let hint = "set server.description: what the server does";
        let description = info.description.as_deref().filter(|text| !text.trim().is_empty());
        let description =
            description.ok_or_else(|| format!("the bundle has no description; {hint}"))?;
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|(name, description)| match description {
                Some(description) => json!({ "name": name, "description": description }),
                None => json!({ "name": name }),
            })
            .collect();
        let mut manifest = json!({
            "manifest_version": MANIFEST_VERSION,
            "name": name,
            "version": info.version,
            "description": description,
            "author": { "name": author },
            "server": {
                "type": "binary",
                "entry_point": PROGRAM,
                "mcp_config": {
                    "command": format!("${{__dirname}}/{PROGRAM}"),
                    "args": ["stdio", "--config", format!("${{__dirname}}/{FOLDER}/{config}")],
                    "env": environment(variables),
                },
            },
            "compatibility": { "platforms": ["linux"] },
        });
        if let Some(title) = &info.title {
            manifest["display_name"] = title.as_str().into();
        }
        if let Some(website) = &card.website {
            manifest["homepage"] = website.as_str().into();
        }
        if let Some(repository) = &card.repository {
            manifest["repository"] = json!({ "type": "git", "url": repository });
        }
        if !tools.is_empty() {
            manifest["tools"] = tools.into();
        }
        if !variables.is_empty() {
            manifest["user_config"] = user_config(variables).into();
        }
        Ok(manifest)
    }
}

/// Returns the environment of the server: each variable has the value that the user gives.
fn environment(variables: &[String]) -> Map<String, Value> {
    let value = |name: &String| (name.clone(), format!("${{user_config.{name}}}").into());
    variables.iter().map(value).collect()
}

/// Returns what the host asks the user for.
fn user_config(variables: &[String]) -> Map<String, Value> {
    let input = |name: &String| {
        let description = format!("Value of {name} in the configuration");
        let input = json!({
            "type": "string",
            "title": name,
            "description": description,
            "required": true,
            "sensitive": true,
        });
        (name.clone(), input)
    };
    variables.iter().map(input).collect()
}

/// Opens a file beside `output`, which replaces it when it is complete.
fn tempfile_in(folder: &Path, output: &Path) -> io::Result<(fs::File, PathBuf)> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.join(format!(".{name}.{}", std::process::id()));
    Ok((fs::File::create(&path)?, path))
}

fn write_archive(
    file: fs::File,
    manifest: &Value,
    program: &Path,
    files: &[PackedFile],
) -> Result<(), String> {
    let failed = |error: io::Error| format!("the bundle cannot be written: {error}");
    let mut archive = ZipWriter::new(io::BufWriter::new(file));
    archive.add("manifest.json", 0o644, format!("{manifest:#}\n").as_bytes()).map_err(failed)?;
    let program_name = program.display();
    let content =
        fs::read(program).map_err(|error| format!("{program_name} cannot be read: {error}"))?;
    archive.add(PROGRAM, 0o755, &content).map_err(failed)?;
    for PackedFile { path, name, mode } in files {
        let content = fs::read(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        archive.add(&format!("{FOLDER}/{name}"), *mode, &content).map_err(failed)?;
        writeln!(io::stderr(), "{FOLDER}/{name}").ok();
    }
    archive.finish().map_err(failed)
}

/// A file of the folder.
#[derive(Debug)]
struct PackedFile {
    path: PathBuf,
    /// Its path in the folder, with slashes.
    name: String,
    mode: u32,
}

/// Returns the files of a folder by their names, without those that begin with a dot, and without
/// bundles.
fn list_folder(folder: &Path) -> Result<Vec<PackedFile>, String> {
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |error: io::Error| format!("{} cannot be read: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else {
                return Err(format!("{} has no name in UTF-8; rename it", path.display()));
            };
            if name.starts_with('.') || path.extension().is_some_and(|it| it == "mcpb") {
                continue;
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_symlink() {
                let hint = "copy the file or folder into the folder of the configuration";
                return Err(format!("{} is a link; {hint}", path.display()));
            }
            let name = format!("{prefix}{name}");
            if kind.is_dir() {
                folders.push((path, format!("{name}/")));
            } else if kind.is_file() {
                let metadata = entry.metadata().map_err(failed)?;
                bytes += metadata.len();
                let is_executable = metadata.permissions().mode() & 0o111 != 0;
                let mode = if is_executable { 0o755 } else { 0o644 };
                files.push(PackedFile { path, name, mode });
            }
            if files.len() > FILES_MAX || bytes > BYTES_MAX {
                let hint = "put the configuration file into a folder of its own";
                let limit = "10,000 files or 512 MiB";
                return Err(format!("its folder has more than {limit}; {hint}"));
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn folder_of(config: &Path) -> &Path {
    config.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Returns the environment variables that a configuration file and the files in `conf.d` beside it
/// name, sorted.
///
/// # Errors
///
/// Which file cannot be read.
pub(crate) fn variable_names(config: &Path) -> Result<Vec<String>, String> {
    let mut names = BTreeSet::new();
    let others = fs::read_dir(folder_of(config).join("conf.d")).into_iter().flatten();
    let others = others.filter_map(Result::ok).map(|entry| entry.path());
    let others = others.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    for path in std::iter::once(config.to_owned()).chain(others) {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| named(&error))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| named(&error))?;
        collect_names(&toml::Value::Table(table), &mut names);
    }
    Ok(names.into_iter().collect())
}

fn collect_names(value: &toml::Value, names: &mut BTreeSet<String>) {
    match value {
        toml::Value::String(text) => {
            // What is wrong with a variable was reported when the file was loaded.
            drop(variables::expand(text, |variable| {
                if let Variable::Environment(name) = variable {
                    names.insert(name.to_owned());
                }
                Ok(String::new())
            }));
        }
        toml::Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        toml::Value::Table(table) => table.values().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}
