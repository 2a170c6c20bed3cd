//! The tasks extension: a call whose run outlasts its wait is answered with a task, for clients that declare
//! support. A task is its run: it has the run's id, and `tasks/get` and `run_status` give the same answer.
//! The result is in the state folder, even after the server has ended.

use hotcell_sandbox::text::counted;
use hotcell_server::tasks::{Stands, Task as Held};
use hotcell_server::{Caller, Live, Phase};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::time::rfc3339;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::answer::{Detail, of_run};
use crate::blocking::blocking;
use crate::reply;

/// Suggested polling interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;
/// Tools whose calls may continue as a task.
const STARTERS: [&str; 3] = ["run_code", "run_command", "run_tests"];

/// Id of the run in an answer that says that it is still going on.
fn under_way(result: &CallToolResult) -> Option<&str> {
    let about = result.structured_content.as_ref()?;
    let goes_on = matches!(about["status"].as_str(), Some("queued" | "running"));
    about["run_id"].as_str().filter(|_| goes_on)
}

/// Turns an answer about a run in progress into a task, where the client supports tasks.
pub(crate) async fn or_task(
    live: &Live,
    caller: &Caller,
    tool: &str,
    response: CallToolResponse,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    let knows = context.client_capabilities().is_some_and(|all| all.supports_tasks());
    let CallToolResponse::Complete(result) = &response else { return response };
    let Some(id) = under_way(result).filter(|_| knows && STARTERS.contains(&tool)) else { return response };
    match begin(live, caller, id).await {
        Ok(task) => CreateTaskResult::new(task).into(),
        Err(report) => {
            tracing::warn!("a call goes on without a task: {report}");
            response
        }
    }
}

async fn begin(live: &Live, caller: &Caller, id: &str) -> Result<Task, ErrorReport> {
    let run = live.run(caller, id)?;
    let (tasks, owner, name) = (live.tasks().clone(), caller.clone(), id.to_owned());
    let held = blocking(move || tasks.begin(&owner, &name)).await?;
    let (held_by, tasks) = (live.clone(), live.tasks().clone());
    live.behind(async move {
        run.ended().await;
        let became = match (run.is_cancelled(), held_by.is_ending()) {
            (true, true) => Stands::Failed("the server ended before it was done".to_owned()),
            (true, false) => Stands::Cancelled,
            (false, _) => Stands::Completed(json!(of_run(&held_by, &run, Detail::News))),
        };
        let id = run.id.clone();
        let written = tokio::task::spawn_blocking(move || tasks.end(&id, &became)).await;
        if let Ok(Err(report)) = written {
            tracing::warn!("{report}");
        }
    });
    Ok(shown(live, caller, &held))
}

/// Fields of a task, without its result.
fn shown(live: &Live, caller: &Caller, held: &Held) -> Task {
    let (created, updated) = (rfc3339(held.created_us), rfc3339(held.updated_us));
    let status = match held.stands {
        Stands::Working => TaskStatus::Working,
        Stands::Completed(_) => TaskStatus::Completed,
        Stands::Failed(_) => TaskStatus::Failed,
        Stands::Cancelled => TaskStatus::Cancelled,
    };
    let mut task = Task::new(held.id.clone(), status, created, updated)
        .with_ttl_ms(held.ttl_ms)
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    if let (Stands::Working, Ok(run)) = (&held.stands, live.run(caller, &held.id)) {
        let state = run.state();
        let seconds = run.asked.elapsed().as_secs();
        task.status_message = Some(match (state.phase, live.position(&run)) {
            (Phase::Queued, Some(position)) => format!("waits for its turn, at position {position}"),
            _ => match state.progress.as_ref().map(|p| (p.done, p.total)) {
                Some((done, Some(total))) => format!("runs since {seconds} s; test {done} of {total}"),
                Some((done, None)) if done > 0 => format!("runs since {seconds} s; test {done}"),
                _ => format!(
                    "runs since {seconds} s, printed {}",
                    counted(state.printed.iter().sum::<u64>(), "byte")
                ),
            },
        });
    }
    task
}

async fn find(live: &Live, caller: &Caller, id: &str) -> Result<Held, ErrorReport> {
    let (tasks, caller, id) = (live.tasks().clone(), caller.clone(), id.to_owned());
    blocking(move || tasks.get(&caller, &id)).await
}

/// Gives the same error for a task that does not exist and for one of another caller.
fn refused(report: &ErrorReport) -> ErrorData {
    match report.code {
        Code::UnknownName => ErrorData::invalid_params(report.to_string(), None),
        _ => {
            tracing::warn!("{report}");
            ErrorData::internal_error("the tasks cannot be used now; hotcell's log says why", None)
        }
    }
}

/// Handles `tasks/get`.
pub(crate) async fn get(live: &Live, caller: &Caller, id: &str) -> Result<DetailedTask, ErrorData> {
    let held = find(live, caller, id).await.map_err(|report| refused(&report))?;
    let task = shown(live, caller, &held);
    let payload = match held.stands {
        Stands::Working => TaskPayload::Working,
        Stands::Cancelled => TaskPayload::Cancelled,
        Stands::Completed(Value::Object(result)) => TaskPayload::Completed { result },
        Stands::Completed(_) => TaskPayload::Completed { result: JsonObject::new() },
        Stands::Failed(why) => {
            let error = json!(ErrorData::internal_error(why, None));
            TaskPayload::Failed { error: error.as_object().cloned().unwrap_or_default() }
        }
    };
    Ok(DetailedTask::new(task, payload))
}

/// Handles `tasks/cancel`: the run ends with all its processes; an ended run stays as it is.
pub(crate) async fn cancel(live: &Live, caller: &Caller, id: &str) -> Result<(), ErrorData> {
    let held = find(live, caller, id).await.map_err(|report| refused(&report))?;
    if held.stands == Stands::Working
        && let Ok(run) = live.run(caller, id)
    {
        live.cancel(&run);
    }
    Ok(())
}

/// Handles `tasks/update`: no task of hotcell's requests input, so every response is unexpected.
pub(crate) async fn update(live: &Live, caller: &Caller, id: &str) -> Result<(), ErrorData> {
    find(live, caller, id).await.map(drop).map_err(|report| refused(&report))
}

/// Answer of `run_status` for a run that only its task remembers.
pub(crate) async fn remembered(live: &Live, caller: &Caller, id: &str) -> Option<CallToolResult> {
    match find(live, caller, id).await.ok()?.stands {
        Stands::Completed(answer) => serde_json::from_value(answer).ok(),
        Stands::Failed(why) => Some(reply::refused(&ErrorReport::new(Code::Internal, why).field("run_id"))),
        Stands::Cancelled => {
            Some(reply::refused(&ErrorReport::new(Code::Internal, "it was cancelled").field("run_id")))
        }
        Stands::Working => None,
    }
}
