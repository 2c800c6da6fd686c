//! Reads the files of declarations: all of them, or every fault.

use std::collections::btree_map::Entry as BTreeEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::declared::backend::Runner;
use crate::declared::context::{FileContext, Shared};
use crate::declared::document::{Lines, SourceFile, Table};
use crate::declared::entry::{Entry, Item, Key};
use crate::declared::fault::{Fault, Position};
use crate::declared::http::HttpClient;
use crate::declared::openapi::OpenApiDeclaration;
use crate::declared::problem::Problem;
use crate::declared::program::Program;
use crate::declared::prompt::{PromptDeclaration, make_prompt};
use crate::declared::resource::{
    ResourceDeclaration, TemplateDeclaration, make_resource, make_template,
};
use crate::declared::secrets::Secrets;
use crate::declared::skills::{LoadedSkill, SkillDirectory};
use crate::declared::sql::DatabaseDeclaration;
use crate::declared::tool::{ToolDeclaration, make_explore_tools, make_openapi_tools, make_tool};
use crate::declared::upstream::UpstreamDeclaration;
use crate::guard::rate::rules::RateRules;
use crate::service::CatalogError;

/// Where declarations are read from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sources {
    /// The configuration file. The files `conf.d/*.toml` beside it have declarations, too.
    pub file: Option<PathBuf>,
    /// A folder in which every executable file is a tool.
    pub tools: Option<PathBuf>,
    /// A folder of skills.
    pub skills: Option<PathBuf>,
}

/// What the files declare.
#[derive(Debug, Default)]
pub struct Loaded {
    entries: Vec<Entry>,
    /// Place of each entry.
    places: BTreeMap<Key, Place>,
    /// Why the declarations cannot be used; empty if they can.
    pub faults: Vec<Fault>,
    /// Why files of the folders of tools and skills are not offered; the others are.
    pub warnings: Vec<Fault>,
    /// The upstreams.
    pub upstreams: Vec<DeclaredUpstream>,
    /// The files that were read, and the folders that were listed.
    pub paths: BTreeSet<PathBuf>,
}

/// An upstream and where it is declared.
#[derive(Clone, Debug)]
pub struct DeclaredUpstream {
    /// What is declared.
    pub declaration: UpstreamDeclaration,
    /// The folder that its paths start from.
    pub folder: PathBuf,
    path: PathBuf,
    position: Position,
}

impl DeclaredUpstream {
    /// The fault of a problem of the upstream.
    pub fn fault(&self, problem: Problem) -> Fault {
        let owner = format!("upstream `{}`", self.declaration.name);
        Fault::of_problem(&self.path, Some(self.position), &owner, problem)
    }
}

/// Place of a declaration.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    position: Position,
    secrets: Arc<Secrets>,
}

impl Sources {
    /// Reads everything. Faults do not hide each other.
    pub fn load(&self, shared: &Shared) -> Loaded {
        let mut loaded = Loaded::default();
        let mut http = HttpClient::new();
        if let Some(path) = &self.file {
            loaded.read_file(path, false, shared, &mut http);
            let folder = path.parent().unwrap_or_else(|| Path::new("")).join("conf.d");
            loaded.paths.insert(folder.clone());
            let paths = list(&folder, &mut loaded.faults);
            for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "toml"))
            {
                loaded.read_file(path, true, shared, &mut http);
            }
        }
        if let Some(folder) = &self.tools {
            loaded.paths.insert(folder.clone());
            for path in list(folder, &mut loaded.warnings) {
                loaded.read_program(&path, shared, &mut http);
            }
        }
        if let Some(folder) = &self.skills {
            loaded.read_skills(folder);
        }
        loaded.check_rates(self);
        loaded
    }
}

