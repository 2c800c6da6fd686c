//! Tests of plans as text.

use super::*;
use crate::children::StderrMode;

fn plan(text: &str) -> Result<Plan, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

const BRIEF: &str = "target = \"tcp://127.0.0.1:1\"\n[[phase]]\nrate = 10\nduration = \"1s\"\n";

#[test]
fn plan_without_options_has_defaults() {
    let plan = plan(BRIEF).unwrap();
    assert_eq!((plan.connections, plan.depth, plan.era), (64, 1, None));
    let config = plan.run_config().unwrap();
    assert_eq!(config.calls.len(), 1);
    // Two seconds of warm-up and one that is measured.
    let LoadMode::Open { profile, pattern: pace } = config.mode else {
        panic!("{:?}", config.mode)
    };
    assert!((profile.requests() - 30.0).abs() < 1e-9);
    assert_eq!(pace, ArrivalPattern::Constant);
}

#[test]
fn stdio_target_defaults_to_one_connection() {
    assert_eq!(Plan::new("stdio:corelane stdio").connections, 1);
    assert_eq!(Plan::new("tcp://127.0.0.1:1").connections, 64);
    let text = BRIEF.replace("tcp://127.0.0.1:1", "stdio:corelane 'a b'");
    let config = plan(&text).unwrap().run_config().unwrap();
    assert!(config.endpoint.addresses().is_empty());
    assert_eq!(config.endpoint.program().unwrap().command, ["corelane", "a b"]);
    let inherit =
        plan(&format!("{text}[stdio]\nstderr = \"inherit\"\n")).unwrap().run_config().unwrap();
    assert_eq!(inherit.endpoint.program().unwrap().stderr, StderrMode::Inherit);
}

#[test]
fn plan_round_trips_through_toml() {
    let mut whole = plan(BRIEF).unwrap();
    whole.calls.push(CallPlan::tool("echo"));
    whole.phases.push(PhasePlan {
        to_rate: Some(5.0),
        ..PhasePlan::constant(1.0, HumanDuration::from_secs(3))
    });
    whole.thresholds.p99 = Some(HumanDuration::from_secs(1));
    let sources = vec!["127.0.0.2-127.0.0.5".parse().unwrap(), "::1".parse().unwrap()];
    whole.connect = Some(ConnectPlan { sources, rate: Some(5.0), concurrency: 9 });
    whole.drain_timeout = Some(HumanDuration::from_secs(1));
    whole.sweep = Some(SweepPlan { rounds: 5, ..SweepPlan::default() });
    let written = toml::to_string(&whole).unwrap();
    assert_eq!(plan(&written).unwrap(), whole);
}

#[test]
fn invalid_plan_error_names_valid_value() {
    let wrong = |text: &str| plan(text).unwrap().run_config().unwrap_err().to_string();
    assert!(wrong(&format!("connections = 0\n{BRIEF}")).contains("1 or more"));
    assert!(wrong(&format!("depth = 0\n{BRIEF}")).contains("depth"));
    assert!(wrong("target = \"tcp://127.0.0.1:1\"").contains("no [[phase]]"));
    assert!(wrong(&format!("requests = 1\n{BRIEF}")).contains("closed = true"));
    let closed = format!("closed = true\n{BRIEF}");
    assert!(wrong(&format!("requests = 0\n{closed}")).contains("1 or more"));
    let churned = format!("requests = 1\n{closed}[churn]\nrate = 1\n");
    assert!(wrong(&churned).contains("need a duration"));
    assert!(wrong(&BRIEF.replace("10", "-1")).contains("rate = -1"));
    assert!(wrong(&BRIEF.replace("\"1s", "\"0s")).contains("positive duration"));
    assert!(wrong(&BRIEF.replace("tcp:", "tpc:")).contains("unknown scheme"));
    assert!(wrong(&format!("{BRIEF}[[call]]\nmethod = \"ping\"\nweight = 0\n")).contains("weight"));
    assert!(wrong(&format!("{BRIEF}[thresholds]\nerrors = nan\n")).contains("from 0 to 1"));
    assert!(wrong(&format!("{BRIEF}[stdio]\n")).contains("stdio:COMMAND"));
}

#[test]
fn unknown_plan_key_error_names_known_keys() {
    let error = plan(&format!("conections = 3\n{BRIEF}")).unwrap_err();
    assert!(error.contains("conections") && error.contains("connections"), "{error}");
}

#[test]
fn zero_rate_plan_holds_idle_connections() {
    let config = plan(&BRIEF.replace("10", "0")).unwrap().run_config().unwrap();
    assert!(matches!(config.mode, LoadMode::Hold { .. }));
}
