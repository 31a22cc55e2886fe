//! The judge's suites for the core and the memory store.

mod planted;
mod reservations;
mod suites;
mod units;
