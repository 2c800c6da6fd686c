//! Events of the servers behind a gateway.

use tracing::{info, warn};

/// Something about an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamEvent<'a> {
    /// Its lists were read.
    Ready {
        /// Its name.
        upstream: &'a str,
        /// The revision that it speaks.
        revision: &'a str,
        /// Number of tools.
        tools: usize,
        /// Number of resources and resource templates.
        resources: usize,
        /// Number of prompts.
        prompts: usize,
    },
    /// It cannot be used. It is tried again.
    Failed {
        /// Its name.
        upstream: &'a str,
        /// Why.
        error: &'a str,
    },
    /// An operator changes it.
    Requested {
        /// Its name.
        upstream: &'a str,
        /// `restart`, `enable`, `disable` or `approve`.
        change: &'a str,
    },
    /// Tools of it differ from those that were accepted.
    ToolsChanged {
        /// Its name.
        upstream: &'a str,
        /// Their names, separated by spaces.
        tools: &'a str,
        /// They are left out.
        is_hidden: bool,
    },
    /// Something that it has is not offered.
    LeftOut {
        /// What, and why.
        what: &'a str,
    },
    /// The merged catalog has changed.
    Changed {
        /// Number of new entries.
        added: usize,
        /// Number of those with another definition.
        replaced: usize,
        /// Number of those that are gone.
        removed: usize,
    },
}

impl UpstreamEvent<'_> {
    /// Logs the event.
    pub fn emit(&self) {
        match *self {
            Self::Ready { upstream, revision, tools, resources, prompts } => {
                info!(upstream, revision, tools, resources, prompts, "upstream ready");
            }
            Self::Failed { upstream, error } => warn!(upstream, error, "upstream failed"),
            Self::Requested { upstream, change } => {
                info!(upstream, change, "upstream changed by operator");
            }
            Self::ToolsChanged { upstream, tools, is_hidden: true } => {
                warn!(
                    upstream,
                    tools, "changed tools are left out until an operator approves them"
                );
            }
            Self::ToolsChanged { upstream, tools, is_hidden: false } => {
                warn!(upstream, tools, "tools have changed");
            }
            Self::LeftOut { what } => warn!("not offered: {what}"),
            Self::Changed { added, replaced, removed } => {
                info!(added, replaced, removed, "upstreams changed");
            }
        }
    }
}
