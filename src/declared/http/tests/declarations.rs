//! Problems of declarations.

use serde_json::json;

use super::{HttpClient, HttpDeclaration, HttpTool, Reply, TestServer, call, limits, problems};

fn keys(declaration: &str) -> Vec<String> {
    problems(declaration).into_iter().map(|problem| problem.key).collect()
}

#[test]
fn url_has_fixed_origin() {
    let wrong = [
        "https://{host}/x",
        "{scheme}://a.example/x",
        "{url}",
        "https://a.example{x}",
        "https://a.example:{port}/",
        "https://{user}@a.example/",
        "https://u:p@a.example/",
        "https://a.example\\\\x/y",
        "ftp://a.example/",
        "file:///etc/passwd",
        "/items",
        "",
        "https://",
        "https://a.example/#x",
        "https://a.example/x/../y",
        "https://a.example/%2e%2E/y",
        "https://a.example/?{name}=1",
        "https://a.example/{",
    ];
    for url in wrong {
        assert_eq!(keys(&format!("url = \"{url}\"")), ["url"], "{url}");
    }
    for right in ["https://a.example", "https://a.example?x={y}", "http://[2606:4700::1]/{x}"] {
        assert_eq!(problems(&format!("url = \"{right}\"")), [], "{right}");
    }
}

#[test]
fn every_problem_has_its_key() {
    let all = keys(
        r#"
        method = "BREW"
        url = "https://a.example/{"
        headers = { Host = "b.example", "a b" = "x", X = "a\nb", Y = "{" }
        query = { q = "}" }
        body = { a = { b = "{" } }
        text = "x"
        result = "data.name"
        pages = { max = 0 }
        private_addresses = ["a b"]
        "#,
    );
    let expected = [
        "url",
        "query.q",
        "text",
        "body.a.b",
        "method",
        "headers.Host",
        "headers.X",
        "headers.Y",
        "headers.a b",
        "private_addresses",
        "pages.max",
        "result",
    ];
    assert_eq!(all, expected);
    assert_eq!(keys("url = \"https://a.example\"\nretry.attempts = 0"), ["retry.attempts"]);
    assert_eq!(keys("url = \"https://a.example\"\nretry.wait = \"x\""), ["retry.wait"]);
    assert_eq!(keys("url = \"https://a.example\"\npages = {}"), ["pages"]);
    assert_eq!(keys("url = \"https://a.example\"\nmethod = \"GET\"\ntext = \"x\""), ["method"]);
    let roots = "url = \"https://a.example\"\nroot_certificates = \"x\"";
    assert_eq!(keys(roots), ["root_certificates"]);
    assert_eq!(keys("url = \"https://a.example\"\nproxy = \"socks5://p\""), ["proxy"]);
    assert_eq!(keys("url = \"https://a.example\"\nuser_agent = \"a\\nb\""), ["user_agent"]);
}

#[test]
fn private_address_in_url_is_refused() {
    let hosts = [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[fd00::1]",
        "0.0.0.0",
    ];
    for host in hosts {
        let found = problems(&format!("url = \"http://{host}/\""));
        assert_eq!(found.len(), 1, "{host}");
        assert!(found[0].message.contains("private_addresses"), "{:?}", found[0]);
    }
}

#[test]
fn secrets_are_not_shown() {
    let secret = "s3cr3t";
    let text = format!(
        r#"
        url = "https://a.example/{secret}?k={secret}"
        headers = {{ Authorization = "Bearer {secret}", X = "{secret}{{" }}
        query = {{ q = "{secret}{{" }}
        body = "{secret}{{"
        "#
    );
    let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
    assert!(!format!("{declaration:?}").contains(secret));
    let found = problems(&text);
    assert_eq!(found.len(), 3);
    assert!(!format!("{found:?}").contains(secret), "{found:?}");
}

#[test]
fn tools_with_equal_settings_share_connections() {
    let server = TestServer::always(Reply::json("{}"));
    let mut client = HttpClient::new();
    let text = format!("url = \"{}/{{id}}\"\nprivate_addresses = [\"127.0.0.1\"]", server.origin());
    let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for id in 0..3 {
        let tool = HttpTool::new(&declaration, &mut client, limits()).unwrap();
        runtime
            .block_on(super::run(&tool, super::arguments(&json!({ "id": id })), 1 << 20))
            .unwrap();
    }
    drop((runtime, client));
    server.wait_for_close();
    assert_eq!(server.received().len(), 3);
}

#[test]
fn declared_proxy_gets_the_request() {
    let proxy = TestServer::always(Reply::json("{\"by\":\"proxy\"}"));
    let text = format!("url = \"http://a.example/x\"\nproxy = \"{}\"", proxy.origin());
    let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
    let tool = HttpTool::new(&declaration, &mut HttpClient::new(), limits()).unwrap();
    call(&tool, &json!({})).unwrap();
    assert_eq!(proxy.request().target(), "http://a.example/x");
}
