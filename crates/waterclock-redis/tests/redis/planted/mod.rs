//! Bugs that shared limiters really have, planted one by one: each must be caught by the oracle that
//! is there for it. An oracle that cannot complain proves nothing.

mod scripted;
mod wrapped;
