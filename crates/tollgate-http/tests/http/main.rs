//! What clients are told, and who they are taken for.

mod exact_fields;
mod random_fields;
mod random_policy;
mod scene;
