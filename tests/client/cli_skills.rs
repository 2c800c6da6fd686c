//! `corelane serve --skills`, and the client commands that list and read skills.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use corelane_test_support::{ExitResult, ServeProcess, run_program};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::CORELANE;

const SKILL_FILE: &str = "---\nname: pdf\ndescription: Fills PDF forms.\nlicense: MIT\n---\n\
                          Run scripts/fill.py.\n";

fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// A directory with a skill, one that is broken and a link that leads out.
fn skills() -> TempDir {
    let root = tempfile::tempdir().expect("a directory");
    write(root.path(), "office/pdf/SKILL.md", SKILL_FILE);
    write(root.path(), "office/pdf/scripts/fill.py", "print('filled')\n");
    write(root.path(), "office/pdf/logo.png", [0x89, b'P', 0xff]);
    write(root.path(), "broken/SKILL.md", "no front matter");
    symlink("/etc/passwd", root.path().join("office/pdf/passwd")).expect("a link");
    root
}

/// Runs a client command whose target is a server of the skills in `root`.
fn run(root: &TempDir, command: &str, arguments: &[&str]) -> ExitResult {
    let target =
        format!("stdio:{CORELANE} stdio --log error --demo off --skills {}", root.path().display());
    let arguments = [&[command, &target], arguments].concat();
    run_program(CORELANE, arguments)
}

fn output(root: &TempDir, command: &str, arguments: &[&str]) -> String {
    let result = run(root, command, arguments);
    assert_eq!(result.status, 0, "{command} {arguments:?}: {}", result.stderr);
    result.stdout
}

const URI: &str = "skill://office/pdf/SKILL.md";

#[test]
fn skills_are_listed_with_files() {
    let root = skills();
    let text = output(&root, "skills", &[]);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words.join(" "), format!("{URI} 3 files Fills PDF forms."));
    let list: Value = serde_json::from_str(&output(&root, "skills", &["--json"])).expect("JSON");
    let expected = json!({ "name": "pdf", "description": "Fills PDF forms.", "license": "MIT" });
    assert_eq!(list["skills"][0]["frontmatter"], expected);
    assert_eq!(list["skills"].as_array().map(Vec::len), Some(1), "{list}");
    assert!(list["ttlMs"].is_u64() && list["cacheScope"] == "public", "{list}");
    let page = output(&root, "inspect", &[]);
    assert!(page.contains("\nSkills (1)\n") && page.contains("\nResources (3)\n"), "{page}");
}

#[test]
fn skill_and_its_files_are_verified() {
    let root = skills();
    assert_eq!(output(&root, "skill", &[URI]), "Run scripts/fill.py.\n");
    assert_eq!(output(&root, "skill", &[URI, "scripts/fill.py"]), "print('filled')\n");
    let logo = output(&root, "skill", &[URI, "skill://office/pdf/logo.png"]);
    assert_eq!(logo, "[application/octet-stream, 3 bytes]\n");
    let none = "skill://none/SKILL.md";
    for (uri, file) in [(URI, "passwd"), (URI, "../../broken/SKILL.md"), (none, "a")] {
        assert_ne!(run(&root, "skill", &[uri, file]).status, 0, "{uri} {file}");
    }
    let unknown = run(&root, "skill", &["skill://broken/SKILL.md"]);
    assert!(unknown.stderr.contains("unknown skill"), "{}", unknown.stderr);
}

#[test]
fn skill_file_is_resource() {
    let root = skills();
    let read = output(&root, "read", &[URI, "--json"]);
    let read: Value = serde_json::from_str(&read).expect("JSON");
    let contents = json!({ "uri": URI, "mimeType": "text/markdown", "text": SKILL_FILE });
    assert_eq!(read["contents"], json!([contents]));
    for uri in ["skill://office/pdf/passwd", "skill://office/pdf/%2e%2e/pdf/SKILL.md"] {
        assert_eq!(run(&root, "read", &[uri]).status, 1, "{uri}");
    }
}

#[test]
fn server_without_skills_has_no_extension() {
    let target = format!("stdio:{CORELANE} stdio --log error");
    let result = run_program(CORELANE, ["skills", &target]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("io.modelcontextprotocol/skills"), "{}", result.stderr);
}

#[test]
fn check_names_broken_skill() {
    let root = skills();
    let directory = root.path().display().to_string();
    let result = run_program(CORELANE, ["check", "--ring-backend", "poll", "--skills", &directory]);
    let broken = root.path().join("broken/SKILL.md");
    let expected = format!("{}: does not begin with a front matter", broken.display());
    assert!(result.stderr.contains(&expected), "{}", result.stderr);
    assert_eq!(result.status, 0, "{}", result.stderr);
}

#[test]
fn skill_added_while_running_is_listed() {
    let root = tempfile::tempdir().expect("a directory");
    let directory = root.path().to_str().expect("UTF-8");
    let server = ServeProcess::tcp(CORELANE, &["--skills", directory]);
    let mut client = server.connect();
    client.handshake("2025-11-25");
    write(root.path(), "new/pdf/SKILL.md", SKILL_FILE);
    while client.receive()["method"] != "notifications/resources/list_changed" {}
    let target = server.url("").replace("http:", "tcp:");
    let listed = run_program(CORELANE, ["skills", &target]);
    assert!(listed.stdout.starts_with("skill://new/pdf/SKILL.md"), "{listed:?}");
    // The skill that was good is gone, and what is wrong is logged.
    write(root.path(), "new/pdf/SKILL.md", "no front matter");
    while client.receive()["method"] != "notifications/resources/list_changed" {}
    let listed = run_program(CORELANE, ["skills", &target]);
    assert_eq!(listed.stdout, "", "{listed:?}");
}

/// A line for each key, `ID:SHA-256:TIER:SCOPES`: of `office-key`, with the scope `office`, and of
/// `other-key`.
const KEYS: &str = "\
office:b1daf6e56a8188a1b9374f7136b1acd4d3ebfafddcfbe4422f193496d43ec349:user:office
other:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca
";

#[test]
fn skill_is_only_for_callers_of_scope() {
    let root = skills();
    write(root.path(), "free/SKILL.md", "---\nname: free\ndescription: Free.\n---\n");
    let files = tempfile::tempdir().expect("a directory");
    write(files.path(), "keys", KEYS);
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    let (keys, directory) = (path("keys"), root.path().to_str().expect("UTF-8"));
    let rule = "resources/read skill://office/* scope=office";
    let options = ["--skills", directory, "--auth-api-keys", &keys, "--auth-rules", rule];
    let server = ServeProcess::http(CORELANE, &options);
    let target = server.url("/mcp");
    let run = |key: &str, command: &str, arguments: &[&str]| {
        write(files.path(), key, key);
        let token = path(key);
        let first = [command, target.as_str(), "--token-file", token.as_str()];
        run_program(CORELANE, [&first[..], arguments].concat())
    };
    let count = |key: &str| run(key, "skills", &[]).stdout.lines().count();
    assert_eq!((count("office-key"), count("other-key")), (2, 1));
    assert_eq!(run("office-key", "skill", &[URI]).status, 0);
    let refused = run("other-key", "skill", &[URI]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    assert_eq!(run("other-key", "skill", &["skill://free/SKILL.md"]).status, 0);
    assert_eq!(run("other-key", "read", &[URI]).status, 1);
}
