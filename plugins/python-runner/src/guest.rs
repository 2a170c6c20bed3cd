//! Function of `wit/python-runner.wit`.

use crate::plan;

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::python_runner::python_runner::{File, Guest, Outcome};
use hotcell::sandbox::run;

struct Plugin;
export!(Plugin);

impl Guest for Plugin {
    fn run(
        code: String,
        arguments: Option<Vec<String>>,
        stdin: Option<String>,
        files: Option<Vec<File>>,
        timeout_ms: Option<u32>,
        memory_mib: Option<u32>,
    ) -> Result<Outcome, String> {
        let others = files.unwrap_or_default().into_iter().map(|f| (f.path, f.content)).collect();
        let files = plan::files(code, others)?
            .into_iter()
            .map(|(path, content)| run::File { path, content })
            .collect();
        let request = run::Request {
            argv: plan::argv(arguments.unwrap_or_default()),
            files,
            stdin: stdin.map(String::into_bytes),
            env: vec![("PYTHONDONTWRITEBYTECODE".into(), "1".into())],
            timeout_ms,
            memory: memory_mib.map(|mib| u64::from(mib) << 20),
        };
        let outcome = run::run(&request).map_err(|error| match error {
            run::Error::Denied => {
                "runs are not granted to this plugin: hotcell tool grant python-runner sandbox".to_owned()
            }
            run::Error::TooMany => "this call has asked for too many runs".to_owned(),
            run::Error::Invalid(why) => format!("the run was refused: {why}"),
            run::Error::Unavailable(why) => format!("there is no run: {why}"),
        })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Outcome {
            ok: outcome.cause == "exited" && outcome.exit_code == Some(0),
            stdout: text(outcome.stdout),
            stderr: text(outcome.stderr),
            cause: outcome.cause,
            exit_code: outcome.exit_code,
            reason: outcome.reason,
            truncated: outcome.truncated,
            wall_ms: outcome.wall_ms,
        })
    }
}
