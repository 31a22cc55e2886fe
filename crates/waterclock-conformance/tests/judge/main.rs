//! Core and the memory store before the judge.

mod planted;
mod reservations;
mod suites;
mod units;
