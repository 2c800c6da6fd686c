//! Tests of prompts from files: listing, arguments, faults of invalid files.

use corelane::files::{Files, Prompts};
use corelane::{Catalog, Prompt};
use corelane_protocol::model::{Implementation, Role};
use serde_json::{Value, json};

use crate::files::fixtures::{empty_catalog, prompt, write};

#[test]
fn each_markdown_file_is_a_prompt() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "greet.md", "Greet {{who}}{{mark}}");
    write(root.path(), "notes.txt", "not a prompt");
    write(root.path(), "deeper/other.md", "in a folder");
    let full = "+++\nname = \"review\"\ntitle = \"Review\"\ndescription = \"Looks.\"\n\
                [[arguments]]\nname = \"code\"\nrequired = true\n\
                [[arguments]]\nname = \"tone\"\n+++\nReview {{code}} {{tone}}.";
    write(root.path(), "full.md", full);
    let mut files = Files::new().prompts(Prompts::new(root.path()).unwrap());
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    assert_eq!(files.faults().count(), 0);
    let names: Vec<_> = catalog.prompts().map(Prompt::name).collect();
    assert_eq!(names, ["greet", "review"]);
    assert_eq!(catalog.prompt("review").unwrap().description(), Some("Looks."));
    let arguments = json!({ "code": "{{tone}} {{{{", "tone": "kindly" });
    let text = prompt(&catalog, "review", &arguments).unwrap();
    assert_eq!(text, "Review {{tone}} {{{{ kindly.");
    let text = prompt(&catalog, "review", &json!({ "code": "it" })).unwrap();
    assert_eq!(text, "Review it .");
    assert_eq!(prompt(&catalog, "review", &json!({})).unwrap_err().code, -32602);
    assert_eq!(prompt(&catalog, "greet", &json!({ "who": "Ada" })).unwrap_err().code, -32602);
}

#[test]
fn prompt_with_too_long_arguments_is_rejected() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "say.md", "{{x}}".repeat(1000));
    let mut files = Files::new().prompts(Prompts::new(root.path()).unwrap());
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    let filled = |length| prompt(&catalog, "say", &json!({ "x": "x".repeat(length) }));
    assert_eq!(filled(3).unwrap().len(), 3000);
    assert_eq!(filled(1 << 20).unwrap_err().code, -32602);
}

/// A lookup of every placeholder among the arguments would take more than ten minutes.
#[test]
fn placeholders_and_arguments_are_visited_once() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "say.md", "{{x}}".repeat(100_000));
    let mut files = Files::new().prompts(Prompts::new(root.path()).unwrap());
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    let others = (0..200_000).map(|index| (format!("x{index}"), json!("")));
    let arguments = others.chain([("x".to_owned(), json!("ab"))]).collect();
    let text = prompt(&catalog, "say", &Value::Object(arguments)).unwrap();
    assert_eq!(text, "ab".repeat(100_000));
}

#[test]
fn prompt_file_with_many_arguments_is_rejected() {
    let root = tempfile::tempdir().unwrap();
    let body = |count: usize| {
        let placeholders: Vec<_> = (0..count).map(|name| format!("{{{{{name}}}}}\n")).collect();
        placeholders.concat()
    };
    let listed = |count: usize| {
        let arguments = (0..count).map(|name| format!("[[arguments]]\nname = \"{name}\"\n"));
        format!("+++\n{}+++\n", arguments.collect::<Vec<_>>().concat())
    };
    write(root.path(), "a.md", body(1024));
    write(root.path(), "b.md", listed(1024) + &body(1024));
    write(root.path(), "c.md", body(100_000));
    write(root.path(), "d.md", listed(20_000) + &body(20_000));
    let mut files = Files::new().prompts(Prompts::new(root.path()).unwrap());
    let catalog = files.add_to_catalog(&empty_catalog()).unwrap();
    let counts: Vec<_> = catalog.prompts().map(|prompt| prompt.arguments().len()).collect();
    assert_eq!(counts, [1024, 1024]);
    let faults: Vec<_> = files.faults().collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("c.md:1025: the body has more than 1024 arguments; remove"));
    assert!(faults[1].contains("d.md:41027: the body has more than 1024 arguments; remove"));
}

#[test]
fn invalid_prompt_files_are_reported_others_stay() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "Good.");
    write(root.path(), "b.md", "+++\ntitle = 7\n+++\n");
    write(root.path(), "c.md", "line\n{{open");
    write(root.path(), "d.md", [0xFF]);
    write(root.path(), "e.md", "+++\nname = \"a\"\n+++\nA second a.");
    write(root.path(), "f.md", vec![b'x'; (1 << 20) + 1]);
    write(root.path(), "taken.md", "The name is used by the program.");
    let own = Prompt::new("taken").inline(|_, messages, _| {
        messages.text(Role::User, "own");
        Ok(())
    });
    let info = Implementation::new("files", "1.0.0");
    let program = Catalog::builder(info).prompt(own).build().unwrap();
    let mut files = Files::new().prompts(Prompts::new(root.path()).unwrap());
    let catalog = files.add_to_catalog(&program).unwrap();
    assert_eq!(prompt(&catalog, "a", &json!({})).unwrap(), "Good.");
    assert_eq!(prompt(&catalog, "taken", &json!({})).unwrap(), "own");
    assert_eq!(prompt(&catalog, "c", &json!({})).unwrap(), "line\n{{open");
    assert_eq!(catalog.prompts().len(), 3);
    let root = root.path().canonicalize().unwrap();
    let faults: Vec<_> = files
        .faults()
        .map(|fault| fault.strip_prefix(&format!("{}/", root.display())).unwrap())
        .collect();
    for (fault, expected) in faults.iter().zip([
        "b.md:2: invalid type: integer",
        "c.md:2: the {{ has no closing }}; ",
        "d.md: is not UTF-8; save it as UTF-8",
        "e.md: the prompt name a is used by a.md; ",
        "f.md: has 1048577 bytes (limit ",
        "taken.md: the program has a prompt named taken; ",
    ]) {
        assert!(fault.starts_with(expected), "{fault}\n{expected}");
    }
    assert_eq!(faults.len(), 6);
}
