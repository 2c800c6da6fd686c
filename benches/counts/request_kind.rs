//! Kinds of requests: a call of the echo tool, and requests with pre-encoded responses.
//!
//! The catalog is small: the four demo tools, one prompt, one resource.

use corelane::internal::demo;
use corelane::{Catalog, CatalogError, Prompt, Resource};
use corelane_bench_support::requests::{
    Era, FIRST_ID, INITIALIZE, MESSAGE_BYTES, META, RequestTemplate,
};
use corelane_protocol::eras::Method;
use corelane_protocol::model::{Implementation, Role};

/// A request method in an era.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RequestKind {
    pub(crate) method: Method,
    pub(crate) era: Era,
}

impl RequestKind {
    /// A call of the echo tool, the baseline of the others.
    pub(crate) const fn call(era: Era) -> Self {
        Self { method: Method::ToolsCall, era }
    }

    /// Requests with pre-encoded responses.
    pub(crate) const CONSTANT: [Self; 9] = [
        Self { method: Method::Ping, era: Era::Legacy },
        Self { method: Method::Initialize, era: Era::Legacy },
        Self { method: Method::ToolsList, era: Era::Legacy },
        Self { method: Method::PromptsList, era: Era::Legacy },
        Self { method: Method::ResourcesList, era: Era::Legacy },
        Self { method: Method::Discover, era: Era::Modern },
        Self { method: Method::ToolsList, era: Era::Modern },
        Self { method: Method::PromptsList, era: Era::Modern },
        Self { method: Method::ResourcesList, era: Era::Modern },
    ];

    /// Returns the request as a line.
    pub(crate) fn line(self) -> Vec<u8> {
        let params = match (self.method, self.era) {
            (Method::ToolsCall, era) => return RequestTemplate::echo(era, MESSAGE_BYTES).repeat(1),
            (Method::Initialize, _) => return INITIALIZE.into(),
            (_, Era::Legacy) => String::new(),
            (_, Era::Modern) => format!(",\"params\":{{{}}}", META.trim_start_matches(',')),
        };
        let method = self.method.as_str();
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"{method}\"{params}}}\n");
        line.into_bytes()
    }

    /// Whether one connection may send it more than once.
    pub(crate) fn is_repeatable(self) -> bool {
        self.method != Method::Initialize
    }
}

/// Returns the catalog of the server.
pub(crate) fn catalog() -> Result<Catalog, CatalogError> {
    let greet = Prompt::new("greet").description("A greeting.").inline(|_, prompt, _| {
        prompt.text(Role::User, "Good morning!");
        Ok(())
    });
    let memo = Resource::new("memo://today", "today").mime_type("text/plain").text("Water it.");
    Catalog::builder(Implementation::new("corelane", "0.1.0"))
        .tools(demo::tools())
        .prompt(greet)
        .resource(memo)
        .build()
}
