//! Tests of listing and reading files, whole and in ranges.

use corelane::files::Directory;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::files::fixtures::{FILE_PREFIXES, catalog, catalog_of, list, names, read, uri, write};

#[test]
fn file_is_listed_with_type_size_and_time() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "notes/a b.md", "# A");
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_785_231_000_125);
    let file = std::fs::File::options().write(true).open(root.path().join("notes/a b.md")).unwrap();
    file.set_modified(modified).unwrap();
    let catalog = catalog(root.path());
    for revision in Revision::ALL {
        let list = list(&catalog, revision);
        let resource = &list["resources"][0];
        let folder = root.path().canonicalize().unwrap();
        let uri = format!("file://{}/notes/a%20b.md", folder.display());
        assert_eq!(resource["uri"], json!(uri));
        assert_eq!(resource["name"], "notes/a b.md");
        assert_eq!(resource["mimeType"], "text/markdown");
        if revision >= Revision::V2025_06_18 {
            assert_eq!(resource["annotations"]["lastModified"], "2026-07-28T09:30:00.125Z");
        }
        if revision >= Revision::V2025_03_26 {
            assert_eq!(resource["size"], 3, "{revision:?}");
        }
    }
}

#[test]
fn text_is_read_as_text_else_as_blob() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "# A€");
    write(root.path(), "plain", "plain");
    write(root.path(), "raw", [0xFF, 0x00]);
    write(root.path(), "b.png", [0x89, b'P']);
    write(root.path(), "empty.txt", "");
    let catalog = catalog(root.path());
    for (name, mime_type, member, content) in [
        ("a.md", "text/markdown", "text", "# A€"),
        ("plain", "text/plain", "text", "plain"),
        ("raw", "application/octet-stream", "blob", "/wA="),
        ("b.png", "image/png", "blob", "iVA="),
        ("empty.txt", "text/plain", "text", ""),
    ] {
        let result = read(&catalog, &uri(&catalog, name)).unwrap();
        assert_eq!(result["mimeType"], mime_type, "{name}");
        assert_eq!(result[member], content, "{name}");
        assert!(result.get("_meta").is_none());
    }
}

#[test]
fn each_form_of_file_uri_reads_file() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "# A");
    let catalog = catalog(root.path());
    let listed = uri(&catalog, "a.md");
    for spelling in FILE_PREFIXES {
        let uri = listed.replacen("file:///", spelling, 1);
        for query in ["", "?offset=0&length=3"] {
            let result = read(&catalog, &format!("{uri}{query}")).unwrap();
            assert_eq!(result["text"], "# A", "{uri}{query}");
        }
    }
}

#[test]
fn file_beyond_limit_is_rejected_with_range_uri() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "long.txt", "0123456789");
    let catalog = catalog_of(Directory::new(root.path()).unwrap().file_bytes_max(4));
    let uri = uri(&catalog, "long.txt");
    let error = read(&catalog, &uri).unwrap_err();
    assert_eq!(error.code, -32602);
    let first = error.message.rsplit(' ').next().unwrap();
    assert_eq!(first, format!("{uri}?offset=0&length=4"));
    let data: Value = serde_json::from_str(error.data.as_deref().unwrap()).unwrap();
    let stated = &data["corelane/range"];
    let mut text = String::new();
    let mut next = first.to_owned();
    loop {
        let part = read(&catalog, &next).unwrap();
        text.push_str(part["text"].as_str().unwrap());
        let range = &part["_meta"]["corelane/range"];
        let end = range["offset"].as_u64().unwrap() + range["length"].as_u64().unwrap();
        assert_eq!((&range["size"], &range["etag"]), (&stated["size"], &stated["etag"]));
        if end == 10 {
            break;
        }
        next = format!("{uri}?offset={end}");
    }
    assert_eq!(text, "0123456789");
    assert_eq!((&stated["offset"], &stated["length"]), (&json!(0), &json!(4)));
}

#[test]
fn range_of_text_ends_between_characters() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "euro.txt", "a€b");
    let catalog = catalog(root.path());
    let uri = uri(&catalog, "euro.txt");
    let part = read(&catalog, &format!("{uri}?length=3")).unwrap();
    assert_eq!(part["text"], "a");
    let range = &part["_meta"]["corelane/range"];
    let etag = range["etag"].as_str().expect("an etag");
    assert_eq!(*range, json!({ "offset": 0, "length": 1, "size": 5, "etag": etag }));
    let part = read(&catalog, &format!("{uri}?offset=1&length=3")).unwrap();
    assert_eq!(part["text"], "€");
    let part = read(&catalog, &format!("{uri}?offset=2&length=9")).unwrap();
    assert_eq!(part["blob"], "gqxi");
    let part = read(&catalog, &format!("{uri}?offset=5")).unwrap();
    assert_eq!(part["text"], "");
}

#[test]
fn invalid_range_is_rejected() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "text");
    let catalog = catalog(root.path());
    let uri = uri(&catalog, "a.txt");
    for query in ["offset=5", "offset=-1", "length=x", "offset=1&offset=1", "part=1"] {
        let error = read(&catalog, &format!("{uri}?{query}")).unwrap_err();
        assert!([-32602, -32002].contains(&error.code), "{query}: {error}");
    }
}

#[test]
fn scan_is_bounded_and_omits_hidden_names() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a", "b/c", "b/d/e", ".hidden", ".git/config", "odd\\name", "line\nbreak"] {
        write(root.path(), path, path);
    }
    let directory = || Directory::new(root.path()).unwrap();
    assert_eq!(names(&catalog_of(directory())), ["a", "b/c", "b/d/e"]);
    assert_eq!(names(&catalog_of(directory().depth_max(1))), ["a"]);
    assert_eq!(names(&catalog_of(directory().depth_max(2))), ["a", "b/c"]);
    let all = names(&catalog_of(directory().hidden(true)));
    assert_eq!(all, [".git/config", ".hidden", "a", "b/c", "b/d/e"]);
    for entries_max in 1..5 {
        assert!(names(&catalog_of(directory().entries_max(entries_max))).len() <= entries_max);
    }
}

#[test]
fn directory_without_uri_is_rejected() {
    let root = tempfile::tempdir().unwrap();
    for name in ["odd\\name", "line\nbreak"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
        assert!(Directory::new(root.path().join(name)).is_err(), "{name:?}");
    }
    assert!(Directory::new(root.path().join("missing")).is_err());
}

#[test]
fn unlisted_file_is_readable_hidden_is_not() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a", "a");
    write(root.path(), "deep/b", "b");
    write(root.path(), ".secret", "secret");
    let catalog = catalog_of(Directory::new(root.path()).unwrap().depth_max(1));
    let base = uri(&catalog, "a");
    let base = base.strip_suffix('a').unwrap();
    assert_eq!(read(&catalog, &format!("{base}deep/b")).unwrap()["text"], "b");
    write(root.path(), "late", "late");
    assert_eq!(read(&catalog, &format!("{base}late")).unwrap()["text"], "late");
    assert_eq!(read(&catalog, &format!("{base}.secret")).unwrap_err().code, -32002);
}
