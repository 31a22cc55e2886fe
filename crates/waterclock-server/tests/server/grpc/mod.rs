//! Envoy's rate limit service, asked by a real client.

mod access;
mod answers;
mod bounds;
mod charge;
mod hits;
mod hostile;
mod kuadrant;
mod overrides;
mod rate_limiter;
mod rlqs;
mod rules;
pub(crate) mod scene;
mod side_services;
mod store;
mod tiers;
mod together;
mod undecided;
