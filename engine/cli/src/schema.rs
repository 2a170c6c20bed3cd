//! `hotcell schema`: the JSON Schema of each output.

use hotcell_sandbox::doctor;
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::workspaces;

use crate::agents::processes;
use crate::mcp::{call, check, denials, install, servers};
use crate::model;
use crate::quote;
use crate::session::report as session;
use crate::suggested::verbs;
use crate::{agent_run, exit, fleet, init, receipt, serve, test_list, usage, web, worker, worker_metrics};

/// Outputs with a JSON Schema.
pub const SCHEMAS: &[&str] = &[
    "outcome",
    "test_report",
    "test_list",
    "scan",
    "quarantine",
    "approvals",
    "binaries",
    "cache",
    "audit",
    "runs",
    "requests",
    "suggestion",
    "suggestions",
    "receipts",
    "receipt_keys",
    "receipt",
    "agent_receipt",
    "cell",
    "named_session",
    "named_sessions",
    "session_interrupt",
    "workspace",
    "workspaces",
    "images",
    "tools",
    "inspect",
    "doctor",
    "attacks",
    "bench",
    "init",
    "mcp_install",
    "mcp_check",
    "mcp_servers",
    "mcp_denials",
    "mcp_call",
    "mcp_tools",
    "serve",
    "models",
    "model_check",
    "model_reply",
    "agent_session",
    "agent_sessions",
    "agent_review",
    "agent_handoff",
    "make_processes",
    "usage",
    "usage_merge",
    "agent_response",
    "agent_definitions",
    "web",
    "worker",
    "worker_status",
    "fleet_status",
    "error",
];

