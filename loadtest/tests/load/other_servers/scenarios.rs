//! Users with scenarios on servers of others.

use corelane_test_support::ListeningProcess;
use serde_json::Value;

use super::installed::python;
use super::{reference_server, rmcp_server, run};
use crate::file_path;

/// Runs a plan of these steps with four users, each of which leaves after two iterations. Asserts
/// that no step failed.
fn assert_iterations(name: &str, target: &str, steps: &str) {
    let file = |end: &str| file_path(&format!("scenario-{name}.{end}"));
    let plan = format!(
        "[[phase]]\nduration = \"2s\"\n[[scenario]]\nusers = 4\nramp = \"200ms\"\nrepeat = 2\n\
         leave = true\nthink = {{ lognormal = [\"20ms\", \"60ms\"] }}\n{steps}"
    );
    std::fs::write(file("toml"), plan).unwrap();
    let (plan, json) = (file("toml"), file("json"));
    let json_flag = format!("--json={}", json.display());
    let flags = ["--warm-up=0", "--quiet", "--plan", plan.to_str().unwrap(), &json_flag];
    let ended = run(target, &flags);
    assert_eq!(ended.status, 0, "{}{}", ended.stdout, ended.stderr);
    let result: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let users = &result["users"];
    assert!(users["iterations"].as_u64().unwrap() >= 4, "{users}");
    assert!(users["left"].as_u64().unwrap() >= 1, "{users}");
    assert_eq!(users["failed_iterations"], 0, "{users}");
    assert_eq!(result["totals"]["failures"], serde_json::json!({}), "{}", ended.stdout);
}

#[ignore = "needs Node.js: ./test.sh runs it"]
#[test]
fn scenario_runs_on_reference_server() {
    let server = reference_server();
    let steps = "[[scenario.step]]\nmethod = \"tools/list\"\ntake = { tool = \"/tools/0/name\" }\n\
                 [[scenario.step]]\ntool = \"{{value tool}}\"\n\
                 arguments = { message = \"user {{user}}\" }\nexpect = \"contains:user\"\n\
                 [[scenario.step]]\nmethod = \"resources/list\"\n\
                 take = { uri = \"/resources/*/uri\" }\n\
                 [[scenario.step]]\nmethod = \"resources/read\"\n\
                 params = { uri = \"{{value uri}}\" }\n";
    assert_iterations("everything", &server.url(), steps);
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn scenario_runs_on_fastmcp_server() {
    let server = ListeningProcess::start(|port| python("fastmcp_server.py", port));
    let steps = "[[scenario.step]]\ntool = \"add\"\n\
                 arguments = { a = \"{{int 1 9}}\", b = \"{{user}}\" }\n\
                 take = { sum = \"/structuredContent/result\" }\n\
                 [[scenario.step]]\ntool = \"add\"\narguments = { a = \"{{value sum}}\", b = 1 }\n\
                 repeat = 3\n";
    assert_iterations("fastmcp", &server.url(), steps);
}

#[ignore = "needs the shop of benches/rmcp: ./test.sh runs it"]
#[test]
fn scenario_runs_on_rmcp_server() {
    let server = rmcp_server();
    let steps = "[[scenario.step]]\ntool = \"list_products\"\n\
                 take = { id = \"/structuredContent/products/*/id\" }\n\
                 [[scenario.step]]\ntool = \"product\"\narguments = { id = \"{{value id}}\" }\n";
    assert_iterations("rmcp", &server.url(), steps);
}
