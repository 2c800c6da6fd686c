//! Arguments in every place of a request.

use serde_json::{Value, json};

use super::{Reply, TestServer, arguments, block_on, call, invalid, run, tool};
use crate::declared::call::Call;

/// Values that try to leave their place.
const HOSTILE: [&str; 9] = [
    "x\r\nX-Injected: 1",
    "x\nX-Injected: 1",
    "x HTTP/1.1\r\n\r\nGET /admin HTTP/1.1\r\n\r\n",
    "x?admin=1#fragment",
    "x&admin=1;admin=2",
    "%2e%2e%2fadmin",
    "a%00\0b",
    "\"},\"admin\":true,{\"",
    "@evil.example:80/\u{e4}\u{1f980}",
];

fn server() -> TestServer {
    TestServer::always(Reply::json("{}"))
}

#[test]
fn request_has_arguments_in_their_places() {
    let server = server();
    let tool = tool(
        &server,
        r#"
        method = "post"
        url = "ORIGIN/v1/items/{id}/{kind}.json?fixed=a%20b&limit={limit}"
        headers = { X-Key = "k-123", X-User = "user {principal}", X-Absent = "{absent}" }
        body = { count = "{limit}", tags = "{tags}", note = "n {id}", gone = "{absent}", on = true }
        [query]
        tag = "{tags}"
        absent = "{absent}"
        both = ["x", "{kind}"]
        page = 2
        verbose = "{?verbose:yes}"
        quiet = "{?quiet:yes}"
        "#,
    );
    let values = json!({
        "id": "a b/c", "kind": "small", "limit": 5, "tags": ["x&y", "z"], "verbose": true,
        "quiet": false,
    });
    let call = Call { principal: Some("ann".to_owned()), ..arguments(&values) };
    block_on(run(&tool, call, 1 << 20)).unwrap();
    let request = server.request();
    let path = "/v1/items/a%20b%2Fc/small.json?fixed=a%20b&limit=5";
    let query = "&both=x&both=small&page=2&tag=x%26y&tag=z&verbose=yes";
    assert_eq!(request.target(), format!("{path}{query}"));
    assert!(request.head.starts_with("POST "));
    assert_eq!(request.header("x-key"), Some("k-123"));
    assert_eq!(request.header("x-user"), Some("user ann"));
    assert_eq!(request.header("x-absent"), None);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(request.header("user-agent").unwrap().starts_with("corelane/"));
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let expected = json!({ "count": 5, "tags": ["x&y", "z"], "note": "n a b/c", "on": true });
    assert_eq!(body, expected);
    let names: Vec<&str> = tool.names().collect();
    assert_eq!(names, ["absent", "id", "kind", "limit", "quiet", "tags", "verbose"]);
}

#[test]
fn path_argument_stays_in_its_segment() {
    let server = server();
    let tool = tool(&server, "url = \"ORIGIN/items/{id}/edit\"");
    for value in HOSTILE {
        call(&tool, &json!({ "id": value })).unwrap();
        let request = server.request();
        let target = request.target();
        assert!(target.starts_with("/items/") && target.ends_with("/edit"), "{target}");
        assert_eq!(target.matches('/').count(), 3, "{target}");
        assert!(!target.contains(['?', '#', '&', ' ']), "{target}");
        assert!(!request.head.contains("Injected:"), "{}", request.head);
        let sent = percent_encoding::percent_decode_str(&target[7..target.len() - 5]);
        assert_eq!(sent.decode_utf8().unwrap(), value);
    }
    assert!(server.received().is_empty());
}

#[test]
fn relative_path_argument_is_refused() {
    let server = server();
    let tool = tool(&server, "url = \"ORIGIN/items/{a}{b}/edit\"");
    let pairs = [
        [".", ""],
        ["..", ""],
        [".", "."],
        ["../admin", ""],
        ["a/../..", ""],
        ["..\\admin", ""],
        ["", ""],
        ["..", "/x"],
    ];
    for [a, b] in pairs {
        let text = invalid(&tool, &json!({ "a": a, "b": b }));
        assert!(text.contains("`a`"), "{text}");
    }
    invalid(&tool, &json!({ "a": "x" }));
    invalid(&tool, &json!({ "a": "x", "b": null }));
    call(&tool, &json!({ "a": "..x", "b": "v1..2" })).unwrap();
    assert_eq!(server.request().target(), "/items/..xv1..2/edit");
    assert!(server.received().is_empty());
}

