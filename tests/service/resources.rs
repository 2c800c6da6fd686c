//! Resources are listed and read, under their URIs and under templates.

use corelane::protocol::message::{
    CacheHint, ContentAnnotations, ResourceContent, Role, ServerInfo,
};
use corelane::protocol::revision::Revision;
use corelane::service::{
    Catalog, CatalogBuilder, CatalogError, HandlerError, Icon, Live, Resource, ResourceContents,
    ResourceTemplate, Worker,
};
use serde_json::{Value, json};

use crate::stage::{listed, read};

fn builder() -> CatalogBuilder {
    Catalog::builder(ServerInfo::new("test", "1"))
}

fn full() -> Resource {
    Resource::new("test://full", "full")
        .title("Full")
        .describe("Tells everything.")
        .mime_type("text/plain")
        .size(5)
        .annotations(ContentAnnotations {
            audience: vec![Role::User],
            priority: Some(0.5),
            last_modified_ms: Some(1_785_196_800_000),
        })
        .icon(Icon::new("https://example.com/icon.png"))
        .meta("example.com/color", "blue")
        .cache(CacheHint { fresh_ms: 7, shared: true })
        .text("Hello")
}

fn user() -> ResourceTemplate {
    ResourceTemplate::new("test://users/{id}/name", "user").mime_type("text/plain").inline(
        |read, contents| {
            let id = read.variable("id").unwrap_or_default();
            if id == "nobody" {
                return Ok(());
            }
            contents.text(read.uri(), Some("text/plain"), &format!("user {id}"));
            Ok(())
        },
    )
}

fn read_uri(catalog: &Catalog, revision: Revision, uri: &str) -> Result<Value, i32> {
    let params = json!({ "uri": uri }).to_string();
    read(catalog, revision, &params).map_err(|error| error.code)
}

#[test]
fn a_resource_is_told_in_the_words_of_each_revision() {
    let catalog = builder().resource(full()).template(user()).build().unwrap();
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let page = listed(revision, "resources/list", catalog.resources_page(revision, None));
        let told = &page["resources"][0];
        assert_eq!((told["uri"].as_str(), told["size"].as_u64()), (Some("test://full"), Some(5)));
        assert_eq!(told["annotations"]["audience"], json!(["user"]));
        let dated = told["annotations"].get("lastModified").is_some();
        assert_eq!(dated, dialect.annotations_last_modified);
        assert_eq!(told.get("title").is_some(), dialect.titles);
        assert_eq!(told.get("icons").is_some(), dialect.icons);
        assert_eq!(told.get("_meta").is_some(), dialect.meta_on_types);
        let page = catalog.templates_page(revision, None);
        let page = listed(revision, "resources/templates/list", page);
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
fn what_does_not_change_is_read_as_it_was_given() {
    let blob = Resource::new("test://blob", "blob").blob(vec![0, 255]);
    let catalog = builder().resource(full()).resource(blob).build().unwrap();
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
fn a_template_reads_every_uri_that_it_fits_and_no_other() {
    let catalog = builder().template(user()).build().unwrap();
    let text = |uri| {
        let answer = read_uri(&catalog, Revision::LATEST, uri)?;
        Ok::<_, i32>(answer["contents"][0]["text"].as_str().unwrap().to_owned())
    };
    assert_eq!(text("test://users/7/name"), Ok("user 7".to_owned()));
    assert_eq!(text("test://users/a%20b/name"), Ok("user a b".to_owned()));
    for uri in ["test://users//name", "test://users/1/2/name", "test://users/7", "x", ""] {
        assert_eq!(text(uri), Err(-32602), "{uri}");
    }
    assert_eq!(text("test://users/%zz/name"), Err(-32602), "what does not decode is nobody's");
    assert_eq!(text("test://users/nobody/name"), Err(-32602), "contents are never empty");
}

#[test]
fn a_resource_comes_before_templates_and_templates_in_their_order() {
    let one = |name: &'static str| {
        ResourceTemplate::new("test://{+any}", name).inline(move |read, contents| {
            contents.text(read.uri(), None, name);
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
fn a_resource_that_is_not_there_has_the_code_of_its_revision_and_its_uri() {
    let catalog = builder().resource(full()).build().unwrap();
    for revision in Revision::ALL {
        let error = read(&catalog, revision, r#"{"uri":"test://none"}"#).unwrap_err();
        assert_eq!(error.code, if revision.is_modern() { -32602 } else { -32002 });
        let data: Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["uri"], "test://none");
    }
}

#[test]
fn a_file_uri_reaches_a_handler_only_where_it_is_safe() {
    let files = ResourceTemplate::new("file:///srv/{+path}", "files").inline(|read, contents| {
        contents.text(read.uri(), None, read.path().unwrap_or("none"));
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
fn contents_that_come_later_are_written_as_they_are_held() {
    let local = Resource::new("test://local", "local").local(|read, live: Live| async move {
        live.sleep(std::time::Duration::ZERO).await?;
        let part = ResourceContent::text("test://local/2", "two").with_mime_type("text/plain");
        Ok(ResourceContents::text(read.uri(), "one").and(part))
    });
    let blocking =
        ResourceTemplate::new("test://blocking/{n}", "blocking").blocking(|read, _: Worker| {
            match read.variable("n").as_deref() {
                Some("none") => Err(HandlerError::failed("broken")),
                _ => Ok(ResourceContent::blob(read.uri(), vec![1])),
            }
        });
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
fn what_no_client_could_read_is_refused_by_name() {
    let refused = |builder: CatalogBuilder| match builder.build() {
        Err(CatalogError::Unfit { kind, problem, .. }) => format!("{kind}: {problem}"),
        other => panic!("{other:?}"),
    };
    for uri in ["", "no-scheme", "1:x", "test://white space", "file:///a/../b", "file://host/x"] {
        assert!(refused(builder().resource(Resource::new(uri, "x").text(""))).contains("URI"));
    }
    for template in ["test://plain", "test://{a}{b}", "test://{a", "{a}:x"] {
        let template = ResourceTemplate::new(template, "x").text("");
        assert!(refused(builder().template(template)).contains("its URI template"));
    }
    let completed =
        ResourceTemplate::new("test://{a}", "x").complete("b", |typed| typed.among([""; 0]));
    assert!(refused(builder().template(completed.text(""))).contains("`b`"));
}
