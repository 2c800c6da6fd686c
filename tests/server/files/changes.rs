//! Tests of file changes: updates of the catalog, notifications of subscribers, logged faults.
//!
//! Every wait is bounded, and ends with an event of the kernel.

use std::cell::RefCell;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use corelane::files::{Files, Prompts};
use corelane::internal::{CatalogUpdate, FileFault, FileWatch, Publisher};
use corelane::{Catalog, CatalogError, Features, Prompt};
use crossbeam::channel::{Receiver, Sender, unbounded};
use serde_json::json;

use crate::files::fixtures::{directory, empty_catalog, names, prompt, read, uri, write};

/// A call that the publisher received.
#[derive(Debug)]
enum PublisherCall {
    CatalogUpdated(Box<Catalog>),
    ResourceUpdated(String),
    FaultLogged(String),
}

/// Publisher that records its calls.
struct Recorder {
    catalog: RefCell<Catalog>,
    calls: Sender<PublisherCall>,
}

impl Publisher for Recorder {
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError> {
        let next = edit(self.catalog.borrow().to_builder()).build()?;
        self.calls.send(PublisherCall::CatalogUpdated(Box::new(next.to_builder().build()?))).ok();
        self.catalog.replace(next);
        Ok(())
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.calls.send(PublisherCall::ResourceUpdated(uri.to_owned())).ok();
    }

    fn log_fault(&self, fault: &FileFault) {
        self.calls.send(PublisherCall::FaultLogged(fault.to_string())).ok();
    }
}

/// A watch, its current catalog, and the calls it made.
struct WatchedFiles {
    catalog: Catalog,
    calls: Receiver<PublisherCall>,
    _watch: FileWatch,
}

impl WatchedFiles {
    fn open(mut files: Files) -> Self {
        let (sender, calls) = unbounded();
        let catalog = files.add_to_catalog(&empty_catalog()).expect("files can be offered");
        let initial = catalog.to_builder().build().expect("a copy of the catalog");
        let recorder = Recorder { catalog: RefCell::new(initial), calls: sender };
        let watch = files.watch(recorder).expect("a thread can be started");
        Self { catalog, calls, _watch: watch.expect("there is something to watch") }
    }

    fn resources(root: &Path) -> Self {
        Self::open(Files::new().resources(directory(root)))
    }

    fn prompts(root: &Path) -> Self {
        Self::open(Files::new().prompts(Prompts::new(root).expect("the root exists")))
    }

    /// Waits for a call for which `look` returns a value.
    fn wait<T>(&mut self, mut look: impl FnMut(&PublisherCall) -> Option<T>) -> T {
        loop {
            let call = self.calls.recv_timeout(Duration::from_secs(20)).expect("no call in 20 s");
            let found = look(&call);
            if let PublisherCall::CatalogUpdated(catalog) = call {
                self.catalog = *catalog;
            }
            if let Some(found) = found {
                return found;
            }
        }
    }

    fn wait_for_catalog(&mut self, is_expected: impl Fn(&Catalog) -> bool) {
        self.wait(|call| {
            matches!(call, PublisherCall::CatalogUpdated(catalog) if is_expected(catalog))
                .then_some(())
        });
    }

    fn wait_for_update(&mut self, uri: &str) {
        self.wait(|call| {
            matches!(call, PublisherCall::ResourceUpdated(it) if it == uri).then_some(())
        });
    }

    fn wait_for_warning(&mut self) -> String {
        self.wait(|call| match call {
            PublisherCall::FaultLogged(fault) => Some(fault.clone()),
            _ => None,
        })
    }
}

#[test]
fn added_and_removed_files_change_the_catalog() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = WatchedFiles::resources(root.path());
    assert_eq!(names(&scene.catalog), ["a.txt"]);
    write(root.path(), "b.txt", "b");
    scene.wait_for_catalog(|catalog| names(catalog) == ["a.txt", "b.txt"]);
    assert_eq!(read(&scene.catalog, &uri(&scene.catalog, "b.txt")).unwrap()["text"], "b");
    std::fs::rename(root.path().join("a.txt"), root.path().join("c.txt")).unwrap();
    scene.wait_for_catalog(|catalog| names(catalog) == ["b.txt", "c.txt"]);
    std::fs::remove_file(root.path().join("b.txt")).unwrap();
    scene.wait_for_catalog(|catalog| names(catalog) == ["c.txt"]);
}

