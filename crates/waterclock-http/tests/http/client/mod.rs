//! Requests that this program sends: paced by our own limits, and as servers ask for.

mod advice_random;
mod advice_table;
mod pace;
mod pace_shared;
mod real;
mod retry_after;
mod stage;
