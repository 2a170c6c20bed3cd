use super::*;

#[test]
fn arbitrary_messages_cause_no_panic() {
    // A cheap generator: it suffices that lengths point everywhere.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20_000 {
        let mut bytes = std::vec::Vec::new();
        let len = round % 97;
        for _ in 0..len {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push(if state >> 60 < 6 { 0 } else { state.to_le_bytes()[5] });
        }
        if round % 2 == 0 && bytes.len() >= 12 {
            bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
            let kind = u32::from(bytes[8] % 7);
            bytes[8..12].copy_from_slice(&kind.to_le_bytes());
        }
        let _ = Request::decode(&bytes);
        let _ = Job::decode(&bytes);
        let _ = template_ops(&bytes).map(Iterator::count);
        let _ = Tell::decode(&bytes).map(|t| t.steps().count());
    }
}

#[test]
fn trailing_bytes_and_wrong_versions_are_refused() {
    let forget = [VERSION.to_le_bytes(), 5u32.to_le_bytes(), 2u32.to_le_bytes(), 9u32.to_le_bytes()].concat();
    assert!(matches!(Request::decode(&forget), Ok((5, Request::Forget { id: 9 }))));
    assert!(Request::decode(&[&forget[..], &[0]].concat()).is_err());
    assert!(Request::decode(&forget[..15]).is_err());
    let other = [99u32.to_le_bytes(), 5u32.to_le_bytes(), 2u32.to_le_bytes(), 9u32.to_le_bytes()].concat();
    assert!(Request::decode(&other).is_err());
}

#[test]
fn strings_end_with_only_nul() {
    for (bytes, good) in
        [(&b"ab\0"[..], true), (b"ab", false), (b"a\0b\0", false), (b"\0", true), (b"", false)]
    {
        let mut message = u32::try_from(bytes.len()).expect("short").to_le_bytes().to_vec();
        message.extend_from_slice(bytes);
        assert_eq!(Reader::new(&message).cstr().is_ok(), good, "{bytes:?}");
    }
}

#[test]
fn steps_are_numbered_in_order() {
    for (n, step) in Step::ALL.into_iter().enumerate() {
        assert_eq!(step as usize, n);
    }
}
