//! How programs are started that are spoken to over their standard input and output.
//!
//! ```toml
//! target = "stdio:corelane stdio"
//!
//! [stdio]
//! stderr = "inherit"
//! ```

use serde::{Deserialize, Serialize};

use super::{Plan, Wrong};
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
    /// Where there is a section for a target that names none, or one that a program has no use for.
    pub(super) fn program(plan: &Plan, target: &Target) -> Result<Option<Program>, Wrong> {
        let Target::Command(words) = target else {
            return match plan.stdio {
                None => Ok(None),
                Some(_) => Err(Wrong::new(
                    "[stdio] is for a program that the run starts: write target = \
                     \"stdio:COMMAND\", or leave it out",
                )),
            };
        };
        if plan.connect.as_ref().is_some_and(|connect| !connect.sources.is_empty()) {
            return Err(Wrong::new(
                "sources = …: a program over stdio comes from no address; leave them out",
            ));
        }
        if plan.listen.is_some() {
            return Err(Wrong::new(
                "[listen] is for a server that many share: over stdio each connection is a program \
                 of its own, which hears of nothing that another one publishes; leave it out",
            ));
        }
        let errors = plan.stdio.unwrap_or_default().stderr;
        Ok(Some(Program { words: words.clone(), errors }))
    }
}
