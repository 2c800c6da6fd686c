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

use crate::mounted::Mounted;

/// The user that the middleware has authenticated.
#[derive(Clone)]
struct User(String);

/// Accepts no token: the middleware authenticates.
struct NoTokens;

impl TokenVerifier for NoTokens {
    fn verify(&self, _: &str, _: u64) -> Result<Principal, TokenError> {
        Err(TokenError::Unknown)
    }
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

/// The service behind a middleware that takes the user from a header field.
fn mount(server: &TestServer) -> Mounted {
    let handle = server.handle();
    Mounted::serve(|| {
        let service = McpService::from_handle(&handle);
        let authenticate = from_fn(|mut request: AxumRequest, next: Next| async move {
            let user = request.headers_mut().remove("x-user");
            if let Some(name) = user.and_then(|user| user.to_str().map(str::to_owned).ok()) {
                request.extensions_mut().insert(Principal::new(name.as_str()));
                request.extensions_mut().insert(User(name));
            }
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
        let whoami = Tool::new("whoami").inline(|_: NoArguments, ctx| {
            ctx.principal().map_or_else(String::new, |caller| caller.id().to_owned())
        });
        let catalog = Catalog::builder(Implementation::new("users", "1")).tool(whoami);
        let catalog = catalog.build().expect("valid");
        let server = TestServer::with_server(|_| {
            Server::builder(catalog).options(options).token_verifier(NoTokens)
        });
        let axum = mount(&server);
        let mut client = axum.connect().with_revision(LEGACY);
        let initialize = Request::post(initialize_with_elicitation(0, LEGACY));
        // The body of such a response is no JSON-RPC.
        let status = |request: &Request| {
            let mut client = axum.connect();
            client.send(request);
            client.read_head().status
        };
        assert_eq!(status(&initialize), 401);
        for user in ["Ada", "Grace", "Alan", "Edsger"] {
            let of_user = |request: Request| request.field("X-User", user);
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
            let other = client.exchange(&call().field("X-User", "Mallory"));
            assert_eq!(other.head.status, 404);
            assert_eq!(status(&call()), 401);
        }
        axum.shut_down();
        server.close();
    });
}
