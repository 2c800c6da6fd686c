//! The `[stdio]` section of a plan: processes that serve MCP over standard input and output.
//!
//! ```toml
//! target = "stdio:corelane stdio"
//!
//! [stdio]
//! stderr = "inherit"
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Plan, PlanError};
use crate::children::{Program, StderrMode};
use crate::target::Target;

/// The `[stdio]` section.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StdioPlan {
    /// What happens to standard error of the processes: `keep` reads it and reports the last lines
    /// when a process fails, `inherit` passes it through. Default keep.
    #[schemars(with = "String")]
    #[serde(default)]
    pub stderr: StderrMode,
}

impl StdioPlan {
    /// Returns the program of a stdio target, or `None` for another target.
    ///
    /// # Errors
    ///
    /// If the plan has `[stdio]` without a stdio target, or a section that stdio does not support.
    pub(super) fn program(plan: &Plan, target: &Target) -> Result<Option<Program>, PlanError> {
        let Target::Command(command) = target else {
            return match plan.stdio {
                None => Ok(None),
                Some(_) => Err(PlanError::new(
                    "[stdio] applies to a stdio target only: write target = \"stdio:COMMAND\", or \
                     remove [stdio]",
                )),
            };
        };
        if plan.connect.as_ref().is_some_and(|connect| !connect.sources.is_empty()) {
            return Err(PlanError::new(
                "sources = …: a stdio target has no source address; remove sources",
            ));
        }
        if plan.listen.is_some() {
            return Err(PlanError::new(
                "[listen] needs a server shared by all connections: over stdio each connection is \
                 a process of its own, so changes are not shared; remove [listen]",
            ));
        }
        let errors = plan.stdio.unwrap_or_default().stderr;
        Ok(Some(Program { command: command.clone(), stderr: errors }))
    }
}
