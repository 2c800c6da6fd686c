//! A tool that takes a connection from an asynchronous pool, as with sqlx or tokio-postgres.
//!
//! The pool is deadpool; the database is a stand-in that this program runs itself.
//!
//! ```sh
//! cargo run --release --example connection_pool --features tokio
//! ```
//!
//! ```sh
//! curl http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: name' -d '{"jsonrpc": "2.0", "id": 1,
//!   "method": "tools/call", "params": {"name": "name",
//!   "arguments": {"id": 2},
//!   "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}}}'
//! ```
//!
//! ```json
//! {"jsonrpc": "2.0", "id": 1, "result": {
//!   "content": [{"type": "text", "text": "Grace"}], "resultType": "complete",
//!   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "people", "version": "1.0.0"}}}}
//! ```

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, HandlerError, Server, Tool};
use deadpool::managed::{Manager, Metrics, Pool, RecycleResult};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

/// Opens connections to the database. Drivers bring their own: with sqlx this is `PgPool`.
struct Database(SocketAddr);

impl Manager for Database {
    type Type = BufStream<TcpStream>;
    type Error = io::Error;

    async fn create(&self) -> io::Result<Self::Type> {
        Ok(BufStream::new(TcpStream::connect(self.0).await?))
    }

    async fn recycle(&self, _: &mut Self::Type, _: &Metrics) -> RecycleResult<io::Error> {
        Ok(())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Person {
    /// Number of the person.
    id: u32,
}

/// Queries the database. With sqlx: `query_scalar("SELECT …").bind(id).fetch_one(&pool).await`.
async fn name(Person { id }: Person, pool: Pool<Database>) -> Result<String, HandlerError> {
    let mut connection = pool.get().await?;
    connection.write_all(format!("{id}\n").as_bytes()).await?;
    connection.flush().await?;
    let mut name = String::new();
    connection.read_line(&mut name).await?;
    match name.trim_end() {
        "" => Err(HandlerError::tool(format!("no person has the id {id}"))),
        name => Ok(name.to_owned()),
    }
}

fn catalog(pool: Pool<Database>) -> Result<Catalog, CatalogError> {
    let name = Tool::new("name")
        .description("Returns the name of a person.")
        .tokio(move |person, _| name(person, pool.clone()));
    Catalog::builder(Implementation::new("people", "1.0.0")).tool(name).build()
}

/// Stands for the database: answers each line, a number, with a name or an empty line.
async fn run_database(listener: TcpListener) -> io::Result<()> {
    loop {
        let mut connection = BufStream::new(listener.accept().await?.0);
        tokio::spawn(async move {
            let mut line = String::new();
            while connection.read_line(&mut line).await? > 0 {
                let index = line.trim().parse::<usize>().unwrap_or_default();
                let name = ["", "Ada", "Grace", "Radia"].get(index).copied().unwrap_or_default();
                connection.write_all(format!("{name}\n").as_bytes()).await?;
                connection.flush().await?;
                line.clear();
            }
            io::Result::Ok(())
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let pool = Pool::builder(Database(listener.local_addr()?)).max_size(8).build()?;
    tokio::spawn(run_database(listener));

    let running = Server::builder(catalog(pool)?).http(address).start()?;
    tokio::signal::ctrl_c().await?;
    running.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}
