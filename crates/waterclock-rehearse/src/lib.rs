//! Traffic meets rate limits in virtual time, before it counts: traces and access logs, a stage whose clock they turn,
//! reports and pictures.

#![allow(missing_docs, unreachable_pub)]

pub mod expr;
pub mod failure;
pub mod picture;
pub mod report;
pub mod stage;
pub mod style;
pub mod timeline;
pub mod trace;
pub mod visible;