#[test]
fn new_folders_are_watched_with_their_files() {
    let root = tempfile::tempdir().unwrap();
    let mut scene = WatchedFiles::resources(root.path());
    write(root.path(), "deep/er/a.txt", "a");
    scene.wait_for_catalog(|catalog| names(catalog) == ["deep/er/a.txt"]);
    write(root.path(), "deep/er/b.txt", "b");
    scene.wait_for_catalog(|catalog| names(catalog).len() == 2);
    std::fs::rename(root.path().join("deep"), root.path().join("other")).unwrap();
    scene.wait_for_catalog(|catalog| names(catalog) == ["other/er/a.txt", "other/er/b.txt"]);
    write(root.path(), "other/er/c.txt", "c");
    scene.wait_for_catalog(|catalog| names(catalog).len() == 3);
    std::fs::remove_dir_all(root.path().join("other")).unwrap();
    scene.wait_for_catalog(|catalog| names(catalog).is_empty());
    write(root.path(), "other/d.txt", "d");
    scene.wait_for_catalog(|catalog| names(catalog) == ["other/d.txt"]);
}

#[test]
fn written_file_notifies_and_updates_listed_size() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = WatchedFiles::resources(root.path());
    let a = uri(&scene.catalog, "a.txt");
    write(root.path(), "a.txt", "aa");
    scene.wait_for_update(&a);
    assert_eq!(read(&scene.catalog, &a).unwrap()["text"], "aa");
    // As careful programs write: to a temporary file, then renamed.
    write(root.path(), ".a.txt.new", "aaa");
    std::fs::rename(root.path().join(".a.txt.new"), root.path().join("a.txt")).unwrap();
    scene.wait_for_update(&a);
    // The next change of names includes new sizes.
    write(root.path(), "b.txt", "b");
    scene.wait_for_catalog(|catalog| names(catalog).len() == 2);
    let list =
        crate::files::fixtures::list(&scene.catalog, corelane_protocol::revision::Revision::LATEST);
    let listed = list["resources"].as_array().unwrap();
    let size = &listed.iter().find(|it| it["name"] == "a.txt").unwrap()["size"];
    assert_eq!(*size, 3);
}

#[test]
fn removed_file_notifies_its_subscribers() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = WatchedFiles::resources(root.path());
    let a = uri(&scene.catalog, "a.txt");
    std::fs::remove_file(root.path().join("a.txt")).unwrap();
    scene.wait_for_update(&a);
    assert_eq!(read(&scene.catalog, &a).unwrap_err().code, -32002);
}

