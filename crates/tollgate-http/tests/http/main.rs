//! What clients are told, and who they are taken for.

mod address_random;
mod address_table;
mod exact_fields;
mod random_fields;
mod random_policy;
mod scene;
