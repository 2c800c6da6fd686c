//! Tests that paths outside a root are not found, in every spelling.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use corelane::Catalog;
use corelane_protocol::revision::Revision;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::files::fixtures::{catalog, catalog_of, directory, names, read, read_in, uri, write};

/// Creates `root/a.txt` and `secret.txt` beside it; returns the catalog of `root` and its URI.
fn root_beside_secret(directory: &Path) -> (Catalog, String) {
    write(directory, "root/a.txt", "a");
    write(directory, "root/sub/b.txt", "b");
    write(directory, "secret.txt", "secret");
    let catalog = catalog(&directory.join("root"));
    let base = uri(&catalog, "a.txt");
    let base = base.strip_suffix("a.txt").expect("the URI ends with the name").to_owned();
    (catalog, base)
}

#[test]
fn uri_outside_root_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = root_beside_secret(directory.path());
    let secret = directory.path().canonicalize().unwrap().join("secret.txt");
    let secret = secret.display();
    for uri in [
        format!("{base}../secret.txt"),
        format!("{base}sub/../../secret.txt"),
        format!("{base}sub/../a.txt"),
        format!("{base}./a.txt"),
        format!("{base}%2e%2e/secret.txt"),
        format!("{base}%2E./secret.txt"),
        format!("{base}..%2fsecret.txt"),
        format!("{base}..%5csecret.txt"),
        format!("{base}..\\secret.txt"),
        format!("{base}%252e%252e/secret.txt"),
        format!("{base}%252e%252e%252fsecret.txt"),
        format!("{base}%c0%ae%c0%ae/secret.txt"),
        format!("{base}/a.txt"),
        format!("{base}/{secret}"),
        format!("{base}%2f{secret}"),
        format!("{base}a.txt%00"),
        format!("{base}a.txt%00.md"),
        format!("{base}a.txt/"),
        format!("{base}a.txt/b"),
        format!("{base}a.txt%"),
        format!("{base}a.txt#x"),
        format!("{base}sub"),
        format!("{base}missing"),
        format!("{base}?offset=0"),
        format!("{base}../secret.txt?offset=0"),
        base.clone(),
        format!("file://{secret}"),
        format!("file://localhost{secret}"),
        format!("file://elsewhere{secret}"),
        format!("file:{secret}"),
        "file:///proc/self/environ".to_owned(),
        "file:///".to_owned(),
        format!("http://{secret}"),
        secret.to_string(),
        "a.txt".to_owned(),
    ] {
        for revision in Revision::ALL {
            let error = read_in(&catalog, revision, &uri).unwrap_err();
            let not_found = revision.dialect().resource_not_found_code;
            assert!([not_found, -32602].contains(&error.code), "{uri}: {error}");
            let text = format!("{} {}", error.message, error.data.unwrap_or_default());
            assert!(!text.contains("directory") && !text.contains("permission"), "{uri}: {text}");
        }
    }
    assert_eq!(read(&catalog, &format!("{base}sub/b.txt")).unwrap()["text"], "b");
    assert_eq!(read(&catalog, &format!("{base}%61.txt")).unwrap()["text"], "a");
}

#[test]
fn existing_and_missing_outside_files_get_same_error() {
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = root_beside_secret(directory.path());
    symlink("../secret.txt", directory.path().join("root/out")).unwrap();
    symlink("../missing.txt", directory.path().join("root/gone")).unwrap();
    let error_of = |name: &str| {
        let error = read(&catalog, &format!("{base}{name}")).unwrap_err();
        let without_name = |text: &str| text.replace(name, "NAME");
        (error.code, without_name(&error.message), without_name(&error.data.unwrap()))
    };
    let missing = error_of("missing");
    assert_eq!(error_of("out"), missing);
    assert_eq!(error_of("gone"), missing);
    assert_eq!(error_of("sub"), missing);
}

