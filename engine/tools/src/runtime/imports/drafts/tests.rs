use super::*;

#[test]
fn counter_values_are_decimal_and_default_zero() {
    for (value, wanted) in [
        (None, Some(0)),
        (Some("7"), Some(7)),
        (Some("-7"), Some(-7)),
        (Some("18446744073709551615"), Some(18_446_744_073_709_551_615)),
        (Some(""), None),
        (Some("7 "), None),
        (Some("seven"), None),
    ] {
        assert_eq!(number(value.map(str::as_bytes)), wanted, "{value:?}");
    }
    assert_eq!(number(Some(&[0xff])), None);
}

#[test]
fn pages_end_where_the_keys_end() {
    let keys: Vec<String> = (0..2_000).map(|n| format!("{n:04}")).collect();
    for (from, many, cursor) in
        [(0, 1_024, Some(1_024)), (1_024, 976, None), (2_000, 0, None), (u64::MAX, 0, None)]
    {
        let (keys, next) = page(&keys, from);
        assert_eq!((keys.len(), next), (many, cursor), "{from}");
    }
}

/// Keeps values, and has two settings of which one is granted.
#[derive(Default)]
struct Store(std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>);

impl crate::Broker for Store {
    fn ask(&self, _: u64, ask: Ask) -> crate::BoxFuture<'_, Reply> {
        let mut values = self.0.lock().expect("no panic");
        let value = |value: Option<&Vec<u8>>| Reply::Value { value: value.cloned().map(Blob) };
        let reply = match ask {
            Ask::KvGet { key } => value(values.get(&key)),
            Ask::KvSet { key, value } => {
                values.insert(key, value.0);
                Reply::Done
            }
            Ask::KvSwap { key, seen, .. } if values.get(&key) != seen.as_ref().map(|seen| &seen.0) => {
                value(values.get(&key))
            }
            Ask::KvSwap { key, value, .. } => {
                values.insert(key, value.0);
                Reply::Done
            }
            Ask::KvDelete { key } => {
                values.remove(&key);
                Reply::Done
            }
            Ask::KvKeys { .. } => Reply::Keys { keys: values.keys().cloned().collect() },
            Ask::ConfigKeys => Reply::Keys { keys: vec!["granted".to_owned()] },
            Ask::Config { key } if key == "granted" => Reply::Text { text: Some("green".to_owned()) },
            Ask::Config { key } => Reply::Refused { why: Refused::Denied(format!("config={key}")) },
            _ => Reply::Refused { why: Refused::Full },
        };
        Box::pin(std::future::ready(reply))
    }
}

fn state() -> State {
    let (until, cancel) = (
        std::time::Instant::now() + std::time::Duration::from_secs(60),
        tokio_util::sync::CancellationToken::new(),
    );
    let asker = crate::asker::Asker::new(std::sync::Arc::new(Store::default()), 7, until, cancel);
    State::new(&[], &[], &crate::Limits::default(), asker).expect("a state")
}

#[tokio::test]
async fn granted_settings_are_readable_by_each_draft() {
    let mut state = state();
    assert_eq!(
        config_rc::Host::get(&mut state, "granted".to_owned()).await.unwrap().unwrap().as_deref(),
        Some("green")
    );
    let all = config_draft::Host::get_all(&mut state).await.unwrap().unwrap();
    assert_eq!(all, [("granted".to_owned(), "green".to_owned())]);
    let denied = config_runtime::Host::get(&mut state, "other".to_owned()).await.unwrap();
    assert!(
        matches!(denied, Err(config_runtime::Error::Upstream(why)) if why == "not granted: config=other")
    );
    assert_eq!(state.asker.denied(), ["config=other"]);
    assert!(config_dated::Host::get(&mut state, "k".repeat(257)).await.unwrap().is_err());
}

