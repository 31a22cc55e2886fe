//! The chapters of the guide, which live as pages in `docs/`.

/// [which]: crate::guide::which_algorithm
/// [waiting]: crate::guide::waiting
/// [memory]: crate::guide::memory
///
#[doc = include_str!("../docs/which-algorithm.md")]
pub mod which_algorithm {}

/// [which]: crate::guide::which_algorithm
/// [waiting]: crate::guide::waiting
/// [memory]: crate::guide::memory
///
#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}

/// [which]: crate::guide::which_algorithm
/// [waiting]: crate::guide::waiting
/// [memory]: crate::guide::memory
///
#[doc = include_str!("../docs/memory.md")]
pub mod memory {}
