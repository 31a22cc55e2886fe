//! The command line from outside: the real binary, real files, real exit codes.

mod bad_config;
mod bad_trace;
mod bench;
mod check;
mod diff;
mod check_server;
mod explain;
mod holders_and_errors;
mod import;
mod json;
mod legacy;
mod logs;
mod random_trace;
mod redis_check;
mod redis_errors;
mod redis_replay;
mod replay;
mod report;
mod rules;
mod schema;
mod serve;
mod simulate;
mod support;
mod tiers;
mod validate;
mod words;
