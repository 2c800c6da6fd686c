//! The lists: pages that were framed when the catalog was built.

use super::Road;
use super::admission::Admitted;
use crate::link::Connection;
use crate::protocol::era::Method;
use crate::protocol::error::Error;
use crate::protocol::message;
use crate::protocol::params::List;
use crate::server::session::Session;

impl Road {
    /// One page of the list that `admitted` asks for.
    #[inline]
    pub(super) fn list(&mut self, connection: &mut Connection<Session>, admitted: &Admitted<'_>) {
        let revision = admitted.revision;
        let page = List::read(admitted.params).and_then(|List { cursor }| match admitted.method {
            Method::ToolsList => self.catalog.tools_page(revision, cursor),
            Method::PromptsList => self.catalog.prompts_page(revision, cursor),
            Method::ResourcesList => self.catalog.resources_page(revision, cursor),
            Method::ResourcesTemplatesList => self.catalog.templates_page(revision, cursor),
            other => Err(Error::method_not_found(other.as_str())),
        });
        match page {
            Ok(page) => message::result(&mut connection.outgoing, admitted.id, page),
            Err(error) => {
                self.say_error(connection, Some(admitted.id), &error, Some(revision));
            }
        }
    }
}
