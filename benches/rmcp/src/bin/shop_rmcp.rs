//! The shop, served with rmcp. Arguments: address, URL of the exchange rates.

use std::error::Error;
use std::sync::Arc;

use axum::serve::ListenerExt;
use corelane_rmcp_comparison::{
    Currency, Items, NewPrice, NewProduct, Product, ProductId, Products, Rate, Search, Shop, Total,
};
use rmcp::handler::server::router::{prompt::PromptRouter, tool::ToolRouter};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    ErrorData, Implementation, ListResourceTemplatesResult, PaginatedRequestParams, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ResourceTemplate, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    Json, ServerHandler, prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema, Serialize)]
struct Describe {
    name: String,
}

#[derive(Clone)]
struct ShopServer {
    shop: Arc<Shop>,
    tool_router: ToolRouter<Self>,
    prompt_router: PromptRouter<Self>,
}

#[tool_router]
impl ShopServer {
    #[tool(description = "Lists all products.")]
    fn list_products(&self) -> Json<Products> {
        Json(self.shop.list())
    }

    #[tool(description = "Lists the products whose name contains a text.")]
    fn search(&self, Parameters(search): Parameters<Search>) -> Json<Products> {
        Json(self.shop.search(&search))
    }

    #[tool(description = "Returns a product.")]
    fn product(&self, Parameters(of): Parameters<ProductId>) -> Result<Json<Product>, String> {
        self.shop.product(of.id).map(Json).map_err(|error| error.to_string())
    }

    #[tool(description = "Adds a product.")]
    fn add_product(&self, Parameters(product): Parameters<NewProduct>) -> Json<Product> {
        Json(self.shop.add(product))
    }

    #[tool(description = "Removes a product.")]
    fn remove_product(
        &self,
        Parameters(of): Parameters<ProductId>,
    ) -> Result<Json<Product>, String> {
        self.shop.remove(of.id).map(Json).map_err(|error| error.to_string())
    }

    #[tool(description = "Changes the price of a product.")]
    fn set_price(&self, Parameters(price): Parameters<NewPrice>) -> Result<Json<Product>, String> {
        self.shop.set_price(&price).map(Json).map_err(|error| error.to_string())
    }

    #[tool(description = "Puts items into the cart.")]
    fn put_in_cart(&self, Parameters(items): Parameters<Items>) -> Result<Json<Total>, String> {
        self.shop.put(&items).map(Json).map_err(|error| error.to_string())
    }

    #[tool(description = "Returns the total of the cart.")]
    fn cart_total(&self) -> Json<Total> {
        Json(self.shop.total())
    }

    #[tool(description = "Empties the cart and returns what is to be paid.")]
    fn check_out(&self) -> Json<Total> {
        Json(self.shop.check_out())
    }

    #[tool(description = "Returns the price of one euro.")]
    async fn exchange_rate(
        &self,
        Parameters(code): Parameters<Currency>,
    ) -> Result<Json<Rate>, ErrorData> {
        let rate = self.shop.rate(&code).await;
        rate.map(Json).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

#[prompt_router]
impl ShopServer {
    #[prompt(description = "Asks for a description of a product.")]
    fn describe(&self, Parameters(of): Parameters<Describe>) -> Vec<PromptMessage> {
        let text = format!("Describe our {} in one line.", of.name);
        vec![PromptMessage::new_text(Role::User, text)]
    }
}

#[tool_handler(router = self.tool_router)]
#[prompt_handler(router = self.prompt_router)]
impl ServerHandler for ShopServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder();
        let capabilities = capabilities.enable_tools().enable_prompts().enable_resources().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("shop", "1.0.0"))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("shop://products/{id}", "product");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let id = uri.strip_prefix("shop://products/").and_then(|id| id.parse().ok());
        let product = self.shop.product(id.unwrap_or_default());
        let product =
            product.map_err(|error| ErrorData::resource_not_found(error.to_string(), None))?;
        let text = serde_json::to_string(&product)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let contents = ResourceContents::text(text, uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("the address is missing")?;
    let server = ShopServer {
        shop: Arc::new(Shop::new(&arguments.next().unwrap_or_default())),
        tool_router: ShopServer::tool_router(),
        prompt_router: ShopServer::prompt_router(),
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), router).await?;
    Ok(())
}
