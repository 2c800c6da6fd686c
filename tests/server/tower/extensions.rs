//! Extensions that middleware of the host attaches to requests reach the handlers of these.

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::middleware::{Next, from_fn};
use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::model::Implementation;
use corelane::tower::McpService;
use corelane::{Catalog, NoArguments, Server, Tool};
use corelane_test_support::messages::{
    LEGACY, call, initialize_with_elicitation, modern, notification, result_text,
};
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{Request, TestServer, WebSocketClient, on_one_shard_and_two, sockets};
use serde_json::json;

use crate::tower::mounted::Mounted;

/// The user that the middleware has authenticated.
#[derive(Clone)]
struct User(String);

/// The token `letmein` is that of a guest.
struct OneToken;

impl TokenVerifier for OneToken {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        if token == "letmein" { Ok(Principal::new("guest")) } else { Err(TokenError::Unknown) }
    }
}

/// A tool that returns the id of its caller.
fn whoami() -> Tool {
    Tool::new("whoami")
        .inline(|_: NoArguments, ctx| ctx.principal().map_or("unknown", Principal::id).to_owned())
}

fn catalog_of(tools: impl IntoIterator<Item = Tool>) -> Catalog {
    Catalog::builder(Implementation::new("users", "1")).tools(tools).build().expect("valid")
}

/// One tool of each kind that returns the name of the user.
fn catalog() -> Catalog {
    let name = |user: Option<&User>| user.map_or("no user", |User(name)| name).to_owned();
    let inline = Tool::new("inline").inline(move |_: NoArguments, ctx| name(ctx.extension()));
    let local = Tool::new("local").local(move |_: NoArguments, ctx| async move {
        ctx.sleep(std::time::Duration::from_millis(1)).await?;
        Ok(name(ctx.extension()))
    });
    let blocking = Tool::new("blocking").blocking(move |_: NoArguments, ctx| name(ctx.extension()));
    let tools = [inline, local, blocking];
    Catalog::builder(Implementation::new("users", "1")).tools(tools).build().expect("valid")
}

const TOOLS: [&str; 3] = ["inline", "local", "blocking"];

/// The service behind a middleware that takes user and principal from header fields.
fn mount(server: &TestServer) -> Mounted {
    let handle = server.handle();
    Mounted::serve(|| {
        let service = McpService::from_handle(&handle);
        let authenticate = from_fn(|mut request: AxumRequest, next: Next| async move {
            let mut take = |name: &str| {
                let value = request.headers_mut().remove(name)?;
                value.to_str().ok().map(str::to_owned)
            };
            let (user, principal) = (take("x-user"), take("x-principal"));
            let extensions = request.extensions_mut();
            user.map(|name| extensions.insert(User(name)));
            principal.map(|id| extensions.insert(Principal::new(id)));
            next.run(request).await
        });
        Router::new().nest_service("/mcp", service).layer(authenticate)
    })
}

#[test]
fn extension_reaches_handlers_of_its_request() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let axum = mount(&server);
        let mut client = axum.connect();
        for user in ["Ada", "Grace"] {
            for tool in TOOLS {
                let request = Request::modern(&modern(call(1, tool, json!({}))));
                let response = client.exchange(&request.clone().field("X-User", user)).message();
                assert_eq!(result_text(&response), user);
                // Over the same connection to the shard.
                assert_eq!(result_text(&client.exchange(&request).message()), "no user");
            }
        }
        drop(client);
        axum.shut_down();
        server.close();
    });
}

#[test]
fn extension_reaches_session_on_another_shard() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let axum = mount(&server);
        for user in ["Ada", "Grace", "Alan", "Edsger"] {
            let mut client = axum.connect().with_revision(LEGACY);
            let response = client.exchange(&Request::post(initialize_with_elicitation(0, LEGACY)));
            let session = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
            let in_session = |request: Request| {
                request.field("Mcp-Session-Id", &session).field("MCP-Protocol-Version", LEGACY)
            };
            let initialized = Request::post(notification("notifications/initialized"));
            client.exchange(&in_session(initialized)).expect_empty_body(202);
            for tool in TOOLS {
                let request = in_session(Request::post(call(1, tool, json!({}))));
                let (_, response) = client.exchange_to_end(&request.clone().field("X-User", user));
                assert_eq!(result_text(&response), user);
                assert_eq!(result_text(&client.exchange_to_end(&request).1), "no user");
            }
        }
        axum.shut_down();
        server.close();
    });
}