/// Runs `hotcell schema NAME`.
pub fn schema(name: &str, json: bool) -> u8 {
    let short = name.strip_prefix("hotcell.").unwrap_or(name);
    let short = short.strip_suffix("/1").unwrap_or(short);
    let (mut schema, constant) = match short {
        "outcome" => (schemars::schema_for!(hotcell_report::RunReport), hotcell_sandbox::outcome::SCHEMA),
        "test_report" => {
            (schemars::schema_for!(hotcell_testing::TestReport), hotcell_testing::report::SCHEMA)
        }
        "test_list" => (schemars::schema_for!(test_list::TestList), test_list::SCHEMA),
        "scan" => (schemars::schema_for!(hotcell_guard::Report), hotcell_guard::SCHEMA),
        "quarantine" => {
            (schemars::schema_for!(hotcell_review::quarantine::Items), hotcell_review::quarantine::SCHEMA)
        }
        "approvals" => (
            schemars::schema_for!(hotcell_review::approvals::ApprovalList),
            hotcell_review::approvals::SCHEMA,
        ),
        "binaries" => {
            (schemars::schema_for!(hotcell_review::binaries::BinaryList), hotcell_review::binaries::SCHEMA)
        }
        "cache" => (schemars::schema_for!(hotcell_verbs::caches::CacheList), hotcell_verbs::caches::SCHEMA),
        "audit" => (schemars::schema_for!(hotcell_state::audit::AuditLog), hotcell_state::audit::SCHEMA),
        "requests" => (
            schemars::schema_for!(hotcell_state::history::RequestList),
            hotcell_state::history::REQUESTS_SCHEMA,
        ),
        "suggestion" => (schemars::schema_for!(hotcell_learn::Suggestion), hotcell_learn::suggestion::SCHEMA),
        "suggestions" => (schemars::schema_for!(verbs::SuggestionList), verbs::SCHEMA),
        "runs" => (schemars::schema_for!(hotcell_state::RunList), hotcell_state::history::SCHEMA),
        "receipts" => (schemars::schema_for!(receipt::ReceiptList), receipt::SCHEMA),
        "receipt_keys" => (schemars::schema_for!(receipt::KeyList), receipt::KEYS_SCHEMA),
        "receipt" => {
            (schemars::schema_for!(hotcell_receipts::run::RunPredicate), hotcell_receipts::run::SCHEMA)
        }
        "agent_receipt" => {
            (schemars::schema_for!(hotcell_receipts::agent::AgentPredicate), hotcell_receipts::run::SCHEMA)
        }
        "cell" => (schemars::schema_for!(session::CellReport<'_>), session::CELL_SCHEMA),
        "named_session" => (schemars::schema_for!(session::NamedReport<'_>), session::NAMED_SCHEMA),
        "named_sessions" => (schemars::schema_for!(session::NamedList<'_>), session::LIST_SCHEMA),
        "session_interrupt" => {
            (schemars::schema_for!(session::InterruptReport<'_>), session::INTERRUPT_SCHEMA)
        }
        "workspace" => (schemars::schema_for!(workspaces::WorkspaceReport), workspaces::SCHEMA),
        "workspaces" => (schemars::schema_for!(workspaces::WorkspaceList), workspaces::LIST_SCHEMA),
        "images" => (schemars::schema_for!(hotcell_verbs::images::ImageList), hotcell_verbs::images::SCHEMA),
        "tools" => (schemars::schema_for!(hotcell_plugins::ToolList), hotcell_plugins::report::SCHEMA),
        "inspect" => {
            (schemars::schema_for!(hotcell_plugins::Inspection), hotcell_plugins::report::INSPECT_SCHEMA)
        }
        "doctor" => (schemars::schema_for!(doctor::Doctor), doctor::SCHEMA),
        "attacks" => (schemars::schema_for!(hotcell_proof::report::Report), hotcell_proof::report::SCHEMA),
        "bench" => (schemars::schema_for!(hotcell_bench::Report), hotcell_bench::report::SCHEMA),
        "init" => (schemars::schema_for!(init::Initialized), init::SCHEMA),
        "mcp_install" => (schemars::schema_for!(install::Installed), install::SCHEMA),
        "mcp_check" => (schemars::schema_for!(check::Checked), check::SCHEMA),
        "mcp_servers" => (schemars::schema_for!(servers::ServerList), servers::SCHEMA),
        "mcp_denials" => (schemars::schema_for!(denials::Denials), denials::DENIALS_SCHEMA),
        "mcp_call" => (schemars::schema_for!(call::Called), call::CALL_SCHEMA),
        "mcp_tools" => (schemars::schema_for!(call::Tried), call::TOOLS_SCHEMA),
        "serve" => (schemars::schema_for!(serve::Served), serve::SCHEMA),
        "worker" => (schemars::schema_for!(worker::Worked), worker::SCHEMA),
        "worker_status" => (schemars::schema_for!(worker_metrics::WorkerStatus), worker_metrics::SCHEMA),
        "fleet_status" => (schemars::schema_for!(fleet::FleetStatus), fleet::SCHEMA),
        "web" => (schemars::schema_for!(web::WebLinks), web::SCHEMA),
        "models" => (schemars::schema_for!(model::ModelList), model::SCHEMA),
        "model_check" => (schemars::schema_for!(model::Checks), model::CHECK_SCHEMA),
        "model_reply" => (schemars::schema_for!(model::ask::Answer), model::ask::SCHEMA),
        "agent_session" => {
            (schemars::schema_for!(hotcell_agents::SessionReport), hotcell_agents::report::SCHEMA)
        }
        "agent_sessions" => {
            (schemars::schema_for!(hotcell_agents::report::SessionList), hotcell_agents::report::LIST_SCHEMA)
        }
        "agent_review" => {
            (schemars::schema_for!(hotcell_agents::ReviewReport), hotcell_agents::critic::SCHEMA)
        }
        "make_processes" => (schemars::schema_for!(processes::ProcessesReport), processes::SCHEMA),
        "agent_handoff" => {
            (schemars::schema_for!(hotcell_server::agents::Handoff), hotcell_server::agents::HANDOFF_SCHEMA)
        }
        "usage" => {
            (schemars::schema_for!(hotcell_models::ledger::UsageReport), hotcell_models::ledger::SCHEMA)
        }
        "usage_merge" => (schemars::schema_for!(model::spent::MergeReport), model::spent::MERGE_SCHEMA),
        "agent_response" => {
            (schemars::schema_for!(hotcell_definitions::Response), hotcell_definitions::response::SCHEMA)
        }
        "agent_definitions" => (schemars::schema_for!(agent_run::DefinitionList), agent_run::SCHEMA),
        "error" => (schemars::schema_for!(ErrorReport), hotcell_state::report::SCHEMA),
        _ => {
            let near = likely(short, SCHEMAS.iter().copied());
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let report =
                ErrorReport::new(Code::UnknownName, format!("there is no schema {}", quote::quoted(name)))
                    .field(name)
                    .hint(format!("{near}there are {}", SCHEMAS.join(", ")));
            return usage::fail(&report, json);
        }
    };
    if let Some(field) = schema.pointer_mut("/properties/schema") {
        field["const"] = constant.into();
    }
    exit::printed(exit::print_json(&schema), 0)
}