#[test]
fn links_within_root_are_followed_others_not() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    write(&root, "a.txt", "a");
    write(&root, "sub/b.txt", "b");
    write(directory.path(), "outside/secret.txt", "secret");
    for (target, link) in [
        ("a.txt", "inside"),
        ("../a.txt", "sub/up"),
        ("../outside/secret.txt", "out"),
        ("../outside", "folder-out"),
        ("sub", "folder"),
        ("/etc/hostname", "absolute"),
        ("circle", "circle"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let catalog = catalog(&root);
    assert_eq!(names(&catalog), ["a.txt", "inside", "sub/b.txt", "sub/up"]);
    let base = uri(&catalog, "a.txt");
    let base = base.strip_suffix("a.txt").unwrap();
    for (path, text) in
        [("inside", Some("a")), ("sub/up", Some("a")), ("folder/b.txt", Some("b")), ("out", None)]
            .into_iter()
            .chain(["folder-out/secret.txt", "absolute", "circle"].map(|path| (path, None)))
    {
        let read = read(&catalog, &format!("{base}{path}")).ok();
        let found = read.as_ref().and_then(|content| content["text"].as_str());
        assert_eq!(found, text, "{path}");
    }
}

#[test]
fn link_to_hidden_file_is_not_served() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    for path in ["a.txt", ".env", ".git/config", "sub/.key", "..2026/volume.txt"] {
        write(root, path, path);
    }
    for (target, link) in [
        ("a.txt", "plain"),
        (".env", "file"),
        ("./sub/../.env", "winding"),
        ("../.git/config", "sub/folder"),
        (".git", "git"),
        ("file", "twice"),
        ("sub/.key", "key"),
        // As in volumes of Kubernetes.
        ("..2026", "..data"),
        ("..data/volume.txt", "volume.txt"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let without = catalog(root);
    assert_eq!(names(&without), ["a.txt", "plain", "volume.txt"]);
    let with = catalog_of(directory(root).hidden(true));
    let base = uri(&with, "a.txt");
    let base = base.strip_suffix("a.txt").unwrap();
    let text_of = |catalog: &Catalog, path: &str| {
        let content = read(catalog, &format!("{base}{path}")).ok()?;
        content["text"].as_str().map(str::to_owned)
    };
    for (path, text) in [
        ("file", ".env"),
        ("winding", ".env"),
        ("twice", ".env"),
        ("sub/folder", ".git/config"),
        ("git/config", ".git/config"),
        ("key", "sub/.key"),
    ] {
        assert_eq!(text_of(&without, path), None, "{path}");
        assert_eq!(text_of(&with, path).as_deref(), Some(text), "{path}");
    }
    for (path, text) in [("plain", "a.txt"), ("volume.txt", "..2026/volume.txt")] {
        assert_eq!(text_of(&without, path).as_deref(), Some(text), "{path}");
    }
}

#[test]
fn swapped_link_never_leads_out_of_root() {
    const READS: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = root_beside_secret(directory.path());
    let root = directory.path().join("root");
    write(directory.path(), "outside/b.txt", "secret");
    write(&root, "real/b.txt", "b");
    symlink("real", root.join("swapped")).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                for target in ["../outside", "real"] {
                    symlink(target, root.join("fresh")).unwrap();
                    std::fs::rename(root.join("fresh"), root.join("swapped")).unwrap();
                }
            }
        });
        let uri = format!("{base}swapped/b.txt");
        for _ in 0..READS {
            if let Ok(content) = read(&catalog, &uri) {
                assert_eq!(content["text"], "b");
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn pipe_device_and_socket_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "a.txt", "a");
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    // Creating a device requires privileges; the others suffice without them.
    let zero = rustix::fs::makedev(1, 5);
    mknodat(CWD, root.join("zero"), FileType::CharacterDevice, Mode::RWXU, zero).ok();
    let catalog = catalog(root);
    assert_eq!(names(&catalog), ["a.txt"]);
    let base = uri(&catalog, "a.txt");
    let base = base.strip_suffix("a.txt").unwrap();
    for name in ["pipe", "socket", "zero"] {
        let error = read(&catalog, &format!("{base}{name}")).unwrap_err();
        assert_eq!(error.code, -32002, "{name}");
    }
}
