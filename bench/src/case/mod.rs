//! One file per question.

pub mod algorithms;
pub mod child;
pub mod flood;
pub mod keyed;
pub mod memory;
pub mod one;
pub mod pauses;