#[tokio::test]
async fn values_are_stored_through_each_draft() {
    let mut state = state();
    let bucket = kv_draft::store::Host::open(&mut state, "default".to_owned()).await.unwrap().unwrap();
    let same = || Resource::<Bucket>::new_borrow(bucket.rep());
    let other = kv_draft::store::Host::open(&mut state, "cache".to_owned()).await.unwrap();
    assert!(matches!(other, Err(kv_draft::store::Error::NoSuchStore)));
    let set = <State as kv_draft::store::HostBucket>::set(&mut state, same(), "a".to_owned(), b"x".to_vec());
    set.await.unwrap().unwrap();
    let long = <State as kv_draft::store::HostBucket>::set(
        &mut state,
        same(),
        "a".to_owned(),
        vec![0; MAX_VALUE_BYTES + 1],
    );
    assert!(long.await.unwrap().is_err());
    assert!(
        <State as kv_draft2::store::HostBucket>::exists(&mut state, same(), "a".to_owned())
            .await
            .unwrap()
            .unwrap()
    );
    // The other draft reaches the same store.
    let sum = <State as kv_draft2::atomics::Host>::increment(&mut state, same(), "n".to_owned(), -3);
    assert_eq!(sum.await.unwrap().unwrap(), -3);
    let below =
        <State as kv_draft::atomics::Host>::increment(&mut state, same(), "n".to_owned(), 1).await.unwrap();
    assert!(below.is_err(), "-2 is no u64");
    let words =
        <State as kv_draft::atomics::Host>::increment(&mut state, same(), "a".to_owned(), 1).await.unwrap();
    assert!(matches!(words, Err(kv_draft::store::Error::Other(why)) if why.contains("no number")));
    let keys =
        <State as kv_draft2::store::HostBucket>::list_keys(&mut state, same(), None).await.unwrap().unwrap();
    assert_eq!((keys.keys, keys.cursor), (vec!["a".to_owned(), "n".to_owned()], None));
    let bad = <State as kv_draft2::store::HostBucket>::list_keys(&mut state, same(), Some("x".to_owned()));
    assert!(bad.await.unwrap().is_err());
    let many =
        <State as kv_draft2::batch::Host>::get_many(&mut state, same(), vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(many.await.unwrap().unwrap(), [Some(("a".to_owned(), b"x".to_vec())), None]);
    <State as kv_draft::batch::Host>::set_many(
        &mut state,
        same(),
        vec![("big".to_owned(), vec![0; MAX_VALUE_BYTES])],
    )
    .await
    .unwrap()
    .unwrap();
    let much = <State as kv_draft::batch::Host>::get_many(&mut state, same(), vec!["big".to_owned(); 100]);
    assert!(much.await.unwrap().is_err(), "more than is read at once");
    <State as kv_draft::batch::Host>::delete_many(&mut state, same(), vec!["big".to_owned()])
        .await
        .unwrap()
        .unwrap();
    <State as kv_draft::store::HostBucket>::drop(&mut state, bucket).await.unwrap();
    assert!(state.table.is_empty());
}

#[tokio::test]
async fn compare_and_swap_fails_after_other_write() {
    use kv_draft2::atomics::{CasError, Host, HostCas};
    use kv_draft2::store::HostBucket;
    let mut state = state();
    let bucket = state.bucket("").unwrap().unwrap();
    let same = || Resource::<Bucket>::new_borrow(bucket.rep());
    let key = || "k".to_owned();
    let cas = <State as HostCas>::new(&mut state, same(), key()).await.unwrap().unwrap();
    assert!(<State as Host>::swap(&mut state, cas, b"one".to_vec()).await.unwrap().is_ok());
    let cas = <State as HostCas>::new(&mut state, same(), key()).await.unwrap().unwrap();
    <State as HostBucket>::set(&mut state, same(), key(), b"two".to_vec()).await.unwrap().unwrap();
    let failed = <State as Host>::swap(&mut state, cas, b"three".to_vec()).await.unwrap();
    let Err(CasError::CasFailed(again)) = failed else { panic!("it was changed") };
    let borrowed = Resource::<Cas>::new_borrow(again.rep());
    let now = <State as HostCas>::current(&mut state, borrowed).await.unwrap().unwrap();
    assert_eq!(now.as_deref(), Some(&b"two"[..]));
    assert!(<State as Host>::swap(&mut state, again, b"three".to_vec()).await.unwrap().is_ok());
    // Values that are held count as the guest's memory.
    <State as HostBucket>::set(&mut state, same(), key(), vec![0; MAX_VALUE_BYTES]).await.unwrap().unwrap();
    let mut kept = 0;
    while <State as HostCas>::new(&mut state, same(), key()).await.is_ok() {
        kept += 1;
        assert!(kept <= 1_024, "64 MiB hold no more");
    }
    assert!(kept >= 900, "{kept}");
}
