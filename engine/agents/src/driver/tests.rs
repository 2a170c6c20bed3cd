//! The beginning of a session, before any test runs.

use std::sync::Arc;

use futures_util::FutureExt;
use hotcell_sandbox::{BoxFuture, Policy, Refusal, Running};
use hotcell_workspace::store::{Quota, Store};

use super::*;
use crate::budget::Limits;
use crate::machine::Rules;

/// A source of no sandboxes.
struct Nowhere;

impl Spawn for Nowhere {
    fn spawn<'a>(&'a self, _: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        unreachable!("no test runs here")
    }
}

fn task() -> Task {
    Task {
        kind: "task".to_owned(),
        project: "/p".to_owned(),
        framework: None,
        filter: None,
        deps: false,
        timeout_ms: None,
        model: None,
        words: None,
        candidates: 1,
        rules: Rules::default(),
        limits: Limits::default(),
        constraints: Vec::new(),
        max_output_tokens: 100,
        seed: None,
    }
}

#[test]
fn begun_session_is_locked_before_anything_else() {
    const ID: &str = "8a874cba3173";
    let dir = tempfile::tempdir().unwrap();
    let folder = StateFolder::open(&dir.path().join("state")).unwrap();
    let store = Store::open(&dir.path().join("workspaces"), Quota::default(), None).unwrap();
    let (configuration, models) = (Configuration::default(), ModelSettings::default());
    let driver = Driver {
        folder: &folder,
        bench: Bench(Arc::new(store)),
        configuration: &configuration,
        settings: RunSettings::default(),
        engine: &Nowhere,
        models: &models,
        around: Surroundings::default(),
        cancel: Cancel::default(),
        say: &|_| (),
        seen: None,
    };
    let failed = || driver.fix_as(task(), Some(ID), false).now_or_never().unwrap().unwrap_err().code;
    let lock = driver.lock(ID).unwrap();
    assert_eq!(failed(), Code::Busy);
    drop(lock);
    assert_eq!(failed(), Code::Configuration, "no model is configured");
    // The lock ends with the work.
    driver.lock(ID).unwrap();
}
