//! Resources and resource templates: lists, reading, matching and errors.

use corelane::model::Icon;
use corelane::{
    BlockingContext, Catalog, CatalogBuilder, CatalogError, HandlerError, ReadResourceResult,
    RequestContext, Resource, ResourceTemplate,
};
use corelane_protocol::model::{Annotations, CacheHint, Implementation, ResourceContents, Role};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::{parse_page, read_resource};

fn builder() -> CatalogBuilder {
    Catalog::builder(Implementation::new("test", "1"))
}

fn full_resource() -> Resource {
    Resource::new("test://full", "full")
        .title("Full")
        .description("Has every member.")
        .mime_type("text/plain")
        .size(5)
        .annotations(Annotations {
            audience: vec![Role::User],
            priority: Some(0.5),
            last_modified_ms: Some(1_785_196_800_000),
        })
        .icon(Icon::new("https://example.com/icon.png"))
        .meta("example.com/color", "blue")
        .cache_hint(CacheHint { ttl_ms: 7, is_public: true })
        .text("Hello")
}

fn user_template() -> ResourceTemplate {
    ResourceTemplate::new("test://users/{id}/name", "user").mime_type("text/plain").inline(
        |ctx, contents, _| {
            let id = ctx.variable("id").unwrap_or_default();
            if id == "missing" {
                return Ok(());
            }
            contents.text(ctx.uri(), Some("text/plain"), &format!("user {id}"));
            Ok(())
        },
    )
}

fn read_uri(catalog: &Catalog, revision: Revision, uri: &str) -> Result<Value, i32> {
    let params = json!({ "uri": uri }).to_string();
    read_resource(catalog, revision, &params).map_err(|error| error.code)
}

#[test]
fn resource_is_found_in_each_spelling() {
    let text = |uri: &'static str| Resource::new(uri, uri).text(uri);
    let echo = ResourceTemplate::new("TEST://Host/{Name}", "t").inline(|read, contents, _| {
        let name = read.variable("Name").unwrap_or_default();
        contents.text(read.uri(), None, &name);
        Ok(())
    });
    let uris = ["FILE:/srv/A", "Docs://Example/a%2fb", "docs://README.md", "docs://readme.md"];
    let catalog = builder().resources(uris.map(text)).template(echo).build().unwrap();
    for (uri, expected) in [
        ("file:///srv/A", "FILE:/srv/A"),
        ("file://localhost/srv/%41", "FILE:/srv/A"),
        ("DOCS://EXAMPLE/a%2Fb", "Docs://Example/a%2fb"),
        ("docs://README.md", "docs://README.md"),
        ("DOCS://readme.md", "docs://readme.md"),
        ("test://HOST/Ada%20B", "Ada B"),
    ] {
        for revision in Revision::ALL {
            let result = read_uri(&catalog, revision, uri).unwrap();
            assert_eq!(result["contents"][0]["text"], expected, "{uri}");
        }
        assert!(catalog.has_resource(uri, Revision::LATEST), "{uri}");
    }
    for uri in ["file:///srv/a", "docs://example/a/b", "docs://example/a%252Fb", "file://h/srv/A"] {
        assert!(!catalog.has_resource(uri, Revision::LATEST), "{uri}");
    }
    assert!(catalog.template("test://host/{Name}").is_some());
    assert!(catalog.template("test://host/{name}").is_none());
}

#[test]
fn resources_list_writes_members_of_each_revision() {
    let catalog = builder().resource(full_resource()).template(user_template()).build().unwrap();
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let page = parse_page(revision, "resources/list", catalog.resources_page(revision, None));
        let resource = &page["resources"][0];
        let (uri, size) = (resource["uri"].as_str(), resource["size"].as_u64());
        assert_eq!((uri, size), (Some("test://full"), Some(5)));
        assert_eq!(resource["annotations"]["audience"], json!(["user"]));
        let dated = resource["annotations"].get("lastModified").is_some();
        assert_eq!(dated, dialect.annotations_last_modified);
        assert_eq!(resource.get("title").is_some(), dialect.titles);
        assert_eq!(resource.get("icons").is_some(), dialect.icons);
        assert_eq!(resource.get("_meta").is_some(), dialect.meta_on_types);
        let page = catalog.templates_page(revision, None);
        let page = parse_page(revision, "resources/templates/list", page);
        assert_eq!(
            page["resourceTemplates"],
            json!([{
                "uriTemplate": "test://users/{id}/name",
                "name": "user",
                "mimeType": "text/plain",
            }])
        );
    }
}

#[test]
fn constant_resource_is_read_with_cache_hint() {
    let blob = Resource::new("test://blob", "blob").blob(vec![0, 255]);
    let catalog = builder().resource(full_resource()).resource(blob).build().unwrap();
    for revision in Revision::ALL {
        let answer = read_uri(&catalog, revision, "test://full").unwrap();
        let content = json!({ "uri": "test://full", "mimeType": "text/plain", "text": "Hello" });
        assert_eq!(answer["contents"], json!([content]));
        let fresh = revision.is_modern().then(|| json!(7));
        assert_eq!(answer.get("ttlMs"), fresh.as_ref());
        let answer = read_uri(&catalog, revision, "test://blob").unwrap();
        assert_eq!(answer["contents"], json!([{ "uri": "test://blob", "blob": "AP8=" }]));
        let scope = revision.is_modern().then(|| json!("private"));
        assert_eq!(answer.get("cacheScope"), scope.as_ref());
    }
}

