//! Every way out of a root leads to the same answer: there is no such resource.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use corelane::Catalog;
use corelane::protocol::revision::Revision;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::stage::{catalog, names, read, read_in, uri, write};

/// `root/a.txt` beside `secret.txt`; returns the catalog of `root` and its URI.
fn landscape(directory: &Path) -> (Catalog, String) {
    write(directory, "root/a.txt", "a");
    write(directory, "root/sub/b.txt", "b");
    write(directory, "secret.txt", "secret");
    let catalog = catalog(&directory.join("root"));
    let base = uri(&catalog, "a.txt");
    let base = base.strip_suffix("a.txt").expect("it ends with the name").to_owned();
    (catalog, base)
}

#[test]
fn no_spelling_of_a_uri_leads_out_of_the_root() {
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = landscape(directory.path());
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
            let told = format!("{} {}", error.message, error.data.unwrap_or_default());
            assert!(!told.contains("directory") && !told.contains("permission"), "{uri}: {told}");
        }
    }
    assert_eq!(read(&catalog, &format!("{base}sub/b.txt")).unwrap()["text"], "b");
    assert_eq!(read(&catalog, &format!("{base}%61.txt")).unwrap()["text"], "a");
}

#[test]
fn a_file_that_is_there_and_one_that_is_not_look_the_same_from_outside() {
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = landscape(directory.path());
    symlink("../secret.txt", directory.path().join("root/out")).unwrap();
    symlink("../missing.txt", directory.path().join("root/gone")).unwrap();
    let told = |name: &str| {
        let error = read(&catalog, &format!("{base}{name}")).unwrap_err();
        (error.code, error.message, error.data.unwrap().replace(name, "NAME"))
    };
    let missing = told("missing");
    assert_eq!(told("out"), missing);
    assert_eq!(told("gone"), missing);
    assert_eq!(told("sub"), missing);
}

#[test]
fn links_within_the_root_are_followed_and_links_out_are_not() {
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
fn a_link_that_is_swapped_in_while_files_are_read_never_leads_out() {
    const READS: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let (catalog, base) = landscape(directory.path());
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
fn a_pipe_a_device_and_a_socket_are_not_listed_and_do_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "a.txt", "a");
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(root.join("door")).unwrap();
    // Only a privileged process may make one; the others are enough then.
    let zero = rustix::fs::makedev(1, 5);
    mknodat(CWD, root.join("zero"), FileType::CharacterDevice, Mode::RWXU, zero).ok();
    let catalog = catalog(root);
    assert_eq!(names(&catalog), ["a.txt"]);
    let base = uri(&catalog, "a.txt");
    let base = base.strip_suffix("a.txt").unwrap();
    for name in ["pipe", "door", "zero"] {
        let error = read(&catalog, &format!("{base}{name}")).unwrap_err();
        assert_eq!(error.code, -32002, "{name}");
    }
}
