//! One file per verb.

mod ask;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod overrides;
pub(crate) mod policy;
pub(crate) mod ratelimit;
pub(crate) mod replay;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod top;
pub(crate) mod validate;

use tokio::runtime::Builder;

use crate::output::Failure;

/// Runs a future on this thread. Commands that decide in memory need no runtime.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the network cannot be used: {error}; only memory: needs none"))?;
    let done = runtime.block_on(future);
    // Pending work, such as the lookup of a host name, is not waited for.
    runtime.shutdown_background();
    Ok(done)
}
