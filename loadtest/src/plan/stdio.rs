//! How programs are started that are spoken to over their standard input and output.
//!
//! ```toml
//! target = "stdio:corelane stdio"
//!
//! [stdio]
//! stderr = "inherit"
//! ```

use serde::{Deserialize, Serialize};

use super::Wrong;
use crate::children::{Errors, Program};
use crate::target::Target;

/// The section `[stdio]`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StdioPlan {
    /// Where standard error of the programs goes: `keep` reads it and tells its last lines when a
    /// program fails, `inherit` passes it through. Default keep.
    #[serde(default)]
    pub stderr: Errors,
}

impl StdioPlan {
    /// The program of a target that names one.
    ///
    /// # Errors
    ///
    /// Where there is a section for a target that names none.
    pub(super) fn program(plan: Option<Self>, target: &Target) -> Result<Option<Program>, Wrong> {
        match (target, plan) {
            (Target::Command(words), plan) => {
                let errors = plan.unwrap_or_default().stderr;
                Ok(Some(Program { words: words.clone(), errors }))
            }
            (Target::Address { .. }, None) => Ok(None),
            (Target::Address { .. }, Some(_)) => Err(Wrong::new(
                "[stdio] is for a program that the run starts: write target = \"stdio:COMMAND\", \
                 or leave it out",
            )),
        }
    }
}
