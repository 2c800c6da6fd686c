//! Both servers give the same results.

use axum::extract::Path;
use axum::routing::get;
use corelane_rmcp_comparison::process::Server;
use serde_json::{Value, json};

/// Serves the exchange rates; every rate but that of USD is unknown.
async fn serve_rates() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("the listener is bound"));
    let router = axum::Router::new().route(
        "/{code}",
        get(async |Path(code): Path<String>| match code.as_str() {
            "USD" => Ok(r#"{"rate": 1.25}"#),
            _ => Err(axum::http::StatusCode::NOT_FOUND),
        }),
    );
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

struct Both {
    client: reqwest::Client,
    corelane: Server,
    rmcp: Server,
}

impl Both {
    async fn start() -> Self {
        let rates = serve_rates().await;
        let start = |program| Server::start(program, &rates).expect("the server starts");
        Self {
            client: reqwest::Client::new(),
            corelane: start(env!("CARGO_BIN_EXE_shop_corelane")),
            rmcp: start(env!("CARGO_BIN_EXE_shop_rmcp")),
        }
    }

    async fn exchange(&self, method: &str, params: Value) -> (Value, Value) {
        let ours = self.corelane.exchange(&self.client, method, params.clone()).await;
        let theirs = self.rmcp.exchange(&self.client, method, params).await;
        (ours.expect("corelane responds"), theirs.expect("rmcp responds"))
    }
}

#[tokio::test]
async fn tool_calls_have_same_results() {
    let both = Both::start().await;
    let calls = [
        ("list_products", json!({})),
        ("search", json!({"text": "tea"})),
        ("product", json!({"id": 2})),
        ("product", json!({"id": 9})),
        ("add_product", json!({"name": "tray", "cents": 1200})),
        ("set_price", json!({"id": 4, "cents": 1100})),
        ("put_in_cart", json!({"id": 4, "count": 2})),
        ("cart_total", json!({})),
        ("check_out", json!({})),
        ("remove_product", json!({"id": 1})),
        ("remove_product", json!({"id": 1})),
        ("exchange_rate", json!({"code": "USD"})),
    ];
    for (name, arguments) in calls {
        let params = json!({"name": name, "arguments": arguments});
        let (ours, theirs) = both.exchange("tools/call", params).await;
        let (ours, theirs) = (&ours["result"], &theirs["result"]);
        assert_eq!(ours["structuredContent"], theirs["structuredContent"], "{name}");
        let is_error = |result: &Value| result["isError"].as_bool().unwrap_or_default();
        assert_eq!(is_error(ours), is_error(theirs), "{name}");
        assert_eq!(ours["content"][0]["text"], theirs["content"][0]["text"], "{name}");
        assert!(ours["content"][0]["text"].is_string(), "{ours}");
    }
}

#[tokio::test]
async fn prompts_and_resources_have_same_results() {
    let both = Both::start().await;
    let params = json!({"name": "describe", "arguments": {"name": "cup"}});
    let (ours, theirs) = both.exchange("prompts/get", params).await;
    assert_eq!(ours["result"]["messages"], theirs["result"]["messages"]);
    assert_eq!(ours["result"]["messages"][0]["content"]["text"], "Describe our cup in one line.");
    let (ours, theirs) = both.exchange("resources/read", json!({"uri": "shop://products/3"})).await;
    assert_eq!(ours["result"]["contents"], theirs["result"]["contents"]);
    assert_eq!(ours["result"]["contents"][0]["mimeType"], "application/json");
}

#[tokio::test]
async fn lists_name_the_same_items() {
    let both = Both::start().await;
    for (method, list, key) in [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        let (ours, theirs) = both.exchange(method, json!({})).await;
        let names = |response: &Value| {
            let items = response["result"][list].as_array().expect("a list").iter();
            let mut names: Vec<String> = items.map(|item| item[key].to_string()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&ours), names(&theirs), "{method}");
        assert!(!names(&ours).is_empty(), "{ours}");
    }
}
