//! The environment variables of OpenTelemetry.

use std::process::Command;

use corelane_test_support::collector::Collector;
use corelane_test_support::messages::{echo, modern};
use corelane_test_support::process::Signal;
use corelane_test_support::{ExitResult, LineClient, Process, SMALL_RINGS};

use crate::CORELANE;

/// Returns a command with these variables only.
fn corelane(command: &str, variables: &[(&str, &str)]) -> Command {
    let mut started = Command::new(CORELANE);
    started.env_clear().envs(variables.iter().copied());
    started.args([command, "--tcp", "127.0.0.1:0", "--http", "off"]).args(SMALL_RINGS);
    started
}

fn check(variables: &[(&str, &str)]) -> ExitResult {
    Process::spawn(&mut corelane("check", variables)).wait()
}

#[test]
fn standard_variables_export_spans() {
    let collector = Collector::start();
    let endpoint = format!("http://{}/", collector.address());
    let mut command = corelane(
        "serve",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret%20key,x-scope=one"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,service.namespace=n"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.0"),
        ],
    );
    let mut process = Process::spawn(command.args(["--log", "debug"]));
    let line = process.wait_for(|line| line.contains("listening tcp "));
    let address = line.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("an address");
    let mut client = LineClient::connect(address);
    client.exchange(modern(echo(1, "m")));
    drop(client);
    process.signal(Signal::TERM);
    let export = collector.next_export();
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    assert!(export.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", export.head);
    for line in ["api-key: s3cret key", "x-scope: one"] {
        assert!(export.head.lines().any(|it| it == line), "{}", export.head);
    }
    assert_eq!(export.resource_attribute("service.name").as_deref(), Some("shop"));
    assert_eq!(export.resource_attribute("service.namespace").as_deref(), Some("n"));
    assert_eq!(export.spans().count(), 1);
}

#[test]
fn invalid_standard_variable_is_an_error() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    for (name, value, key) in [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:1", "traces.endpoint"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "traces.endpoint"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret", "traces.headers"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "traces.timeout"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a", "traces.resource_attributes"),
        ("OTEL_TRACES_SAMPLER", "xray", "traces.sampler"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5", "traces.sampling_ratio"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "traces.endpoint"),
        ("OTEL_SDK_DISABLED", "maybe", "traces.endpoint"),
    ] {
        let ended = check(&[endpoint, (name, value)]);
        assert_eq!(ended.status, 1, "{name}: {}", ended.stderr);
        let begin = format!("error: environment {name}: {key}: ");
        assert!(ended.stderr.contains(&begin), "{name}: {}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{name}: {}", ended.stderr);
    }
    // Without an endpoint there is nothing to sample.
    let ended = check(&[("OTEL_TRACES_SAMPLER", "xray")]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
}

#[test]
fn disabled_sdk_exports_nothing() {
    let set = [("CORELANE_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")];
    let ended = check(&set);
    assert!(ended.stdout.contains("traces.endpoint = "), "{}", ended.stdout);
    for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        let ended = check(&[set[0], off]);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(!ended.stdout.contains("traces."), "{}", ended.stdout);
    }
}
