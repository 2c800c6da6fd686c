//! Files of several clients, their variables and their faults.

use corelane_base::variables::{ExpandError, Variable};

use super::*;
use crate::declared::Fault;

/// Variables of the environment, and files by their paths.
const VALUES: [[&str; 2]; 8] = [
    ["GITHUB_TOKEN", "ghp_secret"],
    ["HOME", "/home/ada"],
    ["API_HOST", "api.example.com"],
    ["EMPTY", ""],
    ["BROKEN", "a\nb"],
    ["CORELANE_INPUT_PERPLEXITY_KEY", "pplx-secret"],
    ["/p/.env", "# keys\nexport A=1\nB = 'two # 2'\nC=\"x\\ny\" # c\nD=d # e\n\nE=\nF=f"],
    ["/p/bad.env", "A=1\nwrong\n=x\n"],
];

fn import_at(path: &str, text: &str) -> Imported {
    let mut lookup = |variable: Variable<'_>| {
        let (Variable::Environment(name) | Variable::File(name)) = variable;
        let value = VALUES.iter().find(|value| value[0] == name);
        value.map(|value| value[1].to_owned()).ok_or_else(|| match variable {
            Variable::Environment(_) => ExpandError(format!("variable {name} is not set")),
            Variable::File(_) => ExpandError(format!("{name}: no such file")),
        })
    };
    import(Path::new(path), text, &mut lookup)
}

fn texts(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// The upstreams of a file without faults.
fn upstreams(path: &str, text: &str) -> Vec<ImportedUpstream> {
    let imported = import_at(path, text);
    assert_eq!(texts(&imported.faults), [""; 0]);
    assert_eq!(texts(&imported.warnings), [""; 0]);
    imported.upstreams
}

fn pairs(pairs: &[[&str; 2]]) -> Vec<(String, String)> {
    pairs.iter().map(|[name, value]| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn stdio(name: &str, command: &[&str]) -> ImportedUpstream {
    ImportedUpstream {
        name: name.to_owned(),
        command: Some(command.iter().map(|it| (*it).to_owned()).collect()),
        env: Vec::new(),
        cwd: None,
        url: None,
        is_sse: false,
        headers: Vec::new(),
        is_enabled: true,
    }
}

fn remote(name: &str, url: &str) -> ImportedUpstream {
    ImportedUpstream { command: None, url: Some(url.to_owned()), ..stdio(name, &[]) }
}

/// Warnings and faults of one server whose members are `members`.
fn problems(members: &str) -> [Vec<String>; 2] {
    let imported = import_at("/p/c.json", &format!("{{\"mcpServers\": {{\"a\": {members}}}}}"));
    assert_eq!(imported.upstreams.is_empty(), !imported.faults.is_empty());
    [&imported.warnings, &imported.faults].map(|faults| texts(faults))
}

#[test]
fn file_of_claude_desktop_is_imported() {
    let text = r#"{
            "globalShortcut": "Ctrl+Space",
            "mcpServers": {
                "filesystem": {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/Desktop"]
                },
                "Brave Search": {
                    "command": "docker",
                    "args": ["run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"],
                    "env": {"BRAVE_API_KEY": "BSA-1", "RETRIES": 3}
                }
            }
        }"#;
    let path = "/home/ada/.config/Claude/claude_desktop_config.json";
    let filesystem = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Desktop"];
    let brave = ["docker", "run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"];
    let brave = ImportedUpstream {
        env: pairs(&[["BRAVE_API_KEY", "BSA-1"], ["RETRIES", "3"]]),
        ..stdio("brave-search", &brave)
    };
    assert_eq!(upstreams(path, text), [stdio("filesystem", &filesystem), brave]);
}

#[test]
fn file_of_claude_code_is_imported() {
    let text = r#"{"mcpServers": {
            "api-server": {
                "type": "http",
                "url": "https://${API_HOST:-localhost}/mcp?v=${API_VERSION:-2}",
                "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}", "X-Empty": "${EMPTY:-no}"}
            },
            "events": {"type": "sse", "url": "${BASE:-https://example.com:8443}/sse"},
            "database": {"type": "stdio", "command": "/opt/db", "args": [], "env": {"DB": "a:-b"}}
        }}"#;
    let api = ImportedUpstream {
        headers: pairs(&[["Authorization", "Bearer ghp_secret"], ["X-Empty", ""]]),
        ..remote("api-server", "https://api.example.com/mcp?v=2")
    };
    let events =
        ImportedUpstream { is_sse: true, ..remote("events", "https://example.com:8443/sse") };
    let database =
        ImportedUpstream { env: pairs(&[["DB", "a:-b"]]), ..stdio("database", &["/opt/db"]) };
    assert_eq!(upstreams("/p/.mcp.json", text), [api, events, database]);
}

