//! `corelane check`: every fault with its file, line, column and hint.

use super::folder::Folder;

/// Asserts the error line of `declaration`, which begins on line 2 of the file.
#[track_caller]
fn expect_fault(declaration: &str, expected: &str) {
    let folder = Folder::new(&format!("# Declarations.\n{declaration}\n"));
    let path = folder.text_path("corelane.toml");
    folder.write("plain.txt", "text");
    let faults = folder.faults();
    let expected = format!("error: {path}:{expected}");
    assert!(faults.contains(&expected), "expected {expected}\n{faults}");
}

#[test]
fn faults_of_tools_have_place_and_hint() {
    let tool = "[[tool]]\nname = \"a\"\n";
    for (keys, expected) in [
        ("", "2:1: tool a: does nothing; write one of command, http, sql, file and text"),
        ("text = \"x\"\nfile = \"y\"", "2:1: tool a: does more than one thing; write one of"),
        ("command = []", "4:1: tool a: command: names no program; write [\"program\", …]"),
        (
            "command = [\"no-such-program\"]",
            "4:1: tool a: command: no-such-program is in no folder of PATH; install it",
        ),
        ("command = [\"./plain.txt\"]", "4:1: tool a: command: "),
        (
            "command = [\"echo\", \"{b}\"]",
            "4:1: tool a: command: {b} is not an argument of this tool; declare it under \
             [tool.arguments.b]",
        ),
        ("command = [\"echo\", \"{b\"]", "4:1: tool a: command: "),
        (
            "command = [\"echo\"]\nresult = \"xml\"",
            "5:1: tool a: result: \"xml\" is no kind of result; write text, json, lines or",
        ),
        ("command = [\"echo\"]\ncwd = \"none\"", "5:1: tool a: cwd: "),
        ("command = [\"echo\"]\nuser = \"no-such-user\"", "5:1: tool a: user: "),
        ("text = \"x\"\nenv = { A = \"b\" }", "5:1: tool a: env: belongs to a command; remove it"),
        ("text = \"x\"\ncomand = [\"echo\"]", "5:1: tool a: unknown field `comand`"),
        ("text = 5", "4:8: tool a: invalid type: integer `5`, expected a string; "),
        ("text = \"x\"\nlimits.calls = 0", "5:8: tool a: limits.calls: is 0; write 1 or more"),
        ("text = \"x\"\nlimits.timeout = \"5 parsecs\"", "5:8: tool a: limits.timeout: "),
        (
            "text = \"x\"\n[tool.arguments.b]\nminimun = 5",
            "6:1: tool a: arguments.b.minimun: is no keyword of JSON Schema; did you mean minimum?",
        ),
        ("text = \"x\"\narguments.b = { type = \"strng\" }", "2:1: tool a: "),
        ("text = \"x\"\nlimits.rate = \"often\"", "5:8: tool a: limits.rate: "),
        ("text = \"x\"\nschema = \"none.json\"", "5:1: tool a: schema: "),
        ("text = \"x\"\nschema = \"plain.txt\"", "5:1: tool a: schema: "),
    ] {
        expect_fault(&format!("{tool}{keys}"), expected);
    }
}

#[test]
fn faults_of_other_kinds_have_place_and_hint() {
    for (declaration, expected) in [
        ("[[tool]]\nname = \"a b\"\ntext = \"x\"", "3:1: tool a b: name: \"a b\" is not the name"),
        ("[[tools]]\nname = \"a\"", "2:"),
        ("[tool]\nname = \"a\"", "2:2: tool: is a list of tables; write [[tool]] for each one"),
        ("[[tool]\nname = \"a\"", "2:"),
        ("[[prompt]]\nname = \"a\"", "2:1: prompt a: does nothing"),
        (
            "[[prompt]]\nname = \"a\"\nmessages = [{ text = \"{b}\" }]",
            "4:1: prompt a: messages: {b} is not an argument; add it under arguments.b",
        ),
        ("[[resource]]\nuri = \"not a uri\"\nname = \"a\"\ntext = \"x\"", "2:"),
        (
            "[[resource_template]]\nuri_template = \"a://{b}\"\nname = \"a\"\ntext = \"{c}\"",
            "5:1: resource_template a: text: {c} is not an argument",
        ),
        ("[[database]]\nname = \"a\"\nurl = \"mysql:x\"", "4:1: database a: url: "),
        ("[[openapi]]\ndocument = \"none.json\"", "3:1: openapi: document: none.json: "),
        (
            "[[tool]]\nname = \"a\"\nhttp = { url = \"ftp://example.com\" }",
            "4:10: tool a: http.url: ",
        ),
        (
            "[[tool]]\nname = \"a\"\nhttp = { url = \"https://{host}/\" }",
            "4:10: tool a: http.url: ",
        ),
    ] {
        expect_fault(declaration, expected);
    }
}

#[test]
fn faults_do_not_hide_each_other() {
    let folder = Folder::new(
        "[[tool]]\nname = \"a\"\n\n[[tool]]\nname = \"b\"\ntext = 1\n\n\
         [[tool]]\nname = \"c\"\ntext = \"x\"\n\n[[tool]]\nname = \"c\"\ntext = \"x\"\n",
    );
    folder.write("conf.d/more.toml", "shards = 1\n[[tool]]\nname = \"d\"\n");
    let faults = folder.faults();
    for expected in [
        "corelane.toml:1:1: tool a: does nothing",
        "corelane.toml:6:8: tool b: invalid type",
        "corelane.toml:13:1: tool c: name: is declared in ",
        "conf.d/more.toml:1:1: ",
        "conf.d/more.toml:2:1: tool d: does nothing",
    ] {
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
    assert_eq!(faults.matches("error: ").count(), 5, "{faults}");
    // `serve` names the same ones, and does not start.
    let served = folder.run("serve", &["--tcp", "off", "--http", "127.0.0.1:0"]);
    assert_eq!((served.status, served.stderr), (1, faults));
}

#[test]
fn binary_and_missing_files_are_named() {
    let folder = Folder::new("");
    folder.write("conf.d/binary.toml", b"\xff\xfe[[tool]]");
    let faults = folder.faults();
    assert!(faults.contains("binary.toml: is not UTF-8; save the file as UTF-8"), "{faults}");
    std::fs::remove_file(folder.path("corelane.toml")).expect("file is removed");
    let faults = folder.faults();
    assert!(faults.contains("corelane.toml: cannot be read"), "{faults}");
}
