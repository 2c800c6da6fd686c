//! What changes on disk is heard: by the catalog, by subscribers, by the operator.
//!
//! Every wait is for an event of the kernel, bounded, and ends with the event.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use corelane::Catalog;
use corelane::server::files::{Fault, Files, Prompts, Publisher, Watch};
use corelane::service::{CatalogError, Edit, Features, Prompt};
use crossbeam::channel::{Receiver, Sender, unbounded};
use serde_json::json;

use crate::stage::{directory, empty, names, prompt, read, uri, write};

/// What a server would do.
#[derive(Debug)]
enum Heard {
    Catalog(Box<Catalog>),
    Updated(String),
    Warned(String),
}

/// Stands in for the handle of a server.
struct Recorder {
    catalog: RefCell<Catalog>,
    heard: Sender<Heard>,
}

impl Publisher for Recorder {
    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        let next = edit(self.catalog.borrow().edit()).build()?;
        self.heard.send(Heard::Catalog(Box::new(next.edit().build()?))).ok();
        self.catalog.replace(next);
        Ok(())
    }

    fn updated(&self, uri: &str) {
        self.heard.send(Heard::Updated(uri.to_owned())).ok();
    }

    fn warn(&self, fault: &Fault) {
        self.heard.send(Heard::Warned(fault.to_string())).ok();
    }
}

/// A watch, what it began with, and what is heard of it.
struct Scene {
    catalog: Catalog,
    heard: Receiver<Heard>,
    _watch: Watch,
}

impl Scene {
    fn open(mut files: Files) -> Self {
        let (sender, heard) = unbounded();
        let catalog = files.offer(&empty()).expect("files are a catalog");
        let begun = catalog.edit().build().expect("it was a catalog");
        let recorder = Recorder { catalog: RefCell::new(begun), heard: sender };
        let watch = files.watch(recorder).expect("a thread can be started");
        Self { catalog, heard, _watch: watch.expect("there is something to watch") }
    }

    fn resources(root: &Path) -> Self {
        Self::open(Files::new().resources(directory(root)))
    }

    fn prompts(root: &Path) -> Self {
        Self::open(Files::new().prompts(Prompts::new(root).expect("the root is there")))
    }

    /// Waits until something is heard that `look` makes something of.
    fn wait<T>(&mut self, mut look: impl FnMut(&Heard) -> Option<T>) -> T {
        loop {
            let heard = self.heard.recv_timeout(Duration::from_secs(20)).expect("it is heard");
            let found = look(&heard);
            if let Heard::Catalog(catalog) = heard {
                self.catalog = *catalog;
            }
            if let Some(found) = found {
                return found;
            }
        }
    }

    fn wait_for_catalog(&mut self, is_it: impl Fn(&Catalog) -> bool) {
        self.wait(|heard| matches!(heard, Heard::Catalog(catalog) if is_it(catalog)).then_some(()));
    }

    fn wait_for_update(&mut self, uri: &str) {
        self.wait(|heard| matches!(heard, Heard::Updated(it) if it == uri).then_some(()));
    }

    fn wait_for_warning(&mut self) -> String {
        self.wait(|heard| match heard {
            Heard::Warned(fault) => Some(fault.clone()),
            _ => None,
        })
    }
}

#[test]
fn files_that_come_and_go_change_the_catalog() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = Scene::resources(root.path());
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
fn folders_that_come_are_followed_and_so_is_what_comes_into_them() {
    let root = tempfile::tempdir().unwrap();
    let mut scene = Scene::resources(root.path());
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
fn a_file_that_is_written_is_told_and_the_next_list_knows_its_size() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = Scene::resources(root.path());
    let a = uri(&scene.catalog, "a.txt");
    write(root.path(), "a.txt", "aa");
    scene.wait_for_update(&a);
    assert_eq!(read(&scene.catalog, &a).unwrap()["text"], "aa");
    // As careful programs write: beside it, then over it.
    write(root.path(), ".a.txt.new", "aaa");
    std::fs::rename(root.path().join(".a.txt.new"), root.path().join("a.txt")).unwrap();
    scene.wait_for_update(&a);
    // The next change of names brings sizes along.
    write(root.path(), "b.txt", "b");
    scene.wait_for_catalog(|catalog| names(catalog).len() == 2);
    let list = crate::stage::list(&scene.catalog, corelane::protocol::revision::Revision::LATEST);
    let listed = list["resources"].as_array().unwrap();
    let size = &listed.iter().find(|it| it["name"] == "a.txt").unwrap()["size"];
    assert_eq!(*size, 3);
}

#[test]
fn a_file_that_goes_is_told_to_its_subscribers_too() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.txt", "a");
    let mut scene = Scene::resources(root.path());
    let a = uri(&scene.catalog, "a.txt");
    std::fs::remove_file(root.path().join("a.txt")).unwrap();
    scene.wait_for_update(&a);
    assert_eq!(read(&scene.catalog, &a).unwrap_err().code, -32002);
}

#[test]
fn prompts_follow_their_files_and_a_fault_is_told_once_each_time() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "One.");
    let mut scene = Scene::prompts(root.path());
    assert_eq!(prompt(&scene.catalog, "a", &json!({})).unwrap(), "One.");
    let is = |text: &'static str| {
        move |catalog: &Catalog| prompt(catalog, "a", &json!({})).is_ok_and(|it| it == text)
    };
    write(root.path(), "a.md", "Two.");
    scene.wait_for_catalog(is("Two."));
    for _ in 0..2 {
        write(root.path(), "a.md", "\n{{broken");
        let fault = scene.wait_for_warning();
        assert!(fault.ends_with("write {{name}} for an argument, {{{{ for two braces"), "{fault}");
        assert!(fault.contains("a.md:2: "), "{fault}");
        write(root.path(), "a.md", "Three.");
        scene.wait_for_catalog(is("Three."));
    }
    write(root.path(), "b.md", "+++\nname = \"a\"\n+++\nAnother a.");
    assert!(scene.wait_for_warning().contains("b.md: a.md is called a already; "));
    std::fs::remove_file(root.path().join("a.md")).unwrap();
    scene.wait_for_catalog(is("Another a."));
    assert_eq!(scene.catalog.prompts().map(Prompt::name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_root_that_is_lost_is_told_and_nothing_of_it_is_offered() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    write(&root, "a.txt", "a");
    let mut scene = Scene::resources(&root);
    std::fs::rename(&root, directory.path().join("elsewhere")).unwrap();
    let fault = scene.wait(|heard| match heard {
        Heard::Warned(fault) => Some(fault.clone()),
        _ => None,
    });
    assert!(fault.contains("root: cannot be read ("), "{fault}");
}

#[test]
fn files_that_are_not_watched_have_no_thread() {
    let root = tempfile::tempdir().unwrap();
    let mut files = Files::new().resources(directory(root.path())).still();
    let catalog = files.offer(&empty()).unwrap();
    assert!(catalog.has(Features::RESOURCES) && !catalog.has(Features::SUBSCRIPTIONS));
    let (sender, _heard) = unbounded();
    let recorder = Recorder { catalog: RefCell::new(catalog), heard: sender };
    assert!(files.watch(recorder).unwrap().is_none());
}
