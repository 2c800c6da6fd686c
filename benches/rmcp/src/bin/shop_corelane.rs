//! The shop, served with Corelane. Arguments: address, URL of the exchange rates.

use std::error::Error;

use axum::serve::ListenerExt;
use corelane::model::{Implementation, Role};
use corelane::tower::McpService;
use corelane::{
    Catalog, CatalogBuilder, CatalogError, HandlerError, NoArguments, Prompt, PromptArgument,
    ResourceTemplate, Server, Structured, Tool,
};
use corelane_rmcp_comparison::{
    Currency, Items, NewPrice, NewProduct, ProductId, Search, Shop, UnknownProduct,
};

/// What the model reads.
fn tool_error(error: UnknownProduct) -> HandlerError {
    HandlerError::tool(error.to_string())
}

fn catalog(shop: &'static Shop) -> Result<Catalog, CatalogError> {
    let product = ResourceTemplate::new("shop://products/{id}", "product");
    let product = product.inline(|read, contents, _| {
        let id = read.variable("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        let product = serde_json::to_string(&shop.product(id).map_err(tool_error)?)?;
        contents.text(read.uri(), Some("application/json"), &product);
        Ok(())
    });
    let describe = Prompt::new("describe")
        .description("Asks for a description of a product.")
        .argument(PromptArgument::new("name").required())
        .inline(|arguments, out, _| {
            let text = format!("Describe our {} in one line.", arguments.text("name"));
            out.text(Role::User, &text);
            Ok(())
        });
    let catalog = Catalog::builder(Implementation::new("shop", "1.0.0"));
    tools(catalog, shop).template(product).prompt(describe).build()
}

fn tools(catalog: CatalogBuilder, shop: &'static Shop) -> CatalogBuilder {
    catalog
        .tool(
            Tool::new("list_products")
                .description("Lists all products.")
                .inline(|_: NoArguments, _| Structured(shop.list())),
        )
        .tool(
            Tool::new("search")
                .description("Lists the products whose name contains a text.")
                .inline(|search: Search, _| Structured(shop.search(&search))),
        )
        .tool(
            Tool::new("product")
                .description("Returns a product.")
                .inline(|ProductId { id }, _| shop.product(id).map(Structured).map_err(tool_error)),
        )
        .tool(
            Tool::new("add_product")
                .description("Adds a product.")
                .inline(|product: NewProduct, _| Structured(shop.add(product))),
        )
        .tool(
            Tool::new("remove_product")
                .description("Removes a product.")
                .inline(|ProductId { id }, _| shop.remove(id).map(Structured).map_err(tool_error)),
        )
        .tool(
            Tool::new("set_price")
                .description("Changes the price of a product.")
                .inline(|p: NewPrice, _| shop.set_price(&p).map(Structured).map_err(tool_error)),
        )
        .tool(
            Tool::new("put_in_cart")
                .description("Puts items into the cart.")
                .inline(|items: Items, _| shop.put(&items).map(Structured).map_err(tool_error)),
        )
        .tool(
            Tool::new("cart_total")
                .description("Returns the total of the cart.")
                .inline(|_: NoArguments, _| Structured(shop.total())),
        )
        .tool(
            Tool::new("check_out")
                .description("Empties the cart and returns what is to be paid.")
                .inline(|_: NoArguments, _| Structured(shop.check_out())),
        )
        .tool(
            Tool::new("exchange_rate")
                .description("Returns the price of one euro.")
                .tokio(async |code: Currency, _| Ok(Structured(shop.rate(&code).await?))),
        )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("the address is missing")?;
    let shop: &Shop = Box::leak(Box::new(Shop::new(&arguments.next().unwrap_or_default())));
    let service = McpService::new(Server::builder(catalog(shop)?))?;
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), router).await?;
    Ok(())
}
