//! Functions of `wit/github.wit`.

use crate::api::{self, File, Pull};
use crate::http::{self, Answer};
use crate::url::{self, Base};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::github::github::{ChangedFile, ChangedFiles, Diff, Guest, PullRequest};
use hotcell::tool::{config, log, secret};

const JSON: &str = "application/vnd.github+json";
const DIFF: &str = "application/vnd.github.diff";
/// Maximum number of redirects: a renamed repository redirects once.
const REDIRECTS: usize = 3;
/// Maximum page size of GitHub.
const PAGE: usize = 100;

struct Plugin;
export!(Plugin);

/// The server, and the placeholder for the secret.
struct Session {
    base: Base,
    token: Option<String>,
}

impl Session {
    fn open() -> Result<Self, String> {
        let base = config::get("base-url").ok().flatten();
        let base = Base::parse(base.as_deref().unwrap_or(url::GITHUB))?;
        let token = match secret::get("GITHUB_TOKEN") {
            Ok(handle) => Some(handle.placeholder()),
            Err(error) => {
                log::write(
                    log::Level::Info,
                    &format!("without GITHUB_TOKEN ({error}): only public repositories"),
                );
                None
            }
        };
        Ok(Self { base, token })
    }

    fn get(&self, path: &str, accept: &str) -> Result<Answer, String> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("accept", accept),
            ("user-agent", "hotcell-github"),
            ("x-github-api-version", "2022-11-28"),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let mut path = path.to_owned();
        for _ in 0..=REDIRECTS {
            let answer = http::get(&self.base, &path, &headers)?;
            match answer.status {
                200 => return Ok(answer),
                301 | 302 | 307 | 308 => match answer.header("location").and_then(|to| self.base.same(to)) {
                    Some(next) => path = next,
                    None => return Err(api::refused(answer.status, None, b"")),
                },
                status => {
                    return Err(api::refused(status, answer.header("x-ratelimit-remaining"), &answer.body));
                }
            }
        }
        Err(format!("{path}: the server leads on and on"))
    }
}

fn path(repository: &str, number: u32) -> Result<(String, String), String> {
    let repository = url::repository(repository)?;
    let path = format!("/repos/{repository}/pulls/{number}");
    Ok((repository, path))
}

impl Guest for Plugin {
    fn fetch_pr(repository: String, number: u32) -> Result<PullRequest, String> {
        let (repository, path) = path(&repository, number)?;
        let answer = Session::open()?.get(&path, JSON)?;
        let pull: Pull = api::parse(&answer.body)?;
        Ok(PullRequest {
            repository,
            number: pull.number,
            url: pull.html_url,
            title: pull.title,
            body: pull.body.unwrap_or_default(),
            state: pull.state,
            draft: pull.draft,
            merged: pull.merged,
            author: pull.user.map_or_else(|| "ghost".to_owned(), |user| user.login),
            base: pull.base.name,
            head_commit: pull.head.sha,
            head: pull.head.label.unwrap_or(pull.head.name),
            labels: pull.labels.into_iter().map(|label| label.name).collect(),
            created_at: pull.created_at,
            updated_at: pull.updated_at,
            commits: pull.commits,
            changed_files: pull.changed_files,
            additions: pull.additions,
            deletions: pull.deletions,
        })
    }

    fn pr_files(
        repository: String,
        number: u32,
        patches: Option<bool>,
        limit: Option<u32>,
    ) -> Result<ChangedFiles, String> {
        let (_, path) = path(&repository, number)?;
        let session = Session::open()?;
        let limit = limit.unwrap_or(100).clamp(1, 3000) as usize;
        let mut files: Vec<File> = Vec::new();
        let mut more = true;
        for page in 1.. {
            let answer = session.get(&format!("{path}/files?per_page={PAGE}&page={page}"), JSON)?;
            let part: Vec<File> = api::parse(&answer.body)?;
            more = part.len() == PAGE;
            files.extend(part);
            if !more || files.len() >= limit {
                break;
            }
        }
        more |= files.len() > limit;
        files.truncate(limit);
        let patches = patches.unwrap_or(true);
        let files = files.into_iter().map(|file| ChangedFile {
            path: file.filename,
            status: file.status,
            previous_path: file.previous_filename,
            additions: file.additions,
            deletions: file.deletions,
            patch: file.patch.filter(|_| patches),
        });
        Ok(ChangedFiles { files: files.collect(), more })
    }

    fn pr_diff(repository: String, number: u32, limit: Option<u32>) -> Result<Diff, String> {
        let (_, path) = path(&repository, number)?;
        let answer = Session::open()?.get(&path, DIFF)?;
        let (diff, cut) = api::cut(answer.body, limit.unwrap_or(256 << 10).min(1 << 20) as usize);
        Ok(Diff { diff, cut })
    }
}
