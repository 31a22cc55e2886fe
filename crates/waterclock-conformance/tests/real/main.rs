//! The launchers launch, and what they launch does what its name says.

mod clock;
mod cluster;
mod proxy;
mod sentinel;
mod server;
mod tls;
