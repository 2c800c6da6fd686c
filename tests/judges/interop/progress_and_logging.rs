//! Progress and log messages.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, Sdk, in_both_eras, text};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_receives_progress_and_requested_log_messages() {
    in_both_eras(Sdk::Python, "progress_and_logging", expect_progress_and_logs);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_receives_progress_and_requested_log_messages() {
    in_both_eras(Sdk::Rust, "progress_and_logging", expect_progress_and_logs);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_receives_progress_and_requested_log_messages() {
    in_both_eras(Sdk::TypeScript, "progress_and_logging", expect_progress_and_logs);
}

pub(crate) fn expect_progress_and_logs(summary: &Value, era: Era) {
    expect_progress(&summary["progress"]);
    let texts = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    let logs = texts.map(|text| json!({ "level": "info", "data": text }));
    for (level, expected) in [("info", json!(logs)), ("error", json!([]))] {
        assert_eq!(summary[level]["logs"], expected, "at the level {level}");
        assert_eq!(text(&summary[level]), "Tool with logging completed.");
    }
    if era == Era::Modern {
        assert_eq!(summary["no_level"]["logs"], json!([]));
        assert_eq!(text(&summary["no_level"]), "Tool with logging completed.");
    }
}

/// The last notification may be missing: a client may drop progress that arrives with the result.
fn expect_progress(progress: &Value) {
    assert_eq!(text(progress), "Tool with progress completed.");
    let reports: Vec<(f64, f64, String)> =
        serde_json::from_value(progress["reports"].clone()).expect("progress, total, message");
    let sent =
        [0.0, 50.0, 100.0].map(|done| (done, 100.0, format!("Completed step {done} of 100")));
    assert!(!reports.is_empty(), "{progress}");
    assert!(sent.starts_with(&reports), "{progress}");
}
