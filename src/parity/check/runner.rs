//! Runs the checks, several at a time, and gathers their results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::checks::{self, SESSION_HEADER_CHECK};
use super::deadline::now;
use super::peer::Peer;
use super::report::{CheckReport, Report, Status};
use super::rules::Violation;
use super::steps::call;
use super::suite::{Check, CheckError, CheckResult, Context, Features, Settings};
use super::wire::{Channel, OpenError};

/// Returns the checks whose name or family is in `only`, or all if it is empty.
pub fn select(only: &[String]) -> Vec<&'static Check> {
    checks::all().filter(|check| is_selected(check, only)).collect()
}

/// Checks that the server, and the one that it is compared with, can be reached.
///
/// # Errors
///
/// The target with the reason. A server that answers with a status of HTTP can be reached: what is
/// wrong is found by a check.
pub fn check_reachable(settings: &Settings) -> Result<(), String> {
    for settings in std::iter::once(settings.clone()).chain(settings.for_other()) {
        let (endpoint, token) = (&settings.endpoint, settings.token.as_deref());
        match Channel::check_reachable(endpoint, token, settings.timeout) {
            Ok(()) | Err(OpenError { status: Some(_), .. }) => {}
            Err(error) => return Err(format!("{endpoint}: {}", error.message)),
        }
    }
    Ok(())
}

/// Runs the checks, `jobs` at a time.
pub fn run(settings: &Settings, jobs: usize, selected: &[&'static Check]) -> Report {
    let dropped = find_dropped_header(settings);
    let features = if dropped.is_some() { None } else { probe(settings) };
    let next = AtomicUsize::new(0);
    let (sender, results) = channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(selected.len()) {
            let (sender, next) = (sender.clone(), &next);
            let (features, dropped) = (features.as_ref(), dropped.as_deref());
            scope.spawn(move || {
                while let Some(check) = selected.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = match dropped {
                        Some(reason) => report_dropped_header(settings, check, reason),
                        None => run_check(settings, features, check),
                    };
                    // The receiver lives as long as the scope.
                    sender.send((check.name, result)).ok();
                }
            });
        }
    });
    drop(sender);
    let results: Vec<(&str, Outcome)> = results.into_iter().collect();
    let mut reports: Vec<CheckReport> = Vec::new();
    for check in selected {
        let found = results.iter().find(|(name, _)| *name == check.name);
        if let Some((_, Outcome { result, time, .. })) = found {
            reports.push(report(check, result.clone(), *time));
        }
    }
    for violation in results.into_iter().flat_map(|(_, outcome)| outcome.violations) {
        add_violation(&mut reports, violation);
    }
    Report { target: settings.endpoint.to_string(), checks: reports }
}

/// The result of one check, with the rules that any message of its connections broke.
struct Outcome {
    result: CheckResult,
    violations: Vec<Violation>,
    time: Duration,
}

fn is_selected(check: &Check, only: &[String]) -> bool {
    let family = check.name.split('.').next().unwrap_or_default();
    only.is_empty() || only.iter().any(|name| name == check.name || name == family)
}

fn run_check(settings: &Settings, features: Option<&Features>, check: &Check) -> Outcome {
    let start = now();
    let context = Context::new(settings, features);
    let result = context.check_needs(check.needs).and_then(|()| (check.run)(&context));
    let violations = context.into_violations();
    Outcome { result, violations, time: start.elapsed() }
}

/// Returns why `Mcp-Session-Id` is dropped on its way, over HTTP.
fn find_dropped_header(settings: &Settings) -> Option<String> {
    let context = Context::new(settings, None);
    settings.endpoint.is_http().then(|| checks::find_dropped_header(&context))?
}

/// Returns the result of a check where `Mcp-Session-Id` is dropped: one check reports it.
fn report_dropped_header(settings: &Settings, check: &Check, reason: &str) -> Outcome {
    let result = match Context::new(settings, None).check_needs(check.needs) {
        Err(CheckError::Skipped(reason)) => CheckError::Skipped(reason),
        _ if check.name == SESSION_HEADER_CHECK => CheckError::failed(reason),
        _ => CheckError::Blocked(format!("{SESSION_HEADER_CHECK}: {reason}")),
    };
    Outcome { result: Err(result), violations: Vec::new(), time: Duration::ZERO }
}

/// Asks the server for its capabilities and for the tool that takes seconds. What goes wrong here
/// is reported by the checks.
fn probe(settings: &Settings) -> Option<Features> {
    let context = Context::new(settings, None);
    let mut peer = Peer::ready(&context).ok()?;
    let capabilities = peer.ack()["capabilities"].clone();
    let mut has_long_tool = false;
    if capabilities["tools"] == true
        && let Ok(list) = call(&mut peer, "tools/list", &json!({}))
    {
        let tools = list.value["result"]["tools"].as_array().into_iter().flatten();
        let name = settings.long_tool.name.as_str();
        has_long_tool = tools.into_iter().any(|tool| tool["name"] == name);
    }
    Some(Features { capabilities, has_long_tool })
}

fn report(check: &'static Check, result: CheckResult, time: Duration) -> CheckReport {
    let (status, reason) = match result {
        Ok(()) => (Status::Passed, None),
        Err(CheckError::Failed(reason)) => (Status::Failed, Some(reason)),
        Err(CheckError::Blocked(reason)) => (Status::Blocked, Some(reason)),
        Err(CheckError::Skipped(reason)) => (Status::Skipped, Some(reason)),
    };
    CheckReport { check, status, reason, time }
}

/// Fails the check whose rule was broken; the first reason is kept.
fn add_violation(reports: &mut [CheckReport], violation: Violation) {
    let found = reports.iter_mut().find(|report| report.check.name == violation.check);
    if let Some(report) = found.filter(|report| report.status != Status::Failed) {
        report.status = Status::Failed;
        report.reason = Some(violation.reason);
    }
}
