//! What policies mean: in plain English, as surprises to warn about, and as numbers.

mod limit;
mod never_binds;
mod policy;
mod rule;
mod surprise;

pub use self::limit::{bound, in_short, most_within, sentence};
pub use self::policy::describe;
pub use self::rule::{budgets, describe as describe_rule};
pub use self::surprise::surprises;
