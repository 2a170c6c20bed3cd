//! Splits a repository into chunks that fit into a model's context.

/// Files that are read together.
#[derive(Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) files: Vec<String>,
    pub(crate) tokens: u64,
}

/// Splits files, in their order, so that neighbours stay together; `None` if all of them fit.
pub(crate) fn chunks<'a>(files: impl Iterator<Item = (&'a str, u64)>, window: u64) -> Option<Vec<Chunk>> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for (path, tokens) in files.filter(|(_, tokens)| *tokens > 0) {
        match chunks.last_mut() {
            Some(last) if last.tokens + tokens <= window => {
                last.files.push(path.to_owned());
                last.tokens += tokens;
            }
            _ => chunks.push(Chunk { files: vec![path.to_owned()], tokens }),
        }
    }
    (chunks.iter().map(|chunk| chunk.tokens).sum::<u64>() > window).then_some(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_group_neighbours_completely() {
        let split = |files: &[(&'static str, u64)]| {
            let chunks = chunks(files.iter().copied(), 10);
            chunks.map(|all| {
                all.into_iter().map(|c| format!("{}={}", c.files.join("+"), c.tokens)).collect::<Vec<_>>()
            })
        };
        assert_eq!(split(&[]), None);
        assert_eq!(split(&[("a", 4), ("b", 6)]), None);
        assert_eq!(split(&[("a", 4), ("b", 6), ("c", 1)]), Some(vec!["a+b=10".into(), "c=1".into()]));
        assert_eq!(
            split(&[("a", 4), ("b", 99), ("c", 1), ("d", 0)]),
            Some(vec!["a=4".into(), "b=99".into(), "c=1".into()])
        );
        assert_eq!(split(&[("a", 11)]), Some(vec!["a=11".into()]));
    }
}
