//! The store on real servers.

mod breaker;
mod carry;
mod clock_steps;
mod cluster;
mod debit;
mod denied;
mod expiry;
mod fallback;
mod faults;
mod four_processes;
mod kinds;
mod lease;
mod long_logs;
mod oracle;
mod parity;
mod partitions;
mod planted;
mod reservations;
mod restart;
mod scene;
mod sentinel;
mod split_brain;
mod tls;
mod units;
mod valkey;
mod variants;
