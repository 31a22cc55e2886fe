#![doc = include_str!("../docs/guide.md")]

mod address;
mod fields;

pub use address::{AddressError, AddressKey, ClientIp, ForwardedHeader, TrustedProxies};
pub use fields::{Fields, HeaderStyle, Told, fields};
