//! Requests of generated tools, sent to a server.

use serde_json::{Value, json};

use super::{GeneratedTool, GeneratedTools, call, check, generate, limits};
use crate::declared::call::{Failure, Output};
use crate::declared::http::test_server::{Received, Reply, TestServer};
use crate::declared::http::{HttpClient, HttpTool};
use crate::declared::openapi::{OpenApiDeclaration, read_document};

/// The tools of the operations at `/x/{id}` of a document at the server.
fn tools(server: &TestServer, declaration: &str, path_item: &Value) -> GeneratedTools {
    let scheme = |value: Value| value;
    let document = json!({
        "openapi": "3.0.3",
        "servers": [{ "url": format!("{}/api/", server.origin()) }],
        "security": [{ "key": [] }, {}],
        "paths": { "/x/{id}": path_item },
        "components": { "securitySchemes": {
            "key": scheme(json!({ "type": "apiKey", "in": "header", "name": "X-Key" })),
            "query": { "type": "apiKey", "in": "query", "name": "api_key" },
            "cookie": { "type": "apiKey", "in": "cookie", "name": "sid" },
            "bearer": { "type": "http", "scheme": "Bearer" },
            "basic": { "type": "http", "scheme": "basic" },
            "oauth": { "type": "oauth2", "flows": {} },
            "digest": { "type": "http", "scheme": "digest" },
        }},
    });
    let declaration = format!("private_addresses = [\"127.0.0.1\"]\n{declaration}");
    let generated = generate(&declaration, &document).unwrap();
    generated.tools.iter().for_each(check);
    generated
}

fn server() -> TestServer {
    TestServer::always(Reply::json("{\"ok\":true}"))
}

/// The request that a call of the operation `POST /x/{id}` sends.
fn request(declaration: &str, operation: &Value, arguments: &Value) -> Received {
    let server = server();
    let generated = tools(&server, declaration, &json!({ "post": operation }));
    call(&generated.tools[0], arguments).unwrap();
    server.request()
}

fn parameter(place: &str, name: &str, more: &Value) -> Value {
    let mut parameter = json!({ "in": place, "name": name, "schema": {} });
    let members = parameter.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    parameter
}

fn body(mime_type: &str, content: &Value) -> Value {
    json!({ "requestBody": { "required": true, "content": { mime_type: content } } })
}

#[test]
fn parameters_have_their_styles() {
    let operation = json!({ "parameters": [
        parameter("path", "id", &json!({ "required": true, "style": "matrix", "explode": true })),
        parameter("query", "form", &json!({})),
        parameter("query", "joined", &json!({ "explode": false })),
        parameter("query", "pipe", &json!({ "style": "pipeDelimited" })),
        parameter("query", "deep", &json!({ "style": "deepObject" })),
        parameter("query", "raw", &json!({ "allowReserved": true })),
        parameter("query", "json", &json!({ "content": { "application/json": { "schema": {} } } })),
        parameter("query", "absent", &json!({})),
        parameter("header", "X-List", &json!({})),
        parameter("cookie", "c", &json!({})),
    ]});
    let request = request(
        "",
        &operation,
        &json!({
            "id": ["a/b", "c"], "form": [1, 2], "joined": [1, 2], "pipe": ["a", "b"],
            "deep": { "k": { "l": 1 }, "m": ["x"] }, "raw": "a/b?c&d", "json": { "a": [1] },
            "X-List": ["u", "v"], "c": "x; y=1",
        }),
    );
    let path = "/api/x/;id=a%2Fb;id=c";
    let query = "?form=1&form=2&joined=1,2&pipe=a%7Cb&deep%5Bk%5D%5Bl%5D=1&deep%5Bm%5D%5B%5D=x\
                 &raw=a/b?c%26d&json=%7B%22a%22%3A%5B1%5D%7D";
    assert_eq!(request.target(), format!("{path}{query}"));
    assert_eq!(request.header("x-list"), Some("u,v"));
    assert_eq!(request.header("cookie"), Some("c=x%3B%20y%3D1"));
}

#[test]
fn json_body_has_names_of_the_document() {
    let schema = json!({ "type": "object", "required": ["id"], "properties": {
        "id": { "type": "string" }, "n": { "type": "integer", "nullable": true }, "gone": {},
    }});
    let operation = body("application/json", &json!({ "schema": schema }));
    let request = request("", &operation, &json!({ "id": "p", "id_body": "b", "n": null }));
    assert_eq!(request.target(), "/api/x/p");
    assert_eq!(request.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body, json!({ "id": "b", "n": null }));
}

#[test]
fn optional_body_is_left_out() {
    let schema = json!({ "type": "object", "properties": { "a": {} } });
    let content = json!({ "application/merge-patch+json": { "schema": schema } });
    let operation = json!({ "requestBody": { "content": content } });
    let without = request("", &operation, &json!({ "id": "p" }));
    assert_eq!(without.header("content-type"), None);
    let with = request("", &operation, &json!({ "id": "p", "a": 1 }));
    assert_eq!(with.header("content-type"), Some("application/merge-patch+json"));
    assert_eq!(with.body, "{\"a\":1}");
}

