//! The endpoints of operators: they are served beyond the connection limit, take no place of a
//! client, and may have an address of their own.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};

use corelane::Options;
use corelane_test_support::messages::{call, modern};
use corelane_test_support::promtool::{check_metrics, promtool};
use corelane_test_support::{
    HttpClient, Request, Response, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

/// Options of a server that serves one connection.
fn one_connection(mut options: Options) -> Options {
    options.http.connections_max = 1;
    options
}

fn get(client: &mut HttpClient, path: &'static str) -> Response {
    client.exchange(&Request::new("GET", path))
}

/// Returns the value of a sample of `/metrics`.
#[track_caller]
fn sample(client: &mut HttpClient, name: &str) -> u64 {
    let response = get(client, "/metrics");
    assert_eq!(response.status(), 200);
    let text = std::str::from_utf8(&response.body).expect("UTF-8");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

#[test]
fn health_answers_any_host() {
    let server = TestServer::start(http_options());
    let mut client = HttpClient::connect(server.http());
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 403), ("/", 403)] {
        let request = Request::new("GET", path).field("Host", "10.0.0.7:8080");
        assert_eq!(client.exchange(&request).status(), status, "{path}");
    }
    let foreign = Request::new("GET", "/healthz").field("Origin", "https://evil.example");
    assert_eq!(client.exchange(&foreign).status(), 403);
    drop(client);
    server.close();
}

#[test]
fn operators_are_served_beyond_connection_limit() {
    over_each_ring(one_connection(http_options()), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        client.expect_alive();
        let mut operators: Vec<HttpClient> = (0..3).map(|_| server.connect_http()).collect();
        for operator in &mut operators {
            assert_eq!(get(operator, "/healthz").body, b"ok\n");
            assert_eq!(get(operator, "/readyz").body, b"ok\n");
            assert_eq!(sample(operator, "corelane_connections_open{transport=\"http\"}"), 1);
        }
        // A request of a client is refused there as long as the limit is reached.
        let response = get(&mut operators[0], "/status");
        response.expect_error(503, 1001, None);
        operators.remove(0).expect_eof_or_reset();
        client.expect_alive();
        drop(client);
        while get(&mut operators[0], "/status").status() == 503 {
            operators.insert(0, server.connect_http());
        }
        operators[0].expect_alive();
        drop(operators);
        server.close();
    });
}

#[test]
fn connection_of_operator_frees_place_of_client() {
    over_each_ring(one_connection(http_options()), |options| {
        let server = TestServer::with_test_tools(options);
        let mut operator = server.connect_http();
        assert_eq!(get(&mut operator, "/healthz").status(), 200);
        let mut client = server.connect_http();
        client.expect_alive();
        assert_eq!(get(&mut operator, "/healthz").status(), 200);
        drop((operator, client));
        let counters = server.close();
        assert_eq!(counters.connections.accepted, 2);
        assert_eq!(counters.connections.refused_limit, 0);
    });
}

#[test]
fn metrics_sum_counters_of_all_shards() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut clients: Vec<HttpClient> = (0..16).map(|_| server.connect_http()).collect();
        clients.iter_mut().for_each(HttpClient::expect_alive);
        for client in &mut clients {
            assert_eq!(sample(client, "corelane_connections_accepted_total"), 16);
            assert!(sample(client, "corelane_received_bytes_total") > 16);
        }
        let response = get(&mut clients[0], "/metrics");
        let kind = response.head.field("Content-Type");
        assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
        let head = Request::new("HEAD", "/metrics");
        assert_eq!(clients[0].exchange(&head).head.field("Allow"), Some("GET, OPTIONS"));
        drop(clients);
        server.close();
    });
}

#[test]
fn admin_address_serves_operators_only() {
    on_one_shard_and_two(|mut options| {
        options.admin.address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let server = TestServer::with_test_tools(one_connection(options));
        let admin = server.admin_address();
        let mut operators = [(); 2].map(|()| HttpClient::connect(admin));
        for operator in &mut operators {
            for path in ["/healthz", "/readyz", "/metrics", "/connections"] {
                assert_eq!(get(operator, path).status(), 200, "{path}");
            }
            for path in ["/mcp", "/", "/status", "/mcp/ws", "/upstreams"] {
                get(operator, path).expect_error(404, -32600, None);
            }
        }
        let mut client = server.connect_http();
        for path in ["/healthz", "/readyz", "/metrics", "/connections", "/upstreams"] {
            get(&mut client, path).expect_error(404, -32600, None);
        }
        client.expect_alive();
        drop((operators, client));
        let counters = server.close();
        assert_eq!(counters.connections.accepted, 3);
    });
}

