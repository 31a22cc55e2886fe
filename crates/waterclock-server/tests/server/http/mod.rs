//! The HTTP face.

mod about;
mod admin;
mod authorize;
mod check;
mod dashboard;
mod elsewhere;
mod keys;
mod live;
mod overrides;
mod report;
mod reserve;
mod reserve_room;
mod reserve_shared;
mod rollout;
mod tiers;
mod units;
