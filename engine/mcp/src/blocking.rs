//! Work that may block.

use hotcell_state::report::{Code, ErrorReport};

/// Runs work on files outside the threads that answer requests.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorReport> + Send + 'static,
) -> Result<T, ErrorReport> {
    let failed =
        |e| ErrorReport::new(Code::Internal, format!("hotcell failed while it worked on files: {e}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
