//! Policies and rules in plain English, and warnings about what their author may not expect.

mod limit;
mod policy;
mod warning;

pub use self::limit::{bound, in_short, sentence};
pub use self::policy::{budgets, describe, describe_rule};
pub use self::warning::{Warning, idle_limits, warnings};