/// The entries of `folder` by their names; none if there is no such folder.
fn list(folder: &Path, faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let message = format!("cannot be read: {error}");
            faults.push(Fault::of_file(folder, message, "make it readable"));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl Loaded {
    fn read_file(
        &mut self,
        path: &Path,
        is_declarations_only: bool,
        shared: &Shared,
        http: &mut HttpClient,
    ) {
        self.paths.insert(path.to_owned());
        let file = match SourceFile::read(path, is_declarations_only) {
            Ok(file) => file,
            Err(fault) => return self.faults.push(fault),
        };
        let lines = Lines::new(&file.text);
        let mut secrets = Secrets::default();
        let tables = file.tables(&lines, &mut secrets, &mut self.faults);
        self.paths.extend(secrets.files().cloned());
        let folder = file.folder().to_owned();
        let mut context = FileContext::new(folder, Arc::new(secrets), shared, http);
        // Statements name databases that are declared anywhere in the file.
        let (databases, others) = tables.iter().partition::<Vec<_>, _>(|it| it.kind == "database");
        for table in databases.into_iter().chain(others) {
            if let Err(faults) = self.add(table, &mut context) {
                self.faults.extend(faults);
            }
            self.add_warnings(table, &mut context);
        }
    }

    /// Reads what a file in the folder of tools says about itself, if it is a program.
    fn read_program(&mut self, path: &Path, shared: &Shared, http: &mut HttpClient) {
        let program = match Program::read(path) {
            Ok(Some(program)) => program,
            Ok(None) => return,
            Err(fault) => return self.warnings.push(fault),
        };
        self.paths.extend(program.paths());
        let lines = Lines::new(&program.file.text);
        let mut secrets = Secrets::default();
        let table = program.table(&lines, &mut secrets);
        self.paths.extend(secrets.files().cloned());
        let table = match table {
            Ok(table) => table,
            Err(fault) => return self.warnings.push(fault),
        };
        let folder = program.file.folder().to_owned();
        let mut context = FileContext::new(folder, Arc::new(secrets), shared, http);
        context.is_program = true;
        if let Err(faults) = self.add(&table, &mut context) {
            self.warnings.extend(faults);
        }
        self.add_warnings(&table, &mut context);
    }

    /// Adds the skills in a folder.
    fn read_skills(&mut self, folder: &Path) {
        let SkillDirectory { skills, warnings, paths } = SkillDirectory::read(folder);
        self.paths.extend(paths);
        self.warnings.extend(warnings);
        for LoadedSkill { path, entries } in skills {
            // A skill is offered with all of its files, or not at all.
            let declared = entries.iter().map(Entry::key).find(|it| self.places.contains_key(it));
            if let Some(Key { name, .. }) = declared {
                let message = format!("is not offered: {name} is declared already");
                self.warnings.push(Fault::of_file(path, message, "rename one of the two"));
                continue;
            }
            let position = Position { line: 1, column: 1 };
            let place = Place { path, position, secrets: Arc::default() };
            self.places.extend(entries.iter().map(|entry| (entry.key(), place.clone())));
            self.entries.extend(entries);
        }
    }

    fn add_warnings(&mut self, table: &Table<'_>, context: &mut FileContext<'_>) {
        let warnings = std::mem::take(&mut context.warnings).into_iter();
        self.warnings.extend(warnings.map(|it| without_secrets(table.fault(it), &context.secrets)));
    }

    fn add(&mut self, table: &Table<'_>, context: &mut FileContext<'_>) -> Result<(), Vec<Fault>> {
        let secrets = Arc::clone(&context.secrets);
        self.add_entries(table, context).map_err(|faults| {
            faults.into_iter().map(|fault| without_secrets(fault, &secrets)).collect()
        })
    }

    fn add_entries(
        &mut self,
        table: &Table<'_>,
        context: &mut FileContext<'_>,
    ) -> Result<(), Vec<Fault>> {
        let faults = |problems: Vec<Problem>| {
            problems.into_iter().map(|problem| table.fault(problem)).collect::<Vec<Fault>>()
        };
        let entries = match table.kind {
            "tool" => self.make_tool(table, context)?,
            "database" => make_database(table, context)?,
            "resource" => {
                let declaration: ResourceDeclaration = table.decode()?;
                let make = || make_resource(&declaration, &table.text(), context);
                if_enabled(declaration.enabled, make)
            }
            "resource_template" => {
                let declaration: TemplateDeclaration = table.decode()?;
                let make = || make_template(&declaration, &table.text(), context);
                if_enabled(declaration.enabled, make)
            }
            "prompt" => {
                let declaration: PromptDeclaration = table.decode()?;
                let make = || make_prompt(&declaration, &table.text(), context);
                if_enabled(declaration.enabled, make)
            }
            "openapi" => self.make_openapi(table, context)?,
            "upstream" => {
                let declaration: UpstreamDeclaration = table.decode()?;
                if declaration.enabled {
                    let (path, position) = table.place();
                    let (path, folder) = (path.to_owned(), context.folder.clone());
                    self.upstreams.push(DeclaredUpstream { declaration, folder, path, position });
                }
                Ok(Vec::new())
            }
            kind => {
                let hint = "this version does not serve it";
                Err(Problem::new("", format!("[[{kind}]] is not served"), hint).into())
            }
        };
        let entries = entries.map_err(faults)?;
        entries.into_iter().try_for_each(|entry| self.add_entry(entry, table, &context.secrets))
    }

    fn make_tool(
        &mut self,
        table: &Table<'_>,
        context: &mut FileContext<'_>,
    ) -> Result<Result<Vec<Entry>, Vec<Problem>>, Fault> {
        let declaration: ToolDeclaration = table.decode()?;
        let paths = [&declaration.schema, &declaration.output_schema];
        self.paths.extend(paths.into_iter().flatten().map(|path| context.folder.join(path)));
        let make = || make_tool(&declaration, &table.text(), context);
        Ok(if_enabled(declaration.enabled, make))
    }

    fn make_openapi(
        &mut self,
        table: &Table<'_>,
        context: &mut FileContext<'_>,
    ) -> Result<Result<Vec<Entry>, Vec<Problem>>, Fault> {
        let declaration: OpenApiDeclaration = table.decode()?;
        self.paths.insert(context.folder.join(&declaration.document));
        if !declaration.enabled {
            return Ok(Ok(Vec::new()));
        }
        Ok(make_openapi_tools(&declaration, &table.text(), context))
    }

    fn add_entry(
        &mut self,
        entry: Entry,
        table: &Table<'_>,
        secrets: &Arc<Secrets>,
    ) -> Result<(), Vec<Fault>> {
        let (path, position) = table.place();
        match self.places.entry(entry.key()) {
            BTreeEntry::Occupied(first) => {
                let Place { path, position: Position { line, .. }, .. } = first.get();
                let message = format!("is declared in {}:{line} already", path.display());
                let problem = Problem::new("name", message, "give it another name");
                Err(vec![table.fault(problem)])
            }
            BTreeEntry::Vacant(place) => {
                let secrets = Arc::clone(secrets);
                place.insert(Place { path: path.to_owned(), position, secrets });
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// Checks that the server can keep all rate limits: each of them was checked by itself.
    fn check_rates(&mut self, sources: &Sources) {
        let rules: Vec<String> = self.rate_rules().map(ToOwned::to_owned).collect();
        if let Err(error) = RateRules::parse(&rules) {
            let path = sources.file.as_ref().or(sources.tools.as_ref()).cloned();
            let hint = "limit several tools by one rule with * in rate.rules";
            let message = format!("limits.rate: {error}");
            self.faults.push(Fault::of_file(path.unwrap_or_default(), message, hint));
        }
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.upstreams.is_empty()
    }

    /// Takes the entries.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// What runs the calls of the tools, by their names.
    pub fn runners(&self) -> BTreeMap<String, Arc<Runner>> {
        let runner = |entry: &Entry| Some((entry.key().name, Arc::clone(entry.runner.as_ref()?)));
        self.entries.iter().filter_map(runner).collect()
    }

    /// Name and description of each tool.
    pub fn describe_tools(&self) -> Vec<(String, Option<String>)> {
        let tools = self.entries.iter().filter_map(|entry| match &entry.item {
            Item::Tool(tool) => {
                let description = tool.description().map(ToOwned::to_owned);
                Some((tool.name().to_owned(), description))
            }
            _ => None,
        });
        tools.collect()
    }

    /// The rate limits of the entries, as rules of the option `rate.rules`.
    pub fn rate_rules(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.rate_rule.as_deref())
    }

    /// The fault of an error of the catalog, at the declaration that it names.
    pub fn fault_of(&self, error: &CatalogError) -> Fault {
        let (kind, name, message) = match error {
            CatalogError::InvalidEntry { kind, name, problem } => {
                (*kind, name, problem.to_string())
            }
            CatalogError::Duplicate { kind, name } => {
                (*kind, name, format!("the program has a {kind} of this name"))
            }
            other => return Fault::of_file("", other.to_string(), "correct the declarations"),
        };
        let place = self.places.get(&Key { kind, name: name.to_string() });
        let problem = Problem::new("", message, "correct the declaration");
        let path = place.map(|place| place.path.clone()).unwrap_or_default();
        let position = place.map(|place| place.position);
        let fault = Fault::of_problem(path, position, &format!("{kind} {name}"), problem);
        match place {
            Some(place) => without_secrets(fault, &place.secrets),
            None => fault,
        }
    }
}

/// What `make` makes, unless it is disabled.
fn if_enabled(
    is_enabled: bool,
    make: impl FnOnce() -> Result<Entry, Vec<Problem>>,
) -> Result<Vec<Entry>, Vec<Problem>> {
    if is_enabled { Ok(vec![make()?]) } else { Ok(Vec::new()) }
}

/// The tools that explore a database, which statements of the file can name from now on.
fn make_database(
    table: &Table<'_>,
    context: &mut FileContext<'_>,
) -> Result<Result<Vec<Entry>, Vec<Problem>>, Fault> {
    let declaration: DatabaseDeclaration = table.decode()?;
    if let Err(problem) = context.databases.declare(&declaration) {
        return Ok(Err(problem.into()));
    }
    if !declaration.explore {
        return Ok(Ok(Vec::new()));
    }
    Ok(make_explore_tools(&declaration, &table.text(), context))
}

fn without_secrets(mut fault: Fault, secrets: &Secrets) -> Fault {
    fault.subject = secrets.redact(fault.subject);
    fault.message = secrets.redact(fault.message);
    fault.hint = secrets.redact(fault.hint);
    fault
}