#[test]
fn form_body_has_fields() {
    let schema = json!({ "type": "object", "properties": {
        "name": {}, "tags": { "type": "array", "items": {} }, "address": { "type": "object" },
        "meta": { "type": "object" },
    }});
    let encoding = json!({ "address": { "style": "deepObject", "explode": true } });
    let content = json!({ "schema": schema, "encoding": encoding });
    let operation = body("application/x-www-form-urlencoded", &content);
    let request = request(
        "",
        &operation,
        &json!({
            "id": "p", "name": "a&b c", "tags": ["x", "y"], "address": { "city": "K" },
            "meta": { "n": 1 },
        }),
    );
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    let expected = "name=a%26b+c&tags=x&tags=y&address%5Bcity%5D=K&meta=%7B%22n%22%3A1%7D";
    assert_eq!(request.body, expected);
}

#[test]
fn multipart_body_has_files_in_base64() {
    let schema = json!({ "type": "object", "required": ["file"], "properties": {
        "file": { "type": "string", "format": "binary", "description": "Picture." },
        "more": { "type": "array", "items": { "type": "string", "format": "binary" } },
        "note": { "type": "string" },
        "meta": { "type": "object" },
    }});
    let encoding = json!({ "file": { "contentType": "image/png, image/jpeg" } });
    let content = json!({ "schema": schema, "encoding": encoding });
    let server = server();
    let item = json!({ "post": body("multipart/form-data", &content) });
    let tool = &tools(&server, "", &item).tools[0];
    let file = &tool.input_schema["properties"]["file"];
    assert_eq!(file["contentEncoding"], "base64");
    assert_eq!(file["description"], "Picture. Content in base64.");
    let arguments = json!({
        "id": "p", "file": "aGk=", "more": ["YQ==", "Yg"], "note": "n", "meta": { "k": 1 },
    });
    call(tool, &arguments).unwrap();
    let text = server.request().body;
    let file = "name=\"file\"; filename=\"file\"\r\nContent-Type: image/png\r\n\r\nhi\r\n";
    assert!(text.contains(file), "{text}");
    assert_eq!(text.matches("name=\"more\"; filename=\"more\"").count(), 2, "{text}");
    assert!(text.contains("name=\"note\"\r\n\r\nn\r\n"), "{text}");
    assert!(text.contains("name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"k\":1}"));
    let failure = call(tool, &json!({ "id": "p", "file": "*" })).unwrap_err();
    assert!(matches!(failure, Failure::InvalidArgument(text) if text.contains("`file`")));
}

#[test]
fn other_bodies_are_text_or_base64() {
    let text = request("", &body("text/csv", &json!({})), &json!({ "id": "p", "body": "a,b" }));
    assert_eq!((text.header("content-type"), text.body.as_str()), (Some("text/csv"), "a,b"));
    let bytes = body("application/zip", &json!({ "schema": { "format": "binary" } }));
    let bytes = request("", &bytes, &json!({ "id": "p", "body": "UEs=" }));
    assert_eq!(
        (bytes.header("content-type"), bytes.body.as_str()),
        (Some("application/zip"), "PK")
    );
}

#[test]
fn credentials_stand_in_their_places() {
    let send = |scheme: &str, value: &str| {
        let operation = json!({ "security": [{ scheme: [] }] });
        let declaration = format!("security = {{ {scheme} = {value} }}");
        request(&declaration, &operation, &json!({ "id": "p" }))
    };
    assert_eq!(send("key", "\"k1\"").header("x-key"), Some("k1"));
    assert_eq!(send("query", "\"k&2\"").target(), "/api/x/p?api_key=k%262");
    assert_eq!(send("cookie", "\"k3\"").header("cookie"), Some("sid=k3"));
    assert_eq!(send("bearer", "\"t1\"").header("authorization"), Some("Bearer t1"));
    assert_eq!(send("oauth", "\"t2\"").header("authorization"), Some("Bearer t2"));
    let basic = Some("Basic dTpw");
    assert_eq!(send("basic", "\"u:p\"").header("authorization"), basic);
    let table = "{ username = \"u\", password = \"p\" }";
    assert_eq!(send("basic", table).header("authorization"), basic);
    let all = json!({ "security": [{ "bearer": [], "key": [] }, { "basic": [] }] });
    let declaration = "security = { key = \"k\", bearer = \"t\" }\nheaders = { X-More = \"m\" }";
    let request = request(declaration, &all, &json!({ "id": "p" }));
    assert_eq!(request.header("authorization"), Some("Bearer t"));
    assert_eq!((request.header("x-key"), request.header("x-more")), (Some("k"), Some("m")));
}