#[test]
fn websocket_keeps_extension_of_its_upgrade() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let axum = mount(&server);
        let request = upgrade_request().field("X-User", "Ada").bytes();
        let (_, mut peer) = WebSocketClient::upgrade(sockets::connect(axum.address), &request);
        for tool in TOOLS.into_iter().chain(TOOLS) {
            let response = peer.exchange(&modern(call(1, tool, json!({}))));
            assert_eq!(result_text(&response), "Ada");
        }
        peer.close(1000);
        axum.shut_down();
        server.close();
    });
}

#[test]
fn session_belongs_to_principal_of_middleware() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog_of([whoami()]));
        let axum = mount(&server);
        let mut client = axum.connect().with_revision(LEGACY);
        let initialize = Request::post(initialize_with_elicitation(0, LEGACY));
        for user in ["Ada", "Grace", "Alan", "Edsger"] {
            let of_user = |request: Request| request.field("X-Principal", user);
            let response = client.exchange(&of_user(initialize.clone()));
            let session = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
            let in_session = |request: Request| {
                request.field("Mcp-Session-Id", &session).field("MCP-Protocol-Version", LEGACY)
            };
            let initialized = of_user(Request::post(notification("notifications/initialized")));
            client.exchange(&in_session(initialized)).expect_empty_body(202);
            let call = || in_session(Request::post(call(1, "whoami", json!({}))));
            let (_, response) = client.exchange_to_end(&of_user(call()));
            assert_eq!(result_text(&response), user);
            // Another principal, and a request without one.
            for other in [call().field("X-Principal", "Mallory"), call()] {
                assert_eq!(client.exchange(&other).head.status, 404);
            }
        }
        // A session of an unknown caller is not theirs, either.
        let response = client.exchange(&initialize);
        let session = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let call = Request::post(call(1, "whoami", json!({}))).field("X-Principal", "Mallory");
        let call = call.field("Mcp-Session-Id", &session).field("MCP-Protocol-Version", LEGACY);
        assert_eq!(client.exchange(&call).head.status, 404);
        drop(client);
        axum.shut_down();
        server.close();
    });
}

#[test]
fn principal_of_middleware_precedes_the_token() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_server(|_| {
            Server::builder(catalog_of([whoami()])).options(options).token_verifier(OneToken)
        });
        let axum = mount(&server);
        let mut client = axum.connect();
        let request = Request::modern(&modern(call(1, "whoami", json!({}))));
        let with_token = |token: &str| request.clone().field("Authorization", token);
        for _ in 0..2 {
            let response = client.exchange(&with_token("Bearer letmein")).message();
            assert_eq!(result_text(&response), "guest");
            for token in ["Bearer letmein", "Bearer of-the-host"] {
                let response = client.exchange(&with_token(token).field("X-Principal", "Ada"));
                assert_eq!(result_text(&response.message()), "Ada");
            }
        }
        drop(client);
        axum.shut_down();
        server.close();
    });
}

#[test]
fn principal_of_middleware_has_scopes() {
    let deploy = Tool::new("deploy").require_scope("deploy").inline(|_: NoArguments, _| "done");
    let catalog = catalog_of([deploy, whoami()]);
    let axum = Mounted::serve(|| {
        let service = McpService::new(Server::builder(catalog)).expect("no verifier is needed");
        let authenticate = from_fn(|mut request: AxumRequest, next: Next| async move {
            if request.headers().contains_key("x-admin") {
                let admin = Principal::new("root").with_scopes(["deploy"]);
                request.extensions_mut().insert(admin);
            }
            next.run(request).await
        });
        Router::new().nest_service("/mcp", service).layer(authenticate)
    });
    let mut client = axum.connect();
    // The token is for the host.
    let request = Request::modern(&modern(call(1, "deploy", json!({}))));
    let request = request.field("Authorization", "Bearer of-the-host");
    let response = client.exchange(&request.clone().field("X-Admin", "1")).message();
    assert_eq!(result_text(&response), "done");
    let refused = client.exchange(&request);
    assert_eq!((refused.head.status, refused.head.field("WWW-Authenticate")), (403, None));
    assert_eq!(refused.message()["error"]["data"]["requiredScopes"], json!(["deploy"]));
    drop(client);
    axum.shut_down();
}
