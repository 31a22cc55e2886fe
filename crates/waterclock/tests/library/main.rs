//! The library as its users see it.

mod calendar;
mod change;
mod clocks;
mod concurrency;
mod debit;
mod error_rate;
mod full;
mod growing;
mod handle;
mod held_at_once;
mod kept;
mod limiter;
mod logs;
mod overrides;
mod removal;
mod reservation_room;
mod reservations;
mod snapshot;
mod store;
mod units;
mod variants;
mod waiting;
