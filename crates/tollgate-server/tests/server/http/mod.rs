//! The HTTP face.

mod about;
mod admin;
mod authorize;
mod check;
mod rollout;
mod tiers;
