//! Closes values on another thread, so that closing them delays no caller.

use std::ops::{Deref, DerefMut};

use tokio::runtime::Handle;

/// Descriptors made by another process. Closing the last reference to one can take as long as that process
/// likes (a socket that lingers, a file on a file system that a program serves), and so can closing a socket
/// that has some in flight; so it must not happen on a thread that serves others too.
#[derive(Debug)]
pub struct Aside<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Aside<T> {
    pub fn new(what: T) -> Self {
        Self(Some(what))
    }
}

impl<T: Send + 'static> Deref for Aside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for Aside<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for Aside<T> {
    fn drop(&mut self) {
        let what = self.0.take();
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(what)));
        }
    }
}
