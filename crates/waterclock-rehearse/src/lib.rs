//! Rehearsals: traffic meets rate limits in virtual time, before it counts.
//!
//! | to | use |
//! |---|---|
//! | read a trace or an access log | [`trace::Reading`] |
//! | decide about events at the time they carry | [`Stage`] |
//! | replay a trace through one policy and report on it | [`replay`], [`report::Report`] |
//! | compare policies under generated or recorded traffic | [`simulate::Simulation`] |
//! | compare two versions of a policy | [`diff::Comparison`] |
//! | compare another limiter's decisions with a policy | [`compare::SideBySide`] |
//!
//! ```
//! use waterclock_config::Config;
//! use waterclock_rehearse::trace::Event;
//! use waterclock_rehearse::Stage;
//!
//! let mut config = Config::read("example", "policies.login.limits = [\"2/m\"]")?;
//! let login = config.choose(Some("login"))?;
//! let stage = Stage::new(&login)?;
//! let allowed = |t_us| stage.play(&Event::check(t_us, "alice")).map(|(_, answer)| answer.decision.is_allowed());
//! assert!(allowed(0)? && allowed(1)? && !allowed(2)?);
//! // Half a minute later, one more.
//! assert!(allowed(30_000_000)?);
//! # Ok::<_, waterclock_rehearse::Error>(())
//! ```

mod error;
mod expr;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod note;
mod page;
mod picture;
mod stage;
mod timeline;

pub mod compare;
pub mod diff;
pub mod replay;
pub mod report;
pub mod simulate;
pub mod terminal;
pub mod trace;

pub use self::error::Error;
pub use self::note::Note;
pub use self::picture::Picture;
pub use self::stage::{Resolved, Stage, register_variants, resolve, warning_about, without_limits};

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
