//! Progress and log messages.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, in_both_eras, text};

#[test]
fn python_hears_progress_and_the_log_messages_that_it_asked_for() {
    in_both_eras(Sdk::Python, "telling", expect_telling);
}

#[test]
fn rust_hears_progress_and_the_log_messages_that_it_asked_for() {
    in_both_eras(Sdk::Rust, "telling", expect_telling);
}

#[test]
fn typescript_hears_progress_and_the_log_messages_that_it_asked_for() {
    in_both_eras(Sdk::TypeScript, "telling", expect_telling);
}

pub(crate) fn expect_telling(summary: &Value, era: Era) {
    expect_progress(&summary["progress"]);
    let texts = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    let logs = texts.map(|text| json!({ "level": "info", "data": text }));
    for (level, heard) in [("info", json!(logs)), ("error", json!([]))] {
        assert_eq!(summary[level]["logs"], heard, "at the level {level}");
        assert_eq!(text(&summary[level]), "Tool with logging completed.");
    }
    if era == Era::Modern {
        assert_eq!(summary["unasked"]["logs"], json!([]));
        assert_eq!(text(&summary["unasked"]), "Tool with logging completed.");
    }
}

/// A client may drop what arrives together with the result, so that the last report can be missing.
fn expect_progress(progress: &Value) {
    assert_eq!(text(progress), "Tool with progress completed.");
    let reports: Vec<(f64, f64, String)> =
        serde_json::from_value(progress["reports"].clone()).expect("progress, total, message");
    let told =
        [0.0, 50.0, 100.0].map(|done| (done, 100.0, format!("Completed step {done} of 100")));
    assert!(!reports.is_empty(), "{progress}");
    assert!(told.starts_with(&reports), "{progress}");
}
