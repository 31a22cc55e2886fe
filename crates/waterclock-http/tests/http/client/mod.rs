//! Requests that this program sends: paced by our own limits, and as servers ask for.

mod advice_random;
mod advice_table;
mod honour;
mod honour_real;
mod pace;
mod pace_real;
mod pace_redis;
mod pace_shared;
mod stage;
