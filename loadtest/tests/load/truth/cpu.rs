//! CPU time is that of the measured window.

use super::python_server::PythonServer;

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn cpu_of_drain_is_not_counted() {
    let server = PythonServer { busy_seconds: 0.01, ..PythonServer::default() };
    let flags = ["--connections=200", "--warm-up=0s", "--rate=300", "--duration=1s"];
    let (result, ended) = server.run(&flags);
    let cores = result.server.unwrap().cores;
    assert!(cores > 0.0 && cores < 1.02, "{}", ended.stdout);
    let of_generator = result.generator.cores + result.generator.spin_cores;
    assert!(of_generator < 1.1, "{}", ended.stdout);
}
