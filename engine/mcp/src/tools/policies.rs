//! The coding rules of the operator's organisation.

use hotcell_config::policies;
use hotcell_config::policies::{PolicyType, Rule, Source};
use hotcell_sandbox::text::counted;
use hotcell_server::Live;
use hotcell_state::report::ErrorReport;
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MAX_CONTENT_CHARS;

use super::{answered, blocking, parse};

/// Arguments of `read_org_policies`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOrgPolicies {
    /// Type of the rules.
    pub policy_type: PolicyType,
    /// Number of rules to skip: next_offset of an earlier answer.
    #[serde(default)]
    pub offset: usize,
}

/// Answer of `read_org_policies`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrgPolicies {
    /// Type of the rules.
    pub policy_type: PolicyType,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// Origin of the rules: the operator's file, or hotcell's own baseline.
    pub source: Source,
    /// Number of all rules of this type.
    pub total: usize,
    /// Offset of the next rules; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

pub async fn read(live: &Live, arguments: JsonObject) -> Result<CallToolResult, ErrorReport> {
    let asked: ReadOrgPolicies = parse(arguments)?;
    let folder = live.configuration().user.policies.clone();
    let all = blocking(move || {
        policies::read(folder.as_deref(), asked.policy_type).map_err(|report| {
            // The error names folders of the host.
            tracing::warn!("the policies cannot be read: {report}");
            let why = "the operator's policies cannot be read; hotcell's log says why";
            ErrorReport::new(report.code, why).field("policy_type")
        })
    });
    let all = all.await?;
    let (rules, next_offset) = page(&all.rules, asked.offset, MAX_CONTENT_CHARS);
    let about = OrgPolicies {
        policy_type: all.policy_type,
        rules,
        source: all.source,
        total: all.rules.len(),
        next_offset,
    };
    let mut words = match (about.total, about.source) {
        (0, _) => format!("there are no rules of the type {}", about.policy_type.name()),
        (n, Source::File) => format!("{} of this organisation", counted(n, "rule")),
        (n, Source::Default) => {
            format!("{}, hotcell's baseline after the OWASP Top 10:2025", counted(n, "rule"))
        }
    };
    for rule in &about.rules {
        words.push_str(&format!("\n\n## {}\n{}", rule.title, rule.text));
    }
    if let Some(next) = about.next_offset {
        words.push_str(&format!("\n\nmore from offset {next} on"));
    }
    Ok(answered(&about, words))
}

/// A page of rules from an offset on, about as long as an answer may be. It has at least one rule, which is
/// cut when it alone is too long.
fn page(all: &[Rule], offset: usize, budget: usize) -> (Vec<Rule>, Option<usize>) {
    let mut room = budget;
    let mut rules = Vec::new();
    for rule in all.iter().skip(offset) {
        let cost = rule.title.chars().count() + rule.text.chars().count() + 40;
        if cost > room && !rules.is_empty() {
            break;
        }
        room = room.saturating_sub(cost);
        let cut = |text: &str| text.chars().take(budget).collect();
        rules.push(Rule { title: cut(&rule.title), text: cut(&rule.text) });
    }
    let next = offset.saturating_add(rules.len());
    (rules, (next < all.len()).then_some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_every_rule_once() {
        let all: Vec<Rule> =
            (0..10).map(|n| Rule { title: n.to_string(), text: "a".repeat(n * 30) }).collect();
        for budget in [1, 100, 300, 10_000] {
            let (mut seen, mut offset) = (Vec::new(), Some(0));
            while let Some(at) = offset {
                let (rules, next) = page(&all, at, budget);
                assert!(!rules.is_empty());
                seen.extend(rules.into_iter().map(|r| r.title));
                offset = next;
            }
            assert_eq!(seen, (0..10).map(|n| n.to_string()).collect::<Vec<_>>(), "{budget}");
        }
        assert_eq!(page(&all, 99, 100), (Vec::new(), None));
        assert_eq!(page(&[], 0, 100), (Vec::new(), None));
    }
}
