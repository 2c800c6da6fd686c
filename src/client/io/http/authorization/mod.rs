//! Authorization of the requests to one server: credentials, and the flow that obtains them.

mod fetch;
mod redirect;

mod flow_run;

mod server_authorization;

mod upgrade;

pub use self::flow_run::FlowRun;
pub use self::redirect::RedirectSender;
pub use self::server_authorization::HttpAuthorization;
pub(super) use self::server_authorization::{FlowEnd, Verdict};
pub use self::upgrade::{UpgradeAuthorization, UpgradeVerdict};
