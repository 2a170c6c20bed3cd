//! What is closed where nobody waits for it.

use std::ops::{Deref, DerefMut};

use tokio::runtime::Handle;

/// Descriptors of somebody else's making. Closing the last of one can take as long as they like (a socket that lingers, a file of a file system
/// that a program serves), and so can closing a socket in which some lie: not in a thread that serves others too.
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
