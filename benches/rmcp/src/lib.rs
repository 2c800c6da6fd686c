//! The shop that both servers serve: products, a cart and exchange rates.
//!
//! `cargo test --manifest-path benches/rmcp/Cargo.toml` compares their results,
//! `cargo bench --manifest-path benches/rmcp/Cargo.toml` their processor time.

#![expect(clippy::disallowed_types, reason = "the calls of both servers share the shop")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod process;

/// A product.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Product {
    /// Number of the product.
    pub id: u32,
    /// Name of the product.
    pub name: String,
    /// Price in cents.
    pub cents: u64,
}

/// Products of a list.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Products {
    /// The products, by number.
    pub products: Vec<Product>,
}

/// What is to be paid.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Total {
    /// Number of items.
    pub items: u32,
    /// Their price in cents.
    pub cents: u64,
}

/// An exchange rate.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Rate {
    /// Price of one euro.
    pub rate: f64,
}

/// Arguments that name a product.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ProductId {
    /// Number of the product.
    pub id: u32,
}

/// Arguments that describe a new product.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewProduct {
    /// Name of the product.
    pub name: String,
    /// Price in cents.
    pub cents: u64,
}

/// Arguments that change a price.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewPrice {
    /// Number of the product.
    pub id: u32,
    /// New price in cents.
    pub cents: u64,
}

/// Arguments of a search.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Search {
    /// Part of the name.
    pub text: String,
}

/// Arguments that put items into the cart.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Items {
    /// Number of the product.
    pub id: u32,
    /// Number of items.
    pub count: u32,
}

/// Arguments that name a currency.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Currency {
    /// ISO 4217 code of the currency.
    pub code: String,
}

/// No product has the number.
#[derive(Debug)]
pub struct UnknownProduct(u32);

impl fmt::Display for UnknownProduct {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no product has the id {}: call list_products", self.0)
    }
}

impl std::error::Error for UnknownProduct {}

/// A shop, shared by all calls.
#[derive(Debug, Default)]
pub struct Shop {
    stock: Mutex<Stock>,
    /// Where exchange rates come from: an HTTP URL, to which `/` and the currency are added.
    rates_url: String,
}

#[derive(Debug, Default)]
struct Stock {
    products: BTreeMap<u32, Product>,
    cart: BTreeMap<u32, u32>,
}

impl Shop {
    /// Creates a shop with three products.
    pub fn new(rates_url: &str) -> Self {
        let shop = Self { rates_url: rates_url.to_owned(), ..Self::default() };
        for (name, cents) in [("kettle", 4_990), ("teapot", 3_450), ("cup", 890)] {
            shop.add(NewProduct { name: name.to_owned(), cents });
        }
        shop
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all products.
    pub fn list(&self) -> Products {
        Products { products: self.stock().products.values().cloned().collect() }
    }

    /// Returns the products whose name contains a text.
    pub fn search(&self, Search { text }: &Search) -> Products {
        let stock = self.stock();
        let found = stock.products.values().filter(|product| product.name.contains(text.as_str()));
        Products { products: found.cloned().collect() }
    }

    /// Returns a product.
    pub fn product(&self, id: u32) -> Result<Product, UnknownProduct> {
        self.stock().products.get(&id).cloned().ok_or(UnknownProduct(id))
    }

    /// Adds a product.
    pub fn add(&self, NewProduct { name, cents }: NewProduct) -> Product {
        let mut stock = self.stock();
        let id = stock.products.last_key_value().map_or(1, |(last, _)| last + 1);
        let product = Product { id, name, cents };
        stock.products.insert(id, product.clone());
        product
    }

    /// Removes a product, from the cart too.
    pub fn remove(&self, id: u32) -> Result<Product, UnknownProduct> {
        let mut stock = self.stock();
        stock.cart.remove(&id);
        stock.products.remove(&id).ok_or(UnknownProduct(id))
    }

    /// Changes the price of a product.
    pub fn set_price(&self, NewPrice { id, cents }: &NewPrice) -> Result<Product, UnknownProduct> {
        let mut stock = self.stock();
        let product = stock.products.get_mut(id).ok_or(UnknownProduct(*id))?;
        product.cents = *cents;
        Ok(product.clone())
    }

    /// Puts items into the cart and returns its total.
    pub fn put(&self, Items { id, count }: &Items) -> Result<Total, UnknownProduct> {
        self.product(*id)?;
        *self.stock().cart.entry(*id).or_default() += count;
        Ok(self.total())
    }

    /// Returns the total of the cart.
    pub fn total(&self) -> Total {
        let stock = self.stock();
        let prices = stock.cart.iter().filter_map(|(id, count)| {
            stock.products.get(id).map(|product| product.cents * u64::from(*count))
        });
        Total { items: stock.cart.values().sum(), cents: prices.sum() }
    }

    /// Empties the cart and returns what is to be paid.
    pub fn check_out(&self) -> Total {
        let total = self.total();
        self.stock().cart.clear();
        total
    }

    /// Fetches the exchange rate of a currency.
    pub async fn rate(&self, Currency { code }: &Currency) -> reqwest::Result<Rate> {
        let url = format!("{}/{code}", self.rates_url);
        reqwest::get(url).await?.error_for_status()?.json().await
    }
}
