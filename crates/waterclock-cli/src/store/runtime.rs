//! Asking a store means waiting for a network.

use tokio::runtime::Builder;

use crate::failure::Failure;

/// Waits for a future on this thread. Nothing of this is made for commands that decide in memory.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the network cannot be used: {error}; only memory: needs none"))?;
    let done = runtime.block_on(future);
    // Whatever still waits, such as the lookup of a host's name, is not waited for.
    runtime.shutdown_background();
    Ok(done)
}
