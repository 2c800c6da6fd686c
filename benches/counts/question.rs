//! What is asked: a call of the echo tool, and requests that everybody gets the same answer to.
//!
//! The catalog behind them is small: the four demo tools, one prompt, one resource.

use corelane::protocol::era::Method;
use corelane::protocol::message::{Role, ServerInfo};
use corelane::service::{Catalog, CatalogError, Prompt, Resource, demo};

use crate::requests::{Era, FIRST_ID, INITIALIZE, MESSAGE_BYTES, META, Template};

/// One request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) era: Era,
}

impl Question {
    /// The call of the echo tool, which the others are held against.
    pub(crate) const fn call(era: Era) -> Self {
        Self { method: Method::ToolsCall, era }
    }

    /// Requests whose answers were framed before they came.
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

    /// Its line, with the newline.
    pub(crate) fn line(self) -> Vec<u8> {
        let params = match (self.method, self.era) {
            (Method::ToolsCall, era) => return Template::echo(era, MESSAGE_BYTES).repeat(1),
            (Method::Initialize, _) => return INITIALIZE.into(),
            (_, Era::Legacy) => String::new(),
            (_, Era::Modern) => format!(",\"params\":{{{}}}", META.trim_start_matches(',')),
        };
        let method = self.method.as_str();
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"{method}\"{params}}}\n");
        line.into_bytes()
    }

    /// Whether one connection may ask it again and again.
    pub(crate) fn repeats(self) -> bool {
        self.method != Method::Initialize
    }
}

/// What is offered.
pub(crate) fn catalog() -> Result<Catalog, CatalogError> {
    let greet = Prompt::new("greet").describe("A greeting.").inline(|_, prompt| {
        prompt.text(Role::User, "Good morning!");
        Ok(())
    });
    let memo = Resource::new("memo://today", "today").mime_type("text/plain").text("Water it.");
    Catalog::builder(ServerInfo::new("corelane", "0.1.0"))
        .tools(demo::tools())
        .prompt(greet)
        .resource(memo)
        .build()
}
