//! Answers of users to requests of the server, and tasks, against the demo services.

use corelane_load::plan::Plan;
use corelane_load::result::RunResult;
use corelane_test_support::TestServer;

use super::{run, users};

const ANSWERS: &str = r#"
[answers]
elicitation = { action = "accept", content = { name = "Ada", username = "ada", email = "a@b.c" } }
sampling = { role = "assistant", model = "m", content = { type = "text", text = "Paris" } }
"#;

/// Returns the targets of a server over each transport.
fn targets(server: &TestServer) -> [String; 3] {
    let (http, tcp) = (server.http(), server.tcp());
    [format!("http://{http}"), format!("ws://{http}"), format!("tcp://{tcp}")]
}

fn plan(target: &str, era: &str, answers: &str, rest: &str) -> Plan {
    let text = format!(
        "target = \"{target}\"\nera = \"{era}\"\nwarm_up = \"0s\"\nresponse_timeout = \"5s\"\n\
         {answers}\n[[phase]]\nduration = \"1600ms\"\n[[scenario]]\nusers = 2\n{rest}"
    );
    let mut plan: Plan = toml::from_str(&text).unwrap();
    plan.apply_users();
    plan
}

/// Asserts that both users completed this many iterations.
fn assert_complete(result: &RunResult, iterations: u64, what: &str) {
    let found = users(result);
    let failures = (&result.totals.failures, &result.failure_examples);
    assert_eq!(found.iterations, iterations, "{what}: {found:?} {failures:?}");
    assert_eq!(result.totals.due, result.totals.answered, "{what}: {failures:?}");
}

#[test]
fn elicitation_and_sampling_are_answered() {
    let server = TestServer::for_load();
    let steps = "repeat = 3\n[[scenario.step]]\ntool = \"test_elicitation\"\n\
                 arguments = { message = \"{{uuid}}\" }\nexpect = \"contains:ada\"\n\
                 [[scenario.step]]\ntool = \"test_sampling\"\narguments = { prompt = \"a\" }\n\
                 expect = \"contains:Paris\"\n";
    for target in targets(&server) {
        for era in ["modern", "legacy"] {
            let result = run(plan(&target, era, ANSWERS, steps));
            assert_complete(&result, 6, &format!("{target} {era}"));
            assert_eq!(users(&result).inputs, 12, "{target} {era}");
        }
    }
}

#[test]
fn unanswered_input_is_a_failure() {
    let server = TestServer::for_load();
    let steps = "repeat = 1\n[[scenario.step]]\ntool = \"test_elicitation\"\n\
                 arguments = { message = \"a\" }\n";
    for target in targets(&server) {
        let without = ANSWERS.replace("elicitation", "roots");
        let result = run(plan(&target, "modern", &without, steps));
        assert_eq!(users(&result).failed_iterations, 2, "{target}");
        assert_eq!(result.totals.answered, 0, "{target}: {:?}", result.totals);
    }
}

#[test]
fn task_is_polled_until_complete() {
    let server = TestServer::for_load();
    let steps = "repeat = 1\n[[scenario.step]]\ntool = \"test_tool_with_task\"\narguments = {}\n\
                 task = true\ntake = { text = \"/content/0/text\" }\n\
                 [[scenario.step]]\ntool = \"echo\"\n\
                 arguments = { message = \"{{value text}}\" }\nexpect = \"Hello, Ada!\"\n";
    for era in ["modern", "legacy"] {
        for target in targets(&server) {
            let result = run(plan(&target, era, ANSWERS, steps));
            assert_complete(&result, 2, &format!("{target} {era}"));
            let names: Vec<&str> = result.calls.iter().map(|call| &*call.name).collect();
            assert!(names.contains(&"test_tool_with_task tasks/get"), "{names:?}");
            assert_eq!(names.len(), if era == "modern" { 3 } else { 4 }, "{names:?}");
        }
    }
}
