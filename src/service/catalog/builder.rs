//! From tools to a catalog: checked as a whole, framed for every revision.
//!
//! What it keeps true: a catalog that was built answers every client; what could be wrong with it
//! was said by [`CatalogBuilder::build`], with the name of the tool and the remedy.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::protocol::message::{
    self, CacheHint, Listed, ServerCapabilities, ServerInfo, ToolsCapability,
};
use crate::protocol::revision::Revision;
use crate::service::catalog::name::BuildNameHasher;
use crate::service::catalog::page::Pages;
use crate::service::catalog::{Catalog, Framed};
use crate::service::tool::Tool;

/// A catalog that still takes tools.
#[derive(Debug)]
#[must_use = "a catalog begins to exist with `build`"]
pub struct CatalogBuilder {
    info: ServerInfo,
    instructions: Option<String>,
    tools: Vec<Tool>,
    page_tools_max: usize,
    fresh_for: Duration,
}

impl CatalogBuilder {
    pub(super) const fn new(info: ServerInfo) -> Self {
        Self {
            info,
            instructions: None,
            tools: Vec::new(),
            page_tools_max: PAGE_TOOLS_MAX_DEFAULT,
            fresh_for: FRESH_FOR_DEFAULT,
        }
    }

    /// Adds a tool at the end of the list.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools at the end of the list.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// How to use this server, for the model: sent with `initialize` and `server/discover`. Default
    /// nothing.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// The most tools on one page of `tools/list`, at least 1. Default 100. Cost: one answer holds
    /// a page, with its schemas some hundred bytes a tool; fewer tools mean more round trips for
    /// the client.
    pub const fn page_tools_max(mut self, page_tools_max: usize) -> Self {
        self.page_tools_max = page_tools_max;
        self
    }

    /// How long a client may take lists and discovery for fresh (`ttlMs`, from 2026-07-28 on).
    /// Default five minutes. Cost: for that long it may not see the tools of a newer server.
    pub const fn fresh_for(mut self, span: Duration) -> Self {
        self.fresh_for = span;
        self
    }

    /// Checks everything and frames the constant answers.
    pub fn build(mut self) -> Result<Catalog, CatalogError> {
        if self.page_tools_max == 0 {
            return Err(CatalogError::EmptyPages);
        }
        let mut places =
            HashMap::with_capacity_and_hasher(self.tools.len(), BuildNameHasher::new());
        for (place, tool) in self.tools.iter_mut().enumerate() {
            tool.fit()
                .map_err(|problem| CatalogError::Tool { name: tool.name().into(), problem })?;
            if places.insert(Box::from(tool.name()), place).is_some() {
                return Err(CatalogError::DuplicateTool { name: tool.name().into() });
            }
        }
        let pages = Pages::cut(self.tools.iter().map(Tool::name), self.page_tools_max);
        let framed = Revision::ALL.map(|revision| self.frame(revision, &pages));
        let discover = self.frame_discover();
        let Self { info, tools, .. } = self;
        Ok(Catalog { info, tools: tools.into(), places, pages, discover, framed })
    }

    fn frame(&self, revision: Revision, pages: &Pages) -> Framed {
        let result_suffix = message::result_suffix(revision, &self.info);
        let tools: Vec<String> =
            self.tools.iter().map(|tool| tool.to_json(revision).to_string()).collect();
        let tools_pages = (0..pages.count()).map(|index| {
            let next = pages.next_cursor(index);
            let part = pages.tools(index);
            framed(|out| {
                let (cache, suffix) = (self.cache(), &result_suffix);
                message::list_page(out, revision, Listed::Tools, &tools[part], next, cache, suffix);
            })
        });
        Framed {
            initialize: self.frame_initialize(revision.min(Revision::LATEST_LEGACY)),
            tools_pages: tools_pages.collect(),
            result_suffix: result_suffix.into(),
        }
    }

    fn frame_initialize(&self, revision: Revision) -> Bytes {
        let (info, instructions) = (&self.info, self.instructions.as_deref());
        framed(|out| {
            message::initialize_result(out, revision, CAPABILITIES, info, instructions);
        })
    }

    fn frame_discover(&self) -> Bytes {
        let (info, instructions) = (&self.info, self.instructions.as_deref());
        framed(|out| {
            message::discover_result(out, CAPABILITIES, info, instructions, self.cache());
        })
    }

    /// Nothing here depends on who asks, so that a cache may give it to anybody.
    fn cache(&self) -> CacheHint {
        let fresh_ms = u64::try_from(self.fresh_for.as_millis()).unwrap_or(u64::MAX);
        CacheHint { fresh_ms, shared: true }
    }
}

/// What `write` appends, without spare room: it is kept as long as the catalog.
fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    write(&mut out);
    out.into_boxed_slice().into()
}

/// Why a catalog could not be built.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CatalogError {
    /// Two tools have one name.
    DuplicateTool {
        /// The name.
        name: Box<str>,
    },
    /// Pages of no tools would never end.
    EmptyPages,
    /// A tool that clients could not use.
    Tool {
        /// Its name, as it was given.
        name: Box<str>,
        /// What is wrong, as the end of a sentence about the tool.
        problem: &'static str,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateTool { name } => {
                write!(formatter, "two tools are called `{name}`; names must be unique")
            }
            Self::EmptyPages => formatter.write_str("page_tools_max is 0; it must be at least 1"),
            Self::Tool { name, problem } => write!(formatter, "tool `{name}`: {problem}"),
        }
    }
}

impl std::error::Error for CatalogError {}

const PAGE_TOOLS_MAX_DEFAULT: usize = 100;

const FRESH_FOR_DEFAULT: Duration = Duration::from_mins(5);

/// Tools are offered even where there are none: a list of nothing is an answer too.
const CAPABILITIES: ServerCapabilities = ServerCapabilities {
    tools: Some(ToolsCapability { list_changed: false }),
    prompts: None,
    resources: None,
    completions: false,
    logging: false,
    tasks: None,
    extensions: &[],
};
