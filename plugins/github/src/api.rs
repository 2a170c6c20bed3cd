//! Answers of GitHub.

use serde::Deserialize;

/// Answer to `GET /repos/OWNER/NAME/pulls/NUMBER`, as far as it is used.
#[derive(Debug, Deserialize)]
pub(crate) struct Pull {
    pub(crate) number: u32,
    pub(crate) html_url: String,
    pub(crate) title: String,
    pub(crate) body: Option<String>,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) draft: bool,
    #[serde(default)]
    pub(crate) merged: bool,
    pub(crate) user: Option<User>,
    pub(crate) base: Branch,
    pub(crate) head: Branch,
    #[serde(default)]
    pub(crate) labels: Vec<Label>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) commits: u32,
    pub(crate) changed_files: u32,
    pub(crate) additions: u32,
    pub(crate) deletions: u32,
}

/// A user; missing if the account was deleted.
#[derive(Debug, Deserialize)]
pub(crate) struct User {
    pub(crate) login: String,
}

/// One end of a pull request.
#[derive(Debug, Deserialize)]
pub(crate) struct Branch {
    pub(crate) label: Option<String>,
    #[serde(rename = "ref")]
    pub(crate) name: String,
    pub(crate) sha: String,
}

/// A label.
#[derive(Debug, Deserialize)]
pub(crate) struct Label {
    pub(crate) name: String,
}

/// An entry of `GET …/files`.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) filename: String,
    pub(crate) status: String,
    pub(crate) previous_filename: Option<String>,
    pub(crate) additions: u32,
    pub(crate) deletions: u32,
    pub(crate) patch: Option<String>,
}

/// Parses an answer.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|e| format!("the server's answer is not like GitHub's: {e}"))
}

/// Explains an answer whose status is not a success, and what to do.
pub(crate) fn refused(status: u16, remaining: Option<&str>, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    let said = serde_json::from_slice(body).map_or(String::new(), |m: Message| {
        format!(": {}", m.message.chars().filter(|c| !c.is_control()).take(200).collect::<String>())
    });
    let advice = match status {
        401 => "; the secret GITHUB_TOKEN is wrong or has expired",
        403 | 429 if remaining == Some("0") => {
            "; the hour's requests are used up, the secret GITHUB_TOKEN allows more"
        }
        403 => "; the secret GITHUB_TOKEN does not allow it",
        404 => "; there is no such pull request, or it wants the secret GITHUB_TOKEN",
        406 => "; the diff is too large for GitHub, ask for pr-files",
        300..=399 => "; it leads to another server, which is not followed",
        _ => "",
    };
    format!("GitHub answered {status}{said}{advice}")
}

/// Cuts a diff to at most `limit` bytes, at the end of a line.
pub(crate) fn cut(body: Vec<u8>, limit: usize) -> (String, bool) {
    let text = String::from_utf8_lossy(&body);
    if text.len() <= limit {
        return (text.into_owned(), false);
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let end = text[..end].rfind('\n').map_or(end, |line| line + 1);
    (text[..end].to_owned(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_refusals_are_explained() {
        for (status, remaining, body, want) in [
            (
                404,
                None,
                &b"{\"message\":\"Not Found\"}"[..],
                "GitHub answered 404: Not Found; there is no such",
            ),
            (403, Some("0"), b"", "GitHub answered 403; the hour's requests"),
            (403, Some("9"), b"", "GitHub answered 403; the secret"),
            (500, None, b"<html>", "GitHub answered 500"),
            (302, None, b"", "GitHub answered 302; it leads"),
        ] {
            let said = refused(status, remaining, body);
            assert!(said.starts_with(want), "{said}");
        }
    }

    #[test]
    fn diffs_are_cut_between_lines() {
        let cut = |text: &str, limit| cut(text.as_bytes().to_vec(), limit);
        assert_eq!(cut("a\nb\n", 4), ("a\nb\n".into(), false));
        assert_eq!(cut("a\nb\n", 3), ("a\n".into(), true));
        assert_eq!(cut("ää", 3), ("ä".into(), true));
    }

    #[test]
    fn answers_are_read_and_others_refused() {
        let pull = br#"{"number":1,"html_url":"u","title":"t","body":null,"state":"open","user":null,"base":{"label":"o:main",
            "ref":"main","sha":"1"},"head":{"label":null,"ref":"x","sha":"2"},"created_at":"c","updated_at":"u","commits":1,
            "changed_files":2,"additions":3,"deletions":4,"more":{}}"#;
        let pull: Pull = parse(pull).unwrap();
        assert_eq!((pull.head.name.as_str(), pull.draft, pull.labels.len()), ("x", false, 0));
        assert!(parse::<Pull>(b"[]").unwrap_err().contains("not like GitHub's"));
    }
}
