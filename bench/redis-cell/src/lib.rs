//! Only here because a manifest needs a crate: what is wanted is its dependency.
