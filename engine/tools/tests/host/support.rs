//! Components from text, and a broker that plays back replies.

use std::sync::{Arc, Mutex, OnceLock};

use hotcell_tools::{
    Answer, Ask, BoxFuture, Broker, CallError, CallRequest, Prepared, Reply, Runtime, RuntimeOptions,
};

/// One runtime for all tests, because the pool is large.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Runtime::new(&RuntimeOptions { calls: 16, ..RuntimeOptions::default() }).expect("a runtime")
    })
}

/// A broker that replies by a function, and records its questions.
pub struct Played {
    answer: Box<dyn Fn(&Ask) -> Reply + Send + Sync>,
    pub asked: Mutex<Vec<Ask>>,
}

impl Played {
    pub fn new(answer: impl Fn(&Ask) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), asked: Mutex::default() })
    }

    pub fn asked(&self) -> Vec<Ask> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Broker for Played {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let reply = (self.answer)(&ask);
        self.asked.lock().expect("no panic").push(ask);
        Box::pin(std::future::ready(reply))
    }
}

/// A broker that panics on any question.
pub fn nobody() -> Arc<Played> {
    Played::new(|ask| panic!("nobody should be asked: {ask:?}"))
}

/// A component from its text.
pub fn component(text: &str) -> Prepared {
    let wasm = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    runtime().load(&wasm).unwrap_or_else(|error| panic!("{error}"))
}

/// A component whose only function `run` is the function of that name in a core module; it has neither
/// parameters nor a result.
pub fn module(core: &str) -> Prepared {
    component(&format!(
        r#"(component
            (core module $m {core})
            (core instance $i (instantiate $m))
            (func (export "run") (canon lift (core func $i "run"))))"#
    ))
}

/// Calls `run` without arguments.
pub async fn run(prepared: &Prepared, change: impl FnOnce(&mut CallRequest)) -> Result<Answer, CallError> {
    let mut request = CallRequest::new("run", "{}", nobody());
    change(&mut request);
    runtime().call(prepared, request).await
}
