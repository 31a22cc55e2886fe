//! Response headers, client addresses, and the layer.

mod address_random;
mod address_table;
mod client;
mod exact_fields;
mod examples;
mod layer;
mod random_fields;
mod random_policy;
mod scene;