#[test]
fn operators_need_their_token() {
    let mut file = tempfile::NamedTempFile::new().expect("temporary file");
    file.write_all(b"token-of-operators\n").expect("the token is written");
    for has_listener in [false, true] {
        let mut options = http_options();
        options.admin.token = Some(file.path().to_owned());
        options.admin.address = has_listener.then(|| (Ipv4Addr::LOCALHOST, 0).into());
        let server = TestServer::with_test_tools(options);
        let address = if has_listener { server.admin_address() } else { server.http() };
        let mut operator = HttpClient::connect(address);
        for path in ["/metrics", "/connections"] {
            let request = |token: &str| {
                Request::new("GET", path).field("Authorization", format!("Bearer {token}"))
            };
            for refused in [Request::new("GET", path), request("token-of-others---")] {
                let response = operator.exchange(&refused);
                assert_eq!(response.status(), 401, "{path}");
                assert_eq!(response.head.field("WWW-Authenticate"), Some("Bearer"));
            }
            assert_eq!(operator.exchange(&request("token-of-operators")).status(), 200, "{path}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(get(&mut operator, path).status(), 200, "{path}");
        }
        drop(operator);
        server.close();
    }
}

#[test]
fn admin_address_checks_host() {
    let mut options = http_options();
    options.admin.address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.http.hosts = vec!["mcp.example.com".to_owned()];
    let server = TestServer::with_test_tools(options);
    let mut operator = HttpClient::connect(server.admin_address());
    assert_eq!(get(&mut operator, "/metrics").status(), 200);
    let rebound = Request::new("GET", "/metrics").field("Host", "mcp.example.com");
    operator.exchange(&rebound).expect_error(403, -32600, None);
    drop(operator);
    server.close();
}

#[test]
fn metrics_have_queues_of_every_shard() {
    on_one_shard_and_two(|options| {
        let shards = options.engine.shards.expect("a number of shards");
        let server = TestServer::with_test_tools(options);
        let mut caller = server.connect_http();
        caller.send(&Request::modern(&modern(call(1, "hold", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        let mut client = server.connect_http();
        let queues = [
            "mesh_received",
            "mesh_unsent",
            "outbox",
            "large_work",
            "incomplete_messages",
            "introspection",
        ];
        let mut calls = 0;
        for shard in 0..shards {
            let mut depth = |queue: &str| {
                let labels = format!("{{shard=\"{shard}\",queue=\"{queue}\"}}");
                sample(&mut client, &format!("corelane_queue_depth{labels}"))
            };
            assert!(queues.iter().all(|queue| depth(queue) < 10));
            calls += depth("calls");
            assert_eq!(depth("client_requests"), 0);
        }
        assert_eq!(calls, 1);
        server.open_gate();
        drop((caller, client));
        server.close();
    });
}

#[test]
#[ignore = "needs promtool: ./test.sh installs it and runs the test"]
fn documented_alerts_pass_promtool() {
    let page = include_str!("../../../docs/operators.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let alerts: Vec<&str> =
        blocks.map(|(block, _)| block).filter(|block| block.contains("- alert:")).collect();
    let count = alerts.iter().map(|block| block.matches("- alert:").count()).sum::<usize>();
    assert!(count >= 3, "{alerts:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("alerts.yml");
    let rules = alerts.concat().replace('\n', "\n  ");
    let groups = format!("groups:\n- name: operators\n  rules:\n  {rules}\n");
    std::fs::write(&file, groups).expect("a file");
    let mut command = promtool(env!("CARGO_TARGET_TMPDIR"));
    let checked = command.args(["check", "rules"]).arg(&file).output().expect("promtool starts");
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{checked:?}");
    assert!(text.contains(&format!("SUCCESS: {count} rules found")), "{text}");
}

#[test]
#[ignore = "needs promtool: ./test.sh installs it and runs the test"]
fn metrics_pass_promtool() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    get(&mut client, "/none").expect_error(404, -32600, None);
    let metrics = get(&mut client, "/metrics").body;
    let ended = check_metrics(env!("CARGO_TARGET_TMPDIR"), &metrics);
    // These names are given by the specification of the parity dialect.
    let is_given = |line: &&str| {
        line.starts_with("mcp_latency_ms metric names should not contain abbreviated units")
            || line.starts_with("mcp_stream_events_total label names should be written in")
    };
    let problems = String::from_utf8_lossy(&ended.stderr).into_owned();
    let others: Vec<&str> = problems.lines().filter(|line| !is_given(line)).collect();
    // Status 3: the text is valid, and names break conventions.
    assert!(ended.status.code() == Some(3) && others.is_empty(), "{ended:?}");
    drop(client);
    server.close();
}