#[test]
fn template_reads_only_matching_uris() {
    let catalog = builder().template(user_template()).build().unwrap();
    let text = |uri| {
        let answer = read_uri(&catalog, Revision::LATEST, uri)?;
        Ok::<_, i32>(answer["contents"][0]["text"].as_str().unwrap().to_owned())
    };
    assert_eq!(text("test://users/7/name"), Ok("user 7".to_owned()));
    assert_eq!(text("test://users/a%20b/name"), Ok("user a b".to_owned()));
    for uri in ["test://users//name", "test://users/1/2/name", "test://users/7", "x", ""] {
        assert_eq!(text(uri), Err(-32602), "{uri}");
    }
    assert_eq!(text("test://users/%zz/name"), Err(-32602), "a value that does not decode");
    assert_eq!(text("test://users/missing/name"), Err(-32602), "contents must not be empty");
}

#[test]
fn resource_precedes_templates_in_their_order() {
    let one = |name: &'static str| {
        ResourceTemplate::new("test://{+any}", name).inline(move |ctx, contents, _| {
            contents.text(ctx.uri(), None, name);
            Ok(())
        })
    };
    let special = Resource::new("test://special", "special").text("itself");
    let narrow = ResourceTemplate::new("test://{any}", "narrow").text("narrow");
    let catalog = builder().template(narrow).template(one("wide")).resource(special);
    let catalog = catalog.build().unwrap();
    for (uri, text) in [("special", "itself"), ("a", "narrow"), ("a/b", "wide")] {
        let answer = read_uri(&catalog, Revision::LATEST, &format!("test://{uri}")).unwrap();
        assert_eq!(answer["contents"][0]["text"], text);
    }
}

#[test]
fn missing_resource_has_error_code_of_revision() {
    let catalog = builder().resource(full_resource()).build().unwrap();
    for revision in Revision::ALL {
        let error = read_resource(&catalog, revision, r#"{"uri":"test://none"}"#).unwrap_err();
        assert_eq!(error.code, if revision.is_modern() { -32602 } else { -32002 });
        let data: Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["uri"], "test://none");
    }
}

#[test]
fn unsafe_file_uri_never_reaches_handler() {
    let files = ResourceTemplate::new("file:///srv/{+path}", "files").inline(|ctx, contents, _| {
        contents.text(ctx.uri(), None, ctx.path().unwrap_or("none"));
        Ok(())
    });
    let catalog = builder().template(files).build().unwrap();
    let answer = read_uri(&catalog, Revision::LATEST, "file:///srv/a%20b/c").unwrap();
    assert_eq!(answer["contents"][0]["text"], "/srv/a b/c");
    for uri in [
        "file:///srv/../etc/passwd",
        "file:///srv/%2e%2e/etc/passwd",
        "file:///srv/a%2f..%2f..%2fetc/passwd",
        "file:///srv/..%5cetc",
        "file:///srv/a%00.txt",
        "file://elsewhere/srv/a",
    ] {
        for revision in Revision::ALL {
            assert_eq!(read_uri(&catalog, revision, uri), Err(-32602), "{uri}");
        }
    }
}

#[test]
fn local_and_blocking_resources_are_read() {
    let local =
        Resource::new("test://local", "local").local(|read, ctx: RequestContext| async move {
            ctx.sleep(std::time::Duration::ZERO).await?;
            let part = ResourceContents::text("test://local/2", "two").with_mime_type("text/plain");
            Ok(ReadResourceResult::text(read.uri(), "one").with_content(part))
        });
    let blocking = ResourceTemplate::new("test://blocking/{n}", "blocking").blocking(
        |read, _: BlockingContext| match read.variable("n").as_deref() {
            Some("none") => Err(HandlerError::tool("broken")),
            _ => Ok(ResourceContents::blob(read.uri(), vec![1])),
        },
    );
    let catalog = builder().resource(local).template(blocking).build().unwrap();
    for revision in Revision::ALL {
        let answer = read_uri(&catalog, revision, "test://local").unwrap();
        assert_eq!(answer["contents"].as_array().unwrap().len(), 2);
        let answer = read_uri(&catalog, revision, "test://blocking/1").unwrap();
        assert_eq!(answer["contents"][0]["blob"], "AQ==");
        assert_eq!(read_uri(&catalog, revision, "test://blocking/none"), Err(-32603));
    }
}

#[test]
fn invalid_resource_is_rejected_by_name() {
    let rejected = |builder: CatalogBuilder| match builder.build() {
        Err(CatalogError::InvalidEntry { kind, problem, .. }) => format!("{kind}: {problem}"),
        other => panic!("{other:?}"),
    };
    for uri in ["", "no-scheme", "1:x", "test://white space", "file:///a/../b", "file://host/x"] {
        assert!(rejected(builder().resource(Resource::new(uri, "x").text(""))).contains("URI"));
    }
    for template in ["test://plain", "test://{a}{b}", "test://{a", "{a}:x"] {
        let template = ResourceTemplate::new(template, "x").text("");
        assert!(rejected(builder().template(template)).contains("the URI template"));
    }
    let completed =
        ResourceTemplate::new("test://{a}", "x").completer("b", |ctx| ctx.complete_from([""; 0]));
    assert!(rejected(builder().template(completed.text(""))).contains("`b`"));
}
