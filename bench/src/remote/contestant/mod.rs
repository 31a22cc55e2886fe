//! The contestants over Redis and their calls.

#[cfg(feature = "heavy")]
pub mod limitador;
#[cfg(feature = "heavy")]
pub mod trypema;

pub mod cell;
pub mod get;
pub mod here;
pub mod lua;
pub mod node;
pub mod waterclock;

use std::pin::Pin;

use super::Error;
use super::build::Built;
use super::drive::{Load, Seen};
use super::quota::Quota;

/// Named even where it is not built.
pub const LIMITADOR: &str = "limitador";
pub const HYBRID: &str = "trypema-hybrid";

/// A limiter in this process.
pub trait Limiter: Send + Sync + Sized + 'static {
    /// Connects and prepares whatever it prepares once.
    fn open(url: &str, quota: Quota) -> impl Future<Output = Result<Self, Error>>;

    /// Whether one more unit passes.
    fn check(&self, key: &str) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Fails if something else than what is measured has answered.
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }
}

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// A contestant during its turn, in this process or another.
pub trait Entrant {
    /// Asks about every key once: how many passed?
    fn fill(&mut self, keys: u64, callers: usize) -> Answer<'_, u64>;

    /// Asks for a while.
    fn drive<'a>(&'a mut self, load: &'a Load) -> Answer<'a, Seen>;

    /// So many callers ask about one new key at once, under a quota of its own: how many passed?
    fn crowd(&mut self, callers: usize, quota: Quota) -> Answer<'_, u64>;
}

/// Makes an entrant that talks to the Redis on this port.
pub type Enter = Box<dyn Fn(u16) -> Answer<'static, Box<dyn Entrant>>>;

pub struct Contestant {
    /// As it is called in `--only`.
    pub id: &'static str,
    /// As it is called in tables.
    pub name: &'static str,
    pub how: &'static str,
    /// How to make one, or why there is none.
    pub enter: Result<Enter, String>,
}

/// All contestants, for keys spread evenly.
pub fn all(built: &Built) -> Vec<Contestant> {
    let mut all = vec![get::contestant(), lua::contestant(), cell::contestant(&built.cell)];
    all.push(waterclock::strict());
    #[cfg(feature = "heavy")]
    all.extend([limitador::contestant(), trypema::strict()]);
    all.extend(node::contestants(&built.node));
    all
}

/// Those that answer from memory of their own while they can, and whom to compare them with.
pub fn local() -> Vec<Contestant> {
    vec![
        lua::contestant(),
        waterclock::strict(),
        waterclock::lease(),
        #[cfg(feature = "heavy")]
        trypema::hybrid(),
    ]
}
