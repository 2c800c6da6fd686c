//! Responses as outputs.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Reply, TestServer, call, call_within, failed, tool};
use crate::declared::call::Output;

fn output(reply: Reply, declaration: &str) -> Output {
    let server = TestServer::always(reply);
    call(&tool(&server, &format!("url = \"ORIGIN/\"\n{declaration}")), &json!({})).unwrap()
}

fn failure(reply: Reply, declaration: &str) -> String {
    let server = TestServer::always(reply);
    failed(&tool(&server, &format!("url = \"ORIGIN/\"\n{declaration}")), &json!({}))
}

fn typed(mime_type: &str, body: impl AsRef<[u8]>) -> Reply {
    Reply::new("200 OK", &format!("Content-Type: {mime_type}"), body)
}

#[test]
fn output_has_the_type_of_the_response() {
    let json = Output::Json(json!({ "a": [1] }));
    for mime_type in ["application/json", "application/problem+json; charset=utf-8", "Text/JSON"] {
        assert_eq!(output(typed(mime_type, "{\"a\":[1]}"), ""), json);
    }
    assert_eq!(output(Reply::new("200 OK", "", "{\"a\":[1]}"), ""), json);
    let text = |text: &str| Output::Text(text.to_owned());
    for mime_type in ["text/plain", "text/csv; charset=UTF-8", "application/xml", "text/html"] {
        assert_eq!(output(typed(mime_type, "\u{fc}"), ""), text("\u{fc}"));
    }
    assert_eq!(output(typed("text/plain; charset=ISO-8859-1", [0xfc]), ""), text("\u{fc}"));
    assert_eq!(output(Reply::new("200 OK", "", "x"), ""), text("x"));
    assert_eq!(output(Reply::new("204 No Content", "", ""), ""), text("204 No Content"));
    let media = |mime_type: &str, data: &'static [u8]| Output::Media {
        mime_type: mime_type.to_owned(),
        data: Bytes::from_static(data),
    };
    assert_eq!(output(typed("image/PNG", [0x89, 0]), ""), media("image/png", &[0x89, 0]));
    let unknown = output(Reply::new("200 OK", "", [0xff, 0]), "");
    assert_eq!(unknown, media("application/octet-stream", &[0xff, 0]));
    let declared = output(typed("text/plain", "x"), "format = \"media\"");
    assert_eq!(declared, media("text/plain", b"x"));
    assert_eq!(output(typed("application/json", "{}"), "format = \"text\""), text("{}"));
    assert_eq!(output(typed("text/plain", "[1]"), "format = \"json\""), Output::Json(json!([1])));
}

#[test]
fn result_is_the_value_at_its_pointer() {
    let body = "{\"data\":{\"names\":[\"a\",\"b\"]},\"n\":null}";
    let value = |pointer: &str| output(Reply::json(body), &format!("result = \"{pointer}\""));
    assert_eq!(value("/data/names/1"), Output::Json(json!("b")));
    assert_eq!(value("/n"), Output::Json(json!(null)));
    let text = failure(Reply::json(body), "result = \"/data/name\"");
    assert!(text.ends_with("no value at /data/name: it is an object with data, n"), "{text}");
}

#[test]
fn html_is_refused_where_json_is_due() {
    let page = "<!doctype html><html><head><title>Sign\n in</title></head>";
    for declaration in ["format = \"json\"", "result = \"/a\"", "pages = { link = true }"] {
        let text = failure(typed("text/html; charset=utf-8", page), declaration);
        let expected = "200 OK with text/html where JSON is expected: Sign in";
        assert!(text.ends_with(expected), "{text}");
    }
    let text = failure(typed("application/json", page), "");
    assert!(text.contains("application/json where JSON is expected: Sign in"), "{text}");
}

#[test]
fn wrong_content_is_a_failure() {
    let text = failure(typed("application/json", "{\"a\":"), "");
    assert!(text.contains("application/json that is not JSON (EOF"), "{text}");
    let text = failure(typed("text/plain", [0xff, 0xfe, 0]), "");
    assert!(text.contains("not text in UTF-8, 3 in total"), "{text}");
    let text = failure(typed("image/png", [0x89]), "format = \"json\"");
    assert!(text.contains("image/png that is not JSON"), "{text}");
}

/// A server with three pages of two numbers.
fn pages(link: bool) -> TestServer {
    TestServer::start(move |_, target| {
        let page: u64 = target.rsplit('=').next().unwrap().parse().unwrap_or(1);
        let next = if page < 3 { json!(format!("/list?page={}", page + 1)) } else { json!(null) };
        let token = if page < 3 { json!(page + 1) } else { json!("") };
        let items = [2 * page, 2 * page + 1];
        let body =
            if link { json!(items) } else { json!({ "d": items, "next": next, "t": token }) };
        let link = next.as_str().map(|next| format!("Link: <{next}>; rel=\"next\"\n"));
        let headers = format!("{}Content-Type: application/json", link.unwrap_or_default());
        Reply::new("200 OK", &headers, body.to_string())
    })
}

fn page_items(server: &TestServer, declaration: &str) -> Value {
    match call(&tool(server, declaration), &json!({})).unwrap() {
        Output::Json(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_are_concatenated() {
    let all = json!({ "items": [2, 3, 4, 5, 6, 7], "complete": true });
    let by_link = "url = \"ORIGIN/list?page=1\"\npages = { link = true }";
    assert_eq!(page_items(&pages(true), by_link), all);
    let by_url = "url = \"ORIGIN/list\"\nresult = \"/d\"\npages = { next = \"/next\" }";
    assert_eq!(page_items(&pages(false), by_url), all);
    let by_token = "url = \"ORIGIN/list\"\nresult = \"/d\"\n\
                    pages = { next = \"/t\", parameter = \"page\" }";
    assert_eq!(page_items(&pages(false), by_token), all);
}

#[test]
fn pages_are_bounded() {
    let server = pages(false);
    let two = "url = \"ORIGIN/list\"\nresult = \"/d\"\npages = { next = \"/next\", max = 2 }";
    assert_eq!(page_items(&server, two), json!({ "items": [2, 3, 4, 5], "complete": false }));
    assert_eq!(server.received().len(), 2);
    let declaration = "url = \"ORIGIN/list\"\nresult = \"/d\"\npages = { next = \"/next\" }";
    let value = call_within(&tool(&server, declaration), &json!({}), 100).unwrap();
    assert_eq!(value, Output::Json(json!({ "items": [2, 3, 4, 5], "complete": false })));
}

#[test]
fn next_page_at_another_origin_is_refused() {
    let server = TestServer::always(Reply::json("{\"next\":\"http://b.example/2\",\"d\":[]}"));
    let declaration = "url = \"ORIGIN/\"\nresult = \"/d\"\npages = { next = \"/next\" }";
    let text = failed(&tool(&server, declaration), &json!({}));
    assert!(text.contains("http://b.example"), "{text}");
}
