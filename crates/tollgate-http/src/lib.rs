#![doc = include_str!("../docs/guide.md")]

mod fields;

pub use fields::{Fields, HeaderStyle, Told, fields};
