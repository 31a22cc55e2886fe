//! Requests that this program sends: paced by our own limits, and as servers ask for.

mod advice_random;
mod advice_table;
mod pace;
mod pace_real;
mod pace_redis;
mod pace_shared;
mod retry_after;
mod retry_after_real;
mod stage;
