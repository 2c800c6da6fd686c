//! Tests of file changes: updates of the catalog, notifications of subscribers, logged faults.
//!
//! Every wait is bounded, and ends with an event of the kernel.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use corelane::Catalog;
use corelane::files::{FileFault, FileWatch, Files, Prompts, Publisher};
use corelane::service::{CatalogError, CatalogUpdate, Features, Prompt};
use crossbeam::channel::{Receiver, Sender, unbounded};
use serde_json::json;

use crate::fixtures::{directory, empty_catalog, names, prompt, read, uri, write};

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
        crate::fixtures::list(&scene.catalog, corelane::protocol::revision::Revision::LATEST);
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
