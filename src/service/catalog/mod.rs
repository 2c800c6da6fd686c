//! The catalog: every tool of a server, and every answer that is the same for all callers.
//!
//! What it keeps true: a catalog never changes. It is built once, checked as a whole and shared by
//! every shard; a change is a new catalog. Constant answers are framed when it is built, so that
//! giving one costs a copy of its bytes. It does not run tools and knows no connection.

mod name;

mod page;

mod builder;

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;

pub use self::builder::{CatalogBuilder, CatalogError};

use self::name::BuildNameHasher;
use self::page::Pages;
use crate::protocol::error::Error;
use crate::protocol::message::{self, Answer, ServerInfo};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use crate::service::call::{Call, Reply};
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::tool::Tool;

/// What a server offers. Immutable: share it in an `Arc` between shards.
pub struct Catalog {
    info: ServerInfo,
    tools: Box<[Tool]>,
    places: HashMap<Box<str>, usize, BuildNameHasher>,
    pages: Pages,
    discover: Bytes,
    framed: [Framed; Revision::ALL.len()],
}

/// What is the same for all callers of one revision.
struct Framed {
    initialize: Bytes,
    result_suffix: Bytes,
    tools_pages: Box<[Bytes]>,
}

impl Catalog {
    /// Begins a catalog for the server `info`.
    pub fn builder(info: ServerInfo) -> CatalogBuilder {
        CatalogBuilder::new(info)
    }

    /// Who offers all this.
    pub const fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// The tools in the order in which they were registered, which is the order of every list.
    pub const fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool called `name`, where there is one. Cost: some ten nanoseconds.
    #[inline]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.places.get(name).map(|place| &self.tools[*place])
    }

    /// The tool that `call` asks for. Fails with invalid params (-32602) where there is none.
    ///
    /// Source: 2026-07-28, server/tools, "Error Handling"; the same in all revisions.
    #[inline]
    pub fn called(&self, call: &Call<'_>) -> Result<&Tool, Error> {
        self.tool(call.name()).ok_or_else(|| Error::invalid_params("unknown tool"))
    }

    /// Carries out one call as far as it goes at once: appends the whole response to `out` and says
    /// [`Reply::Ready`]. After every other reply `out` is as it was before.
    ///
    /// Allocates nothing where the handler does not.
    pub fn call(&self, call: &Call<'_>, id: Id<'_>, out: &mut Vec<u8>) -> Reply {
        let tool = match self.called(call) {
            Ok(tool) => tool,
            Err(error) => return Reply::Failed(error),
        };
        let start = out.len();
        message::result_open(out, id);
        let mut answer = Answer::open(out, call.revision(), self.result_suffix(call.revision()));
        let reply = tool.call(call, &mut answer);
        if matches!(reply, Reply::Ready { .. }) {
            answer.finish();
            message::result_close(out);
        } else {
            out.truncate(start);
        }
        reply
    }

    /// Appends the whole response for what a local or blocking handler returned, and tells whether
    /// it says that the tool failed. `Err` is to be sent as an error response instead; `out` is as
    /// it was then.
    pub fn settle(
        &self,
        revision: Revision,
        id: Id<'_>,
        result: Result<Outcome, HandlerError>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let start = out.len();
        message::result_open(out, id);
        let mut answer = Answer::open(out, revision, self.result_suffix(revision));
        if let Err(error) = Outcome::settle(result, &mut answer) {
            out.truncate(start);
            return Err(error);
        }
        let is_failed = answer.is_failed();
        answer.finish();
        message::result_close(out);
        Ok(is_failed)
    }

    /// The result of `initialize` that agrees on `revision`. The modern revision has no
    /// `initialize`; a client that names it there is offered the latest one that has.
    ///
    /// Source: 2025-11-25, basic/lifecycle, "Version Negotiation".
    pub const fn initialize_body(&self, revision: Revision) -> &Bytes {
        &self.framed[revision as usize].initialize
    }

    /// The result of `server/discover`.
    ///
    /// Source: 2026-07-28, server/discover.
    pub const fn discover_body(&self) -> &Bytes {
        &self.discover
    }

    /// The result of `tools/list`: the page that `cursor` leads to, the first one without it.
    ///
    /// Fails with invalid params (-32602) where this catalog did not issue the cursor.
    ///
    /// Source: 2026-07-28, server/tools, "Listing Tools"; server/utilities/pagination.
    pub fn tools_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        let index = self.pages.find(cursor)?;
        Ok(&self.framed[revision as usize].tools_pages[index])
    }

    /// What ends every result of `revision`: empty before 2026-07-28, from then on the members
    /// that name its kind and the server. For `Answer::open`.
    pub fn result_suffix(&self, revision: Revision) -> &[u8] {
        &self.framed[revision as usize].result_suffix
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Catalog").field("tools", &self.tools).finish_non_exhaustive()
    }
}
