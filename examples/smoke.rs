use corelane::server::{Options, Server};
use corelane::service::demo;
fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let catalog =
        demo::catalog(corelane::protocol::message::ServerInfo::new("corelane", "0.1.0")).unwrap();
    let mut o = Options::default();
    if std::env::args().nth(1).as_deref() == Some("stdio") {
        let c = Server::new(catalog).options(o).stdio().unwrap();
        eprintln!("{c}");
        return;
    }
    o.engine.shards = Some(1);
    o.tcp.address = Some("127.0.0.1:8899".parse().unwrap());
    let c = Server::new(catalog).options(o).serve().unwrap();
    eprintln!("{c}");
}
