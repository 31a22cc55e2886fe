//! The HTTP face.

mod about;
mod admin;
mod authorize;
mod check;
