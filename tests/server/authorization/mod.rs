//! Authentication and authorization over every transport: status, header and body of each refusal.
//!
//! [`scenarios`] need only the URL of a server and tokens for it, and run against any MCP server
//! that is a protected resource of OAuth: with the environment variable `AUTHORIZATION_TARGET`, the
//! path of a JSON file with `url`, `resource`, `valid`, `expired`, `other_audience` and
//! `bad_signature`, the test `scenarios_hold_for_target` runs against that server instead. For a
//! `url` at `https://` the file may have `ca`, the path of the authorities to trust in PEM.

mod api_keys;
mod audit;
mod audit_file;
mod bindings;
mod certificates;
mod checks;
mod client_errors;
mod dpop;
mod dpop_client;
mod fuzzed;
pub(crate) mod http;
mod http_server;
mod introspection;
#[cfg(target_os = "linux")]
mod introspection_flood;
mod issuer;
mod key_sets;
mod links;
mod message_tokens;
mod proof_key;
mod reload;
mod retry;
mod scenarios;
mod scopes;
mod session_names;
mod target;
mod transports;

use std::fs;

use corelane::model::Implementation;
use corelane::options::AuthOptions;
use corelane::{Catalog, NoArguments, Options, Prompt, Resource, ResourceTemplate, Tool};
use corelane_test_support::{TestServer, http_and_tcp_options};
use issuer::TestIssuer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The canonical URL of the server, as its clients know it.
const RESOURCE: &str = "https://mcp.test/mcp";

/// The metadata URL in challenges.
const METADATA: &str = "https://mcp.test/.well-known/oauth-protected-resource/mcp";

/// The end of challenges of a server with [`Authority::jwt_options`].
fn requirements() -> String {
    format!("resource_metadata=\"{METADATA}\", scope=\"tools:read\"")
}

/// A directory with the keys of an issuer, and with API keys.
struct Authority {
    issuer: TestIssuer,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        Self { issuer: TestIssuer::new(), directory: tempfile::tempdir().expect("a directory") }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    /// Options that accept the tokens of the issuer.
    fn jwt_options(&self) -> AuthOptions {
        let mut auth = AuthOptions::default();
        auth.resource = Some(RESOURCE.to_owned());
        auth.issuers = vec![self.issuer.name().to_owned()];
        auth.key_sets = vec![self.write("keys.json", &self.issuer.key_set().to_string())];
        auth.scopes_supported = vec!["tools:call".to_owned()];
        auth.challenge_scopes = vec!["tools:read".to_owned()];
        auth
    }

    /// Options that accept the keys `key-ada` of an admin with the scope `call`, and `key-bob`.
    fn key_options(&self) -> AuthOptions {
        let (ada, bob) = (hash_of("key-ada"), hash_of("key-bob"));
        let text = format!("ada:{ada}:admin:call\nbob:{bob}\n");
        let mut auth = AuthOptions::default();
        auth.api_keys = vec![self.write("keys.txt", &text).into()];
        auth
    }
}

/// The SHA-256 of an API key in hex.
pub(crate) fn hash_of(key: &str) -> String {
    let digits = |byte: u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
    Sha256::digest(key.as_bytes()).into_iter().flat_map(digits).flatten().collect()
}

/// Options of a server on free ports, over HTTP and TCP.
fn options(auth: AuthOptions) -> Options {
    let mut options = http_and_tcp_options();
    options.auth = auth;
    options
}

/// A server whose tool `whoami` returns its caller.
fn start(auth: AuthOptions) -> TestServer {
    TestServer::with_catalog(options(auth), catalog())
}

fn catalog() -> Catalog {
    let whoami = Tool::new("whoami").inline(|_: NoArguments, ctx| match ctx.principal() {
        Some(caller) => format!("{} ({})", caller.id(), caller.tier()),
        None => "anonymous".to_owned(),
    });
    let slow = Tool::new("whoami_local").local(|_: NoArguments, ctx| async move {
        ctx.principal().map_or_else(String::new, |caller| caller.id().to_owned())
    });
    let deploy = Tool::new("deploy_app")
        .require_scope("tools:deploy")
        .inline(|_: NoArguments, _| "deployed");
    let info = Implementation::new("test", "1.0.0");
    let builder = Catalog::builder(info).tool(whoami).tool(slow).tool(deploy);
    let secret = Resource::new("docs://secret/plan", "plan").text("the plan");
    let page = ResourceTemplate::new("docs://{area}/page", "page").inline(|read, contents, _| {
        let area = read.variable("area").unwrap_or_default();
        contents.text(read.uri(), None, &area);
        Ok(())
    });
    let prompt = Prompt::new("greet").inline(|_, out, _| {
        out.text(corelane::model::Role::User, "hello");
        Ok(())
    });
    builder.resource(secret).template(page).prompt(prompt).build().expect("a valid catalog")
}

/// A call of a tool without arguments.
fn call(tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}