#[test]
fn file_of_cursor_is_imported() {
    let text = r#"{"mcpServers": {
            "local": {
                "type": "stdio",
                "command": "python",
                "args": ["${workspaceFolder}/tools/mcp.py", "--for", "${workspaceFolderBasename}"],
                "env": {"TOKEN": "${env:GITHUB_TOKEN}", "CACHE": "${userHome}${/}.cache"},
                "envFile": ".env"
            },
            "remote": {
                "url": "https://api.example.com/mcp",
                "headers": {"X-Key": "${env:GITHUB_TOKEN}"}
            },
            "off": {"command": "x", "cwd": "sub", "disabled": true}
        }}"#;
    let env = [
        ["A", "1"],
        ["B", "two # 2"],
        ["C", "x\ny"],
        ["CACHE", "/home/ada/.cache"],
        ["D", "d"],
        ["E", ""],
        ["F", "f"],
        ["TOKEN", "ghp_secret"],
    ];
    let local = ["python", "/p/tools/mcp.py", "--for", "p"];
    let local = ImportedUpstream { env: pairs(&env), ..stdio("local", &local) };
    let remote = ImportedUpstream {
        headers: pairs(&[["X-Key", "ghp_secret"]]),
        ..remote("remote", "https://api.example.com/mcp")
    };
    let off =
        ImportedUpstream { cwd: Some("/p/sub".into()), is_enabled: false, ..stdio("off", &["x"]) };
    assert_eq!(upstreams("/p/.cursor/mcp.json", text), [local, remote, off]);
}

#[test]
fn file_of_vs_code_is_imported() {
    let text = "\u{feff}// Servers of this project\n{
            \"inputs\": [
                {\"type\": \"promptString\", \"id\": \"perplexity-key\", \"password\": true},
                {\"type\": \"pickString\", \"id\": \"region\", \"default\": \"eu\"},
            ],
            /* \"servers\": {} */
            \"servers\": {
                \"Perplexity\": {
                    \"type\": \"stdio\", // \"sse\"
                    \"command\": \"uvx\",
                    \"args\": [\"--url=http://a//b /* c */\", \"--region\", \"${input:region}\", ],
                    \"env\": { \"KEY\": \"${input:perplexity-key}\", \"A\": null, },
                    \"envFile\": \"${workspaceFolder}/.env\",
                    \"cwd\": \"${workspaceFolder}\",
                },
                \"github\": { \"type\": \"http\", \"url\": \"https://api.githubcopilot.com/mcp/\" },
            },
        }";
    let [perplexity, github] = upstreams("/p/.vscode/mcp.json", text).try_into().unwrap();
    let command = ["uvx", "--url=http://a//b /* c */", "--region", "eu"];
    assert_eq!(perplexity.command.unwrap(), command);
    let names: String = perplexity.env.iter().map(|pair| pair.0.as_str()).collect();
    assert_eq!((names.as_str(), perplexity.env.len()), ("BCDEFKEY", 6));
    assert_eq!(perplexity.env[5].1, "pplx-secret");
    assert_eq!(perplexity.cwd.unwrap(), Path::new("/p"));
    assert_eq!(github, remote("github", "https://api.githubcopilot.com/mcp/"));
    let settings = r#"{"editor.tabSize": 4, "mcp": {"servers": {"x": {"command": "y"}}}}"#;
    assert_eq!(upstreams("/p/settings.json", settings), [stdio("x", &["y"])]);
}

#[test]
fn missing_value_leaves_out_one_server() {
    let text = r#"{
    "servers": {
        "a": {"command": "x", "env": {"É": "é", "TOKEN": "${UNSET_TOKEN}"}},
        "b": {"command": "y"},
        "c": {"url": "https://h/${input:my.key}", "headers": {"K": "${env:NOPE}"}}
    }
}"#;
    let imported = import_at("/p/mcp.json", text);
    assert_eq!(imported.upstreams, [stdio("b", &["y"])]);
    let hint = "set the variable, or write the value into the file";
    let expected = [
        format!("/p/mcp.json:3:58: server a: env.TOKEN: variable UNSET_TOKEN is not set; {hint}"),
        format!(
            "/p/mcp.json:5:22: server c: url: ${{input:my.key}} has no answer in \
                 CORELANE_INPUT_MY_KEY; {hint}"
        ),
        format!("/p/mcp.json:5:68: server c: headers.K: variable NOPE is not set; {hint}"),
    ];
    assert_eq!(texts(&imported.faults), expected);
}

#[test]
fn foreign_file_is_one_fault() {
    for (text, expected) in [
        ("", "1:1: EOF while parsing a value"),
        ("{\n  \"mcpServers\": {\n    \"a\" 1", "3:9: expected `:`"),
        ("{\"é\": x}", "1:7: expected value"),
        ("[1]", "1:1: invalid type: sequence, expected an object"),
        ("{\"name\": \"x\"}", "1:1: has neither mcpServers nor servers"),
        ("{\n \"mcpServers\": [] }", "2:16: mcpServers is not an object"),
        ("[mcp_servers.a]\ncommand = 1", "1:1: invalid type: sequence"),
        ("{ /* ", "1:5: EOF while parsing an object"),
    ] {
        let imported = import_at("/p/c.json", text);
        let faults = texts(&imported.faults);
        assert_eq!((faults.len(), imported.upstreams.len()), (1, 0), "{text}");
        assert!(faults[0].starts_with(&format!("/p/c.json:{expected}")), "{}", faults[0]);
    }
}

