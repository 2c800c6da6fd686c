//! What an upstream is, from a look at it.

use std::time::Duration;

use crate::declared::Share;
use crate::gateway::lists::Lists;

/// What an upstream is, from a look at it.
#[derive(Clone, Debug)]
pub struct UpstreamReport {
    /// Its name.
    pub name: Box<str>,
    /// Time to its lists.
    pub time: Duration,
    /// What it offers, or why it cannot be used.
    pub outcome: Result<UpstreamFacts, String>,
}

/// What an upstream offers.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamFacts {
    /// Its revision.
    pub revision: &'static str,
    /// Number of tools.
    pub tools: usize,
    /// Number of resources and resource templates.
    pub resources: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Who shares it.
    pub share: Share,
}

impl UpstreamFacts {
    /// What `lists` say of an upstream declared with `share`.
    pub fn new(lists: &Lists, share: Share) -> Self {
        let share = match share {
            Share::Auto if lists.server.revision.is_modern() => Share::All,
            Share::Auto => Share::Session,
            declared => declared,
        };
        Self {
            revision: lists.server.revision.as_str(),
            tools: lists.tools.len(),
            resources: lists.resources.len() + lists.templates.len(),
            prompts: lists.prompts.len(),
            share,
        }
    }
}
