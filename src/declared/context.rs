//! What the declarations of one load share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use corelane_engine::clock::Clock;

use crate::declared::backend::Runner;
use crate::declared::http::HttpClient;
use crate::declared::problem::Problem;
use crate::declared::secrets::Secrets;
use crate::declared::services::Services;
use crate::declared::sql::Databases;

#[expect(clippy::disallowed_types, reason = "locked by reloads and completions, for a lookup")]
type Mutex<T> = std::sync::Mutex<T>;

/// The tools that are offered, by name: completions call them.
#[derive(Debug, Default)]
pub struct ToolIndex {
    tools: Mutex<BTreeMap<String, Arc<Runner>>>,
}

impl ToolIndex {
    /// Sets the tools.
    pub fn set(&self, tools: BTreeMap<String, Arc<Runner>>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    /// The tool `name`, if it is offered.
    pub fn get(&self, name: &str) -> Option<Arc<Runner>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// What all loads of a server share.
#[derive(Debug, Default)]
pub struct Shared {
    /// What starts and runs calls.
    pub services: Arc<Services>,
    /// The tools that are offered.
    pub tools: Arc<ToolIndex>,
}

/// What the declarations of one file are made with.
#[derive(Debug)]
pub struct FileContext<'s> {
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// Values of variables in the file.
    pub secrets: Arc<Secrets>,
    /// What all declarations of the server share.
    pub services: &'s Arc<Services>,
    /// The tools that are offered.
    pub tools: &'s Arc<ToolIndex>,
    /// The connections of HTTP tools.
    pub http: &'s mut HttpClient,
    /// The databases of the file.
    pub databases: Databases,
    /// Whether they are of a program in the folder of tools.
    pub is_program: bool,
    /// What is not as intended, although the declaration is offered.
    pub warnings: Vec<Problem>,
}

impl<'s> FileContext<'s> {
    /// Adds what a database is not reachable for, if it is not.
    pub fn warn_unreachable(&mut self, warning: Option<&str>) {
        let problem = |text| Problem::new("", text, "it is tried again with each call");
        self.warnings.extend(warning.map(problem));
    }

    /// A context for the declarations of a file in `folder`.
    pub fn new(
        folder: PathBuf,
        secrets: Arc<Secrets>,
        shared: &'s Shared,
        http: &'s mut HttpClient,
    ) -> Self {
        let databases = Databases::new(&folder, Clock::start());
        let Shared { services, tools } = shared;
        let warnings = Vec::new();
        let is_program = false;
        Self { folder, secrets, services, tools, http, databases, is_program, warnings }
    }
}
