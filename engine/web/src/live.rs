//! Events for open pages that the state folder changed. A page that gets one reloads.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hotcell_state::History;
use hotcell_state::database::open_to_read;
use hotcell_state::running;
use tokio::sync::watch;

use crate::site::Site;

/// Interval between looks at the database's version.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a silent stream says that it is alive, so that a closed one is noticed.
const ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum number of open streams.
const MAX_STREAMS: usize = 64;

/// A stream of events; `None` when too many are open.
pub fn events(site: &Arc<Site>) -> Option<Response> {
    if site.changes.receiver_count() >= MAX_STREAMS {
        return None;
    }
    let ending = site.ending.clone();
    let next = move |mut changes: watch::Receiver<u64>| {
        let ending = ending.clone();
        async move {
            let event = tokio::select! {
                () = ending.cancelled() => return None,
                changed = changes.changed() => {
                    changed.ok()?;
                    Event::default().event("changed").data(changes.borrow_and_update().to_string())
                }
                () = tokio::time::sleep(ALIVE_INTERVAL) => Event::default().comment("alive"),
            };
            Some((Ok::<_, Infallible>(event), changes))
        }
    };
    // A proxy that gathers answers would hold the events back.
    let unbuffered = [("x-accel-buffering", "no")];
    Some((unbuffered, Sse::new(stream::unfold(site.changes.subscribe(), next))).into_response())
}

/// Looks at the database while a page is open, and counts its changes, until the server ends.
pub async fn watch(site: Arc<Site>) {
    let mut before = None;
    loop {
        tokio::select! {
            () = site.ending.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        if site.changes.receiver_count() == 0 {
            before = None;
            continue;
        }
        let look = Arc::clone(&site);
        let seen = tokio::task::spawn_blocking(move || {
            let folder = look.folder().ok()??;
            History::settle(&folder);
            let running: Vec<_> =
                running::watch(&folder).unwrap_or_default().into_iter().map(|row| row.id).collect();
            let (database, _) = open_to_read(&folder).ok()??;
            // A connection's version counts the changes of others, so the same one is asked each time.
            let last = database
                .query_row("SELECT (SELECT max(seq) FROM audit), (SELECT max(seq) FROM runs)", [], |row| {
                    Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
                })
                .ok()?;
            Some((last, running))
        });
        let seen = seen.await.unwrap_or_default();
        if before.is_some() && seen.is_some() && seen != before {
            site.changes.send_modify(|count| *count += 1);
        }
        if seen.is_some() {
            before = seen;
        }
    }
}
