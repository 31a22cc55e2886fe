//! Response header fields, client addresses, the layer, the client layers and the examples.

mod address_random;
mod address_table;
mod client;
mod exact_fields;
mod examples;
mod layer;
mod random_fields;
mod random_policy;
mod scene;
