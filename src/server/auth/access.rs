//! What callers may do: the rules, with tools and resources as the catalog knows them.

use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_protocol::eras::Method;

use super::Authentication;
use crate::guard::auth::Authenticator;
use crate::guard::auth::access::{AccessDenied, AccessTarget};
use crate::guard::pattern::TargetName;
use crate::service::{Catalog, Resource};

impl Authentication {
    /// Checks whether a caller may make a request for a tool, prompt or resource. A URI is checked
    /// as the catalog resolves it, so that a rule is not avoided by another spelling; a resource
    /// that is a link, as what it leads to, too.
    ///
    /// # Errors
    ///
    /// What the caller lacks.
    pub fn check_operation(
        &self,
        catalog: &Catalog,
        principal: Option<&Principal>,
        method: Method,
        name: &str,
    ) -> Result<(), AccessDenied> {
        let access = &self.authenticator().access;
        let method_name = method.as_str();
        if method.names_uri() {
            access.check_uri(principal, method_name, &catalog.resolved_uri(name))?;
            // A query is of the file that is read, which is listed without one.
            let listed = name.find(['?', '#']).map_or(name, |end| &name[..end]);
            let target = catalog.resource(listed).and_then(Resource::target_uri);
            return target.map_or(Ok(()), |uri| access.check_uri(principal, method_name, uri));
        }
        let scopes = match method {
            Method::ToolsCall => catalog.tool(name).map_or(&[][..], |tool| tool.required_scopes()),
            _ => &[],
        };
        let name = TargetName::Name(name);
        access.check(principal, AccessTarget { method: method_name, name, scopes })
    }

    /// Returns whether a caller may use an entry of a list.
    pub fn may_use(
        &self,
        catalog: &Catalog,
        principal: Option<&Principal>,
        method: Method,
        name: &str,
    ) -> bool {
        self.check_operation(catalog, principal, method, name).is_ok()
    }

    /// Returns what has the rules for reading, for handlers on other threads; `None` without rules.
    pub fn read_rules(&self) -> Option<Arc<Authenticator>> {
        self.has_rules().then(|| Arc::clone(self.authenticator()))
    }
}
