//! The layer, around services made for the purpose and around real servers.

mod admission;
mod building;
mod connections;
mod grpc;
mod keys;
mod refusals;
mod rules;
mod settling;
mod stage;
