//! Authorization of the requests to one server: credentials, and the flow that obtains them.

mod fetch;
mod redirect;

mod flow_run;

mod server_authorization;

mod upgrade;

pub(in crate::client::io) use self::flow_run::FlowRun;
pub(in crate::client::io) use self::redirect::RedirectSender;
pub(in crate::client::io) use self::server_authorization::HttpAuthorization;
pub(super) use self::server_authorization::{FlowEnd, Verdict};
pub(in crate::client::io) use self::upgrade::{UpgradeAuthorization, UpgradeVerdict};