#[test]
fn contradiction_in_server_is_fault() {
    for (members, expected) in [
        ("1", "is not an object"),
        ("{}", "has neither command nor url"),
        (r#"{"command": "a", "url": "b"}"#, "url: stands beside command"),
        (r#"{"type": "stdio", "url": "b"}"#, "type: is stdio without command"),
        (r#"{"transport": "sse", "command": "b"}"#, "transport: is a transport of a url"),
        (r#"{"type": "ws", "url": "b"}"#, "type: is \"ws\"; use stdio"),
        (r#"{"command": ""}"#, "command: is empty"),
        (r#"{"command": ["a"]}"#, "command: is not a string"),
        (r#"{"command": "a", "args": "b"}"#, "args: is not a list"),
        (r#"{"command": "a", "args": ["b", {}]}"#, "args[1]: is not a string"),
        (r#"{"command": "a", "args": ["${b"]}"#, "args[0]: ${ is not closed by }"),
        (r#"{"command": "${config:x.y}"}"#, "command: ${config:x.y} is not supported"),
        (r#"{"command": "${A:-${B}"}"#, "command: the default of A has a variable"),
        (r#"{"command": "a\u0000"}"#, "command: has a NUL character"),
        (r#"{"command": "a", "env": {"A=B": "c"}}"#, "env: \"A=B\" is not the name"),
        (r#"{"command": "a", "envFile": "x.env"}"#, "envFile: /p/x.env: no such file"),
        (r#"{"command": "a", "disabled": "yes"}"#, "disabled: is not true or false"),
        (r#"{"url": "a", "headers": {"B C": "d"}}"#, "headers: \"B C\" is not the name"),
        (r#"{"url": "a", "headers": {"B": "${BROKEN}"}}"#, "headers.B: has a line break"),
    ] {
        let [_, faults] = problems(members);
        assert_eq!(faults.len(), 1, "{members}: {faults:?}");
        assert!(faults[0].contains(expected), "{members}: {}", faults[0]);
    }
    let [_, faults] = problems(r#"{"command": "a", "envFile": "bad.env"}"#);
    assert!(faults.len() == 2 && faults[0].contains("line 2") && faults[1].contains("line 3"));
}

#[test]
fn keys_without_effect_are_warnings() {
    let [warnings, faults] = problems(r#"{"command": "x", "autoApprove": [], "timeout": 5}"#);
    assert_eq!(faults, [""; 0]);
    let expected = ["autoApprove", "timeout"];
    for (warning, key) in warnings.iter().zip(expected) {
        assert!(warning.contains(&format!("server a: {key}: has no effect here")), "{warning}");
    }
    assert_eq!(warnings.len(), 2);
    let twice = import_at("/c", r#"{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#);
    assert_eq!(twice.upstreams, [stdio("a", &["y"])]);
    assert!(texts(&twice.warnings)[0].starts_with("/c:1:19: server a: is given twice"));
}

#[test]
fn names_are_short_and_unique() {
    let long = "Long-".repeat(20);
    let keys = ["git hub", "GitHub", "github", "git--hub", "日本", "", "@scope/pkg!", &long];
    let names = upstream_names(keys.into_iter());
    let name = |key: &str| names[key].as_str();
    assert_eq!([name("github"), name("GitHub")], ["github", "github-2"]);
    assert_eq!([name("git hub"), name("git--hub")], ["git-hub", "git-hub-2"]);
    assert_eq!([name("日本"), name(""), name("@scope/pkg!")], ["server", "server-2", "scope-pkg"]);
    assert_eq!(name(&long), "long-long-long-long-long-long-lo");
    let many: Vec<String> = (0..200).map(|index| format!("{long}{index}")).collect();
    let names = upstream_names(many.iter().map(String::as_str));
    let unique: BTreeSet<&String> = names.values().collect();
    assert_eq!(unique.len(), 200);
    assert!(unique.iter().all(|name| (1..=NAME_MAX).contains(&name.len())));
}

#[test]
fn debug_and_faults_show_no_secret() {
    let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["${GITHUB_TOKEN}"], "env": {"T": "${GITHUB_TOKEN}"}},
            "b": {"url": "https://u:ghp_secret@h/p?k=ghp_secret", "headers": {"K": "ghp_secret"}},
            "c": {"type": "${GITHUB_TOKEN}", "url": "x", "headers": {"K": "ghp_secret${BROKEN}"}}
        }}"#;
    let imported = import_at("/p/c.json", text);
    let shown = format!("{imported:?}");
    assert!(shown.contains("https://h/p") && shown.contains("\"T\""), "{shown}");
    assert_eq!((imported.upstreams.len(), imported.faults.len()), (2, 2));
    assert_eq!(shown.matches("ghp_secret").count(), 0, "{shown}");
}
