//! Work that may take long, away from the threads that answer.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Runs work that blocks or takes long. It goes on if its caller is dropped.
pub(crate) async fn off_workers<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    #[cfg(feature = "simulation")]
    if waterclock::SimulatedTime::is_shown() {
        // A simulation has one thread. Others come before it and after it, as they do beside another thread.
        tokio::task::yield_now().await;
        let done = work();
        tokio::task::yield_now().await;
        return done;
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends, and its tasks with it.
            Err(_) => std::future::pending().await,
        },
    }
}
