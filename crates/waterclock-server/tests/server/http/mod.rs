//! The HTTP face.

mod about;
mod admin;
mod authorize;
mod check;
mod dashboard;
mod elsewhere;
mod fields;
mod history;
mod jitter;
mod keys;
mod legacy;
mod live;
mod names;
mod overrides;
mod plain;
mod report;
mod reserve;
mod reserve_room;
mod reserve_shared;
mod rollout;
mod tiers;
mod units;