#[test]
fn declared_values_are_no_arguments() {
    let server = server();
    let item = json!({ "get": {
        "security": [{ "key": [], "query": [], "cookie": [] }],
        "parameters": [
            parameter("header", "x-key", &json!({ "required": true })),
            parameter("header", "X-Tenant", &json!({ "required": true })),
            parameter("header", "X-User", &json!({})),
            parameter("query", "api_key", &json!({})),
            parameter("cookie", "sid", &json!({})),
        ],
    }});
    let declaration = "security = { key = \"k\", query = \"q\", cookie = \"c\" }\n\
                       headers = { X-Tenant = \"t\", X-User = \"{principal}\" }";
    let generated = tools(&server, declaration, &item);
    let tool = &generated.tools[0];
    let names: Vec<&String> = tool.input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id"]);
    let forged = json!({ "id": "p", "X-Tenant": "o", "x-key": "o", "api_key": "o", "X-User": "o" });
    call(tool, &forged).unwrap();
    let request = server.request();
    assert_eq!(request.target(), "/api/x/p?api_key=q");
    assert_eq!((request.header("x-key"), request.header("x-tenant")), (Some("k"), Some("t")));
    assert_eq!((request.header("cookie"), request.header("x-user")), (Some("sid=c"), None));
}

#[test]
fn operation_without_credentials_is_skipped() {
    let server = server();
    let item = json!({
        "get": {},
        "put": { "security": [{ "bearer": [] }, { "key": [], "basic": [] }] },
    });
    let generated = tools(&server, "", &item);
    assert_eq!(generated.tools.len(), 1);
    let reason = &generated.skipped[0].reason;
    assert!(reason.contains("security scheme bearer, or key and basic; add it"), "{reason}");
    assert_eq!(tools(&server, "anonymous = true", &item).tools.len(), 2);
}

#[test]
fn unexpected_response_is_a_failure() {
    let page = Reply::new("200 OK", "Content-Type: text/html", "<title>Sign in</title>");
    let server = TestServer::always(page);
    let schema = json!({ "type": "object" });
    let content = json!({ "application/vnd.x+json": { "schema": schema }, "text/plain": {} });
    let item = json!({ "get": { "responses": { "200": { "content": content } } } });
    let tool = &tools(&server, "", &item).tools[0];
    let failure = call(tool, &json!({ "id": "p" })).unwrap_err().to_string();
    assert!(failure.contains("text/html where JSON is expected: Sign in"), "{failure}");
    let accept = server.request().header("accept").map(str::to_owned);
    assert_eq!(accept.as_deref(), Some("application/vnd.x+json, text/plain, */*;q=0.1"));
}

#[test]
fn path_arguments_stay_in_their_segments() {
    let server = server();
    let generated = tools(&server, "", &json!({ "get": {} }));
    let tool: &GeneratedTool = &generated.tools[0];
    for value in ["..", "../admin", "a/../../b", "", "."] {
        let failure = call(tool, &json!({ "id": value })).unwrap_err();
        assert!(matches!(failure, Failure::InvalidArgument(_)), "{value}: {failure}");
    }
    call(tool, &json!({ "id": "a/b?c#d\r\n" })).unwrap();
    assert_eq!(server.request().target(), "/api/x/a%2Fb%3Fc%23d%0D%0A");
    assert!(server.received().is_empty());
}

#[test]
fn document_is_fetched_from_url() {
    let document = json!({ "openapi": "3.1.0", "servers": [{ "url": "/v1" }], "paths": {
        "/x?beta=true#more": { "get": {} },
    }});
    let server = TestServer::start(move |_, target| match target {
        "/docs/openapi.json" => Reply::json(&document.to_string()),
        "/v1/x?beta=true" => Reply::json("7"),
        _ => Reply::new("404 Not Found", "", "gone"),
    });
    let declaration = |path: &str| OpenApiDeclaration {
        document: format!("{}{path}", server.origin()),
        private_addresses: vec!["127.0.0.1".to_owned()],
        ..OpenApiDeclaration::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut client = HttpClient::new();
    let folder = std::path::Path::new("/");
    let mut read = |declaration: &OpenApiDeclaration| {
        runtime.block_on(read_document(declaration, folder, &mut client))
    };
    let found = declaration("/docs/openapi.json");
    let bytes = read(&found).unwrap();
    let generated = super::generate_from(&found, &bytes).unwrap();
    assert_eq!(call(&generated.tools[0], &json!({})), Ok(Output::Json(json!(7))));
    let missing = read(&declaration("/nothing")).unwrap_err();
    assert!(missing.message.contains("404 Not Found: gone"), "{missing}");
    let private = OpenApiDeclaration { private_addresses: Vec::new(), ..found };
    assert!(read(&private).unwrap_err().message.contains("private_addresses"));
}

#[test]
fn tools_are_sent_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<HttpTool>();
    check::<GeneratedTools>();
    assert!(limits().output_bytes_max > 0);
}
