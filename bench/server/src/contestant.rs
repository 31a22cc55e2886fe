//! A contestant: a server, and the requests for it.

use crate::process::Launch;

pub struct Contestant<Asks> {
    pub name: String,
    /// How to start it, or why it cannot be had.
    pub launch: Result<Launch, String>,
    pub asks: Asks,
}
