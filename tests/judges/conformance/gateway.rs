//! The suite through `corelane gateway`, with clients and upstreams of both eras, and in front of
//! the reference server of MCP.
//!
//! Scenarios of the extension for tasks are not run: the gateway does not declare it.

use std::path::Path;

use corelane_test_support::ServeProcess;

use crate::CORELANE;
use crate::conformance::results::{Outcome, Scenario};
use crate::conformance::suite::{self, Selection};

/// What the suite skips, and why.
const LEGACY_CLIENT: [(&str, &str); 1] = [(
    "server-sse-polling",
    "requires that a tool ends the event stream of its call, which the gateway keeps for it",
)];

/// Checks that cannot pass in front of an upstream up to 2025-11-25, and why.
const LEGACY_UPSTREAM: [(&str, &str); 4] = [
    (
        "input-required-result-basic-elicitation:sep-2322-elicitation-incomplete",
        "requires a key of the upstream, whose requests to the client have none",
    ),
    (
        "input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params",
        "gives input before it is required, which no request of the upstream takes",
    ),
    (
        "server-stateless:sep-2575-server-rejects-undeclared-capability",
        "requires error -32021, for which the upstream has a result with isError",
    ),
    ("server-stateless:sep-2575-missing-capability-http-400", "is about the same error"),
];

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn legacy_client_of_legacy_upstream_passes() {
    expect_through_http("2025-11-25", 33, "2025-11-25", &LEGACY_CLIENT);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn legacy_client_of_modern_upstream_passes() {
    expect_through_http("2025-11-25", 33, "modern", &LEGACY_CLIENT);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn modern_client_of_legacy_upstream_passes() {
    expect_through_http("2026-07-28", 40, "2025-11-25", &LEGACY_UPSTREAM);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn modern_client_of_modern_upstream_passes() {
    expect_through_http("2026-07-28", 40, "modern", &[]);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn legacy_upstream_over_stdio_passes() {
    let program = ["--share", "all", "--", CORELANE, "stdio", "--demo", "conformance"];
    let arguments = [&["--era", "2025-11-25"], &program[..]].concat();
    for (client, count, expected) in
        [("2025-11-25", 33, &LEGACY_CLIENT[..]), ("2026-07-28", 40, &LEGACY_UPSTREAM)]
    {
        expect(&ServeProcess::gateway(CORELANE, &arguments), client, count, expected);
    }
}

/// Scenarios that need nothing of the suite's own server.
const EVERYTHING: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "dns-rebinding-protection",
            "logging-set-level",
            "ping",
            "prompts-list",
            "resources-list",
            "server-initialize",
            "server-session-lifecycle",
            "server-sse-multiple-streams",
            "tools-list",
        ],
    ),
    (
        "2026-07-28",
        &[
            "caching",
            "dns-rebinding-protection",
            "http-header-validation",
            "input-required-result-unsupported-methods",
            "input-required-result-validate-input",
            "prompts-list",
            "resources-list",
            "sep-2164-resource-not-found",
            "server-sse-multiple-streams",
            "tools-list",
        ],
    ),
];

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn server_everything_over_stdio_passes_scenarios() {
    let server = "other_servers/node/node_modules/@modelcontextprotocol/server-everything";
    let server = Path::new(env!("CARGO_TARGET_TMPDIR")).join(server).join("dist/index.js");
    assert!(server.exists(), "run loadtest/tests/install.sh (./test.sh does)");
    let [node, server] = [suite::node(), server].map(|path| path.display().to_string());
    let gateway = ServeProcess::gateway(CORELANE, &["--", &node, &server, "stdio"]);
    for (client, expected) in EVERYTHING {
        let run = suite::run(Selection::Applicable(client), &gateway.url("/mcp"));
        let passed = run.scenarios.iter().filter(|it| it.outcome() == Outcome::Passed);
        let passed: Vec<&str> = passed.map(|it| it.name.as_str()).collect();
        assert_eq!(passed, expected, "what passes:\n{}", run.output);
    }
}

/// Runs the scenarios of the revision `client` in front of an upstream over HTTP.
fn expect_through_http(client: &'static str, count: usize, era: &str, expected: &[(&str, &str)]) {
    let upstream = ServeProcess::http(CORELANE, &["--demo", "conformance"]);
    let arguments = ["--era", era, "--upstream", &upstream.url("/mcp")];
    expect(&ServeProcess::gateway(CORELANE, &arguments), client, count, expected);
}

/// Runs the `count` scenarios of a revision. All checks pass but those in `expected`.
fn expect(gateway: &ServeProcess, client: &'static str, count: usize, expected: &[(&str, &str)]) {
    let run = suite::run(Selection::Applicable(client), &gateway.url("/mcp"));
    for scenario in &run.scenarios {
        eprintln!("{scenario}");
    }
    let failures: Vec<String> = run.scenarios.iter().flat_map(Scenario::failures).collect();
    let expected: Vec<&str> = expected.iter().map(|(check, _)| *check).collect();
    assert_eq!(failures, expected, "what does not pass:\n{}", run.output);
    assert_eq!(run.scenarios.len(), count, "number of scenarios:\n{}", run.output);
}
