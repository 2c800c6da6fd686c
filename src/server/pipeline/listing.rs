//! The lists: pages that were framed when the catalog was built.

use super::admission::Admitted;
use super::{Road, say_result};
use crate::protocol::era::Method;
use crate::protocol::error::Error;
use crate::protocol::params::List;
use crate::server::party::Said;
use crate::server::session::Peer;

impl Road {
    /// One page of the list that `admitted` asks for.
    #[inline]
    pub(super) fn list(&mut self, peer: &mut Peer<'_>, admitted: &Admitted<'_>) -> Said {
        let revision = admitted.revision;
        let page = List::read(admitted.params).and_then(|List { cursor }| match admitted.method {
            Method::ToolsList => self.catalog.tools_page(revision, cursor),
            Method::PromptsList => self.catalog.prompts_page(revision, cursor),
            Method::ResourcesList => self.catalog.resources_page(revision, cursor),
            Method::ResourcesTemplatesList => self.catalog.templates_page(revision, cursor),
            other => Err(Error::method_not_found(other.as_str())),
        });
        match page {
            Ok(page) => say_result(peer, admitted, page),
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }
}