#[test]
fn prompts_follow_files_and_faults_are_logged_once() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "One.");
    let mut scene = WatchedFiles::prompts(root.path());
    assert_eq!(prompt(&scene.catalog, "a", &json!({})).unwrap(), "One.");
    let has_text = |text: &'static str| {
        move |catalog: &Catalog| prompt(catalog, "a", &json!({})).is_ok_and(|it| it == text)
    };
    write(root.path(), "a.md", "Two.");
    scene.wait_for_catalog(has_text("Two."));
    for _ in 0..2 {
        write(root.path(), "a.md", "\n{{broken");
        let fault = scene.wait_for_warning();
        assert!(fault.ends_with("write {{name}} for an argument, {{{{ for two braces"), "{fault}");
        assert!(fault.contains("a.md:2: "), "{fault}");
        write(root.path(), "a.md", "Three.");
        scene.wait_for_catalog(has_text("Three."));
    }
    write(root.path(), "b.md", "+++\nname = \"a\"\n+++\nAnother a.");
    assert!(scene.wait_for_warning().contains("b.md: the prompt name a is used by a.md; "));
    std::fs::remove_file(root.path().join("a.md")).unwrap();
    scene.wait_for_catalog(has_text("Another a."));
    assert_eq!(scene.catalog.prompts().map(Prompt::name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn moved_root_is_logged_as_unreadable() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    write(&root, "a.txt", "a");
    let mut scene = WatchedFiles::resources(&root);
    std::fs::rename(&root, directory.path().join("elsewhere")).unwrap();
    let fault = scene.wait(|call| match call {
        PublisherCall::FaultLogged(fault) => Some(fault.clone()),
        _ => None,
    });
    assert!(fault.contains("root: cannot be read ("), "{fault}");
}

/// Creates folders with the file `v`, and the link `current` to the first one.
fn releases(base: &Path) -> std::path::PathBuf {
    for (release, file) in [("41", "a.md"), ("42", "b.md"), ("43", "c.md")] {
        write(base, &format!("releases/{release}/{file}"), release);
        write(base, &format!("releases/{release}/sub/same.md"), release);
    }
    symlink("releases/41", base.join("current")).expect("a link");
    base.join("current")
}

/// Lets the link lead to another folder, in one step.
fn switch_link(link: &Path, target: &str) {
    let next = link.with_extension("next");
    symlink(target, &next).expect("a link");
    std::fs::rename(next, link).expect("a renamed link");
}

#[test]
fn switched_link_to_resources_is_followed() {
    let base = tempfile::tempdir().unwrap();
    let current = releases(base.path());
    let mut scene = WatchedFiles::resources(&current);
    let uri = uri(&scene.catalog, "sub/same.md");
    assert!(uri.ends_with("/current/sub/same.md"), "{uri}");
    for (release, file) in [("42", "b.md"), ("43", "c.md")] {
        switch_link(&current, &format!("releases/{release}"));
        scene.wait_for_catalog(|catalog| names(catalog) == [file, "sub/same.md"]);
        assert_eq!(read(&scene.catalog, &uri).unwrap()["text"], release);
        // What is watched are the folders behind the link.
        let added = format!("releases/{release}/sub/new-{release}.md");
        write(base.path(), &added, "new");
        scene.wait_for_catalog(|catalog| names(catalog).len() == 3);
    }
}

#[test]
fn switched_link_to_prompts_is_followed() {
    let base = tempfile::tempdir().unwrap();
    let current = releases(base.path());
    let mut scene = WatchedFiles::prompts(&current);
    let names = |catalog: &Catalog| -> Vec<String> {
        catalog.prompts().map(|prompt| prompt.name().to_owned()).collect()
    };
    switch_link(&current, "releases/42");
    scene.wait_for_catalog(|catalog| names(catalog) == ["b"]);
    write(base.path(), "releases/42/d.md", "new");
    scene.wait_for_catalog(|catalog| names(catalog) == ["b", "d"]);
}

#[test]
fn unreadable_entries_are_named_others_stay() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "a");
    write(root.path(), "closed/b.md", "b");
    symlink("missing", root.path().join("gone.md")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    symlink("closed", root.path().join("folder")).unwrap();
    let closed = root.path().join("closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let is_denied = std::fs::read_dir(&closed).is_err();
    let prompts = Prompts::new(root.path()).unwrap();
    let mut files = Files::new().resources(directory(root.path())).prompts(prompts);
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    let faults: Vec<String> = files.faults().map(str::to_owned).collect();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut expected = vec![
        "gone.md: cannot be read (the link leads to nothing that is offered); it is not offered",
        "loop: cannot be read (the link leads out of the directory, or in a circle); it is not",
    ];
    // Modes do not deny root.
    if is_denied {
        expected.insert(0, "closed: cannot be read (Permission denied");
    }
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(&format!("/{expected}")), "{fault}");
    }
    let listed: &[&str] = if is_denied { &["a.md"] } else { &["a.md", "closed/b.md"] };
    assert_eq!(names(&catalog), listed);
    assert_eq!(catalog.prompts().map(Prompt::name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn entry_that_becomes_unreadable_is_logged() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "a");
    symlink("a.md", root.path().join("b.md")).unwrap();
    let mut scene = WatchedFiles::resources(root.path());
    assert_eq!(names(&scene.catalog), ["a.md", "b.md"]);
    std::fs::rename(root.path().join("a.md"), root.path().join("c.md")).unwrap();
    let fault = scene.wait_for_warning();
    assert!(fault.contains("/b.md: cannot be read (the link leads to nothing"), "{fault}");
    assert_eq!(names(&scene.catalog), ["c.md"]);
}

#[test]
fn unwatched_files_start_no_thread() {
    let root = tempfile::tempdir().unwrap();
    let mut files = Files::new().resources(directory(root.path())).without_watch();
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    assert!(
        catalog.has_features(Features::RESOURCES) && !catalog.has_features(Features::SUBSCRIPTIONS)
    );
    let (sender, _heard) = unbounded();
    let recorder = Recorder { catalog: RefCell::new(catalog), calls: sender };
    assert!(files.watch(recorder).unwrap().is_none());
}