#[test]
fn query_argument_stays_in_its_parameter() {
    let server = server();
    let tool = tool(&server, "url = \"ORIGIN/search?q={q}&z=1\"\nquery = { r = \"<{q}>\" }");
    for value in HOSTILE {
        call(&tool, &json!({ "q": value })).unwrap();
        let request = server.request();
        let url = url::Url::parse(&format!("http://x{}", request.target())).unwrap();
        let pairs: Vec<_> = url.query_pairs().into_owned().collect();
        let expected =
            [("q", value.to_owned()), ("z", "1".to_owned()), ("r", format!("<{value}>"))];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(!request.head.contains("Injected:"), "{}", request.head);
    }
}

#[test]
fn header_argument_with_control_character_is_refused() {
    let server = server();
    let tool = tool(&server, "url = \"ORIGIN/\"\nheaders = { X-Note = \"n: {note}\" }");
    for value in ["a\r\nX-Injected: 1", "a\nb", "a\rb", "a\0b", "a\u{7f}"] {
        let text = invalid(&tool, &json!({ "note": value }));
        assert!(text.starts_with("header x-note: "), "{text}");
    }
    call(&tool, &json!({ "note": "caf\u{e9}, \"x\"; y" })).unwrap();
    let request = server.request();
    assert!(request.head.contains("x-note: n: caf\u{e9}, \"x\"; y\r\n"), "{}", request.head);
    assert!(server.received().is_empty());
}

#[test]
fn body_argument_stays_in_its_field() {
    let server = server();
    let json_tool = tool(&server, "url = \"ORIGIN/\"\nbody = { a = \"{v}\", b = \"<{v}>\" }");
    let form_tool = tool(&server, "url = \"ORIGIN/\"\nform = { a = \"{v}\", b = \"1\" }");
    let text_tool = tool(&server, "url = \"ORIGIN/\"\ntext = \"<{v}>\"");
    for value in HOSTILE {
        let values = json!({ "v": value });
        call(&json_tool, &values).unwrap();
        let body: Value = serde_json::from_str(&server.request().body).unwrap();
        assert_eq!(body, json!({ "a": value, "b": format!("<{value}>") }));
        call(&form_tool, &values).unwrap();
        let body = server.request().body;
        let fields: Vec<_> = url::form_urlencoded::parse(body.as_bytes()).collect();
        assert_eq!(fields, [("a".into(), value.into()), ("b".into(), "1".into())]);
        call(&text_tool, &values).unwrap();
        let request = server.request();
        assert_eq!(request.body, format!("<{value}>"));
        assert_eq!(request.header("content-type"), Some("text/plain; charset=utf-8"));
    }
}

#[test]
fn multipart_body_has_files() {
    let server = server();
    let tool = tool(
        &server,
        r#"
        url = "ORIGIN/upload"
        [multipart]
        note = "for {to}"
        absent = "{absent}"
        file = { value = "{data}", filename = "{name}", content_type = "image/png", base64 = true }
        "#,
    );
    let name = "a\".png\r\nX: y";
    call(&tool, &json!({ "to": "ann", "data": "aGk=", "name": name })).unwrap();
    let request = server.request();
    assert!(request.header("content-type").unwrap().starts_with("multipart/form-data; boundary="));
    let file =
        "name=\"file\"; filename=\"a%22.png%0D%0AX: y\"\r\nContent-Type: image/png\r\n\r\nhi";
    assert!(request.body.contains(file), "{}", request.body);
    assert!(request.body.contains("name=\"note\"\r\n\r\nfor ann\r\n"), "{}", request.body);
    assert!(!request.body.contains("absent"));
    let text = invalid(&tool, &json!({ "to": "ann", "data": "*", "name": "a" }));
    assert!(text.contains("`data` is not base64"), "{text}");
}

#[test]
fn argument_of_one_megabyte_fits_only_bodies() {
    let server = server();
    let large = "x".repeat(1 << 20);
    let values = json!({ "v": large });
    let text = invalid(&tool(&server, "url = \"ORIGIN/{v}\""), &values);
    assert!(text.contains("at most 32768"), "{text}");
    invalid(&tool(&server, "url = \"ORIGIN/?v={v}\""), &values);
    let header = tool(&server, "url = \"ORIGIN/\"\nheaders = { X-V = \"{v}\" }");
    assert!(invalid(&header, &values).contains("at most 16384"));
    call(&tool(&server, "url = \"ORIGIN/\"\nbody = \"{v}\""), &values).unwrap();
    assert_eq!(server.request().body.len(), large.len() + 2);
    assert!(server.received().is_empty());
}
