//! A model asked for the answer of a verb, within a budget: one try, and one more with what was wrong.

use std::path::Path;
use std::sync::Arc;

use hotcell_models::ledger::{Call, Ledger, Purpose};
use hotcell_models::{
    Client, Cost, Endpoint, Message, ModelSettings, Money, PriceTable, Reply, Request, SettingsError, Stop,
    Tokens,
};
use hotcell_state::report::printable;
use hotcell_state::state::StateFolder;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::definition::{Definition, Prompt};
use crate::response::Usage;
use crate::{prompt, schema};

/// Bytes of a request for each token, as far as the budget is concerned. Usual text has more (English about four), so that this is on the safe side.
const BYTES_PER_TOKEN: usize = 2;

/// Records calls in the ledger of usage.
pub type Recorder = Arc<dyn Fn(Vec<Call>) + Send + Sync>;

/// Models of a role, and the ledger.
#[derive(Clone)]
pub struct Means {
    /// Models, in the order in which they are asked.
    pub endpoints: Vec<Endpoint>,
    /// Records each call.
    pub record: Recorder,
}

impl Means {
    /// Models for a definition, and the ledger of a state folder, which is opened before anything is paid for.
    ///
    /// # Errors
    /// The reason why no model is asked.
    pub fn of(settings: &ModelSettings, definition: &Definition, state: &Path) -> Result<Self, String> {
        let Some(prompt) = &definition.prompt else { return Err("the verb has no prompt".to_owned()) };
        let endpoints = settings.of_role(&prompt.role).map_err(|error| match error {
            SettingsError::Nothing => "no model is configured (hotcell model add ollama)".to_owned(),
            other => other.to_string(),
        })?;
        let open = |path: &Path| {
            let folder = StateFolder::open(path).map_err(|e| e.to_string())?;
            Ledger::open(&folder).map_err(|e| e.to_string())
        };
        open(state).map_err(|why| format!("the ledger of usage cannot be used: {why}"))?;
        let state = state.to_owned();
        let record: Recorder = Arc::new(move |calls| {
            let done = open(&state).and_then(|ledger| ledger.record(&calls).map_err(|e| e.to_string()));
            if let Err(why) = done {
                tracing::warn!("a call of a model is not recorded: {why}");
            }
        });
        Ok(Self { endpoints, record })
    }
}

impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Result of asking.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The answer, or the reason for not having one.
    pub answer: Result<Map<String, Value>, String>,
    /// Model that replied last.
    pub model: Option<String>,
    /// Use of models; `None` when none was asked.
    pub usage: Option<Usage>,
}

/// Most that a request may cost at a model; `None` when it is free.
///
/// # Errors
/// A sentence when no price is known.
fn worst(
    endpoint: &Endpoint,
    bytes: usize,
    output: u32,
    prices: &PriceTable,
) -> Result<Option<Money>, String> {
    let fresh = (bytes / BYTES_PER_TOKEN) as u64;
    let tokens = Tokens { fresh, cached: 0, output: output.into() };
    match endpoint.cost(None, Some(tokens), prices) {
        Cost::Free => Ok(None),
        Cost::Known(money) => Ok(Some(money)),
        Cost::Unknown => Err(format!(
            "{} ({}) has no known price; add it again with one (hotcell model add)",
            endpoint.name,
            printable(&endpoint.model)
        )),
    }
}

/// Models that can be asked with the money that is left, and the reasons for those that cannot.
fn affordable(
    endpoints: &[Endpoint],
    (bytes, output): (usize, u32),
    left: Money,
    prices: &PriceTable,
) -> (Vec<Endpoint>, Vec<String>) {
    let (mut good, mut why) = (Vec::new(), Vec::new());
    for endpoint in endpoints {
        match worst(endpoint, bytes, output, prices) {
            Ok(Some(money)) if money > left => {
                why.push(format!("{} may cost {money}, and {left} of the budget is left", endpoint.name));
            }
            Ok(_) => good.push(endpoint.clone()),
            Err(unknown) => why.push(unknown),
        }
    }
    (good, why)
}

/// Room for data in a prompt, in bytes, so that it fits the smallest window.
fn room(endpoints: &[Endpoint], prompt: &Prompt) -> usize {
    let window = endpoints.iter().filter_map(|endpoint| endpoint.window).min().unwrap_or(u32::MAX);
    let input = window.saturating_sub(prompt.max_output_tokens) as usize;
    let own = prompt.system.len() + prompt.user.len() + 2_000;
    input.saturating_mul(BYTES_PER_TOKEN).saturating_sub(own).min(prompt::MAX_DATA_BYTES)
}

/// Use so far.
#[derive(Default)]
struct Spent {
    replies: u32,
    last: Option<(String, String)>,
    tokens: Option<u64>,
    cost: Option<Cost>,
    passed: Vec<String>,
    asked: bool,
}

impl Spent {
    fn add(&mut self, reply: &Reply) {
        self.replies += 1;
        self.last = Some((reply.endpoint.clone(), reply.model.clone()));
        if let Some(tokens) = reply.tokens {
            self.tokens = Some(self.tokens.unwrap_or_default().saturating_add(tokens.total()));
        }
        self.cost = Some(match (self.cost, reply.cost) {
            (None | Some(Cost::Free), cost) => cost,
            (Some(cost), Cost::Free) => cost,
            (Some(Cost::Known(a)), Cost::Known(b)) => Cost::Known(Money(a.0.saturating_add(b.0))),
            _ => Cost::Unknown,
        });
        self.passed.extend(reply.passed_over.iter().map(|tried| printable(&tried.to_string())));
    }

    /// Money that is left; nothing when a cost is not known.
    fn left(&self, budget: Money) -> Money {
        match self.cost {
            None | Some(Cost::Free) => budget,
            Some(Cost::Known(spent)) => Money(budget.0.saturating_sub(spent.0)),
            Some(Cost::Unknown) => Money(0),
        }
    }

    fn ended(self, answer: Result<Map<String, Value>, String>) -> Asked {
        let cost = self.cost.unwrap_or(Cost::Unknown);
        let (name, model) = self.last.unzip();
        let usage = self.asked.then(|| Usage {
            replies: self.replies,
            name,
            tokens: self.tokens,
            cost: cost.name().to_owned(),
            dollars: cost.money().map(Money::dollars),
            passed_over: self.passed,
        });
        Asked { answer, model, usage }
    }
}

/// Asks for the answer over the data, and checks it against the definition's schema.
pub async fn ask(
    definition: &Definition,
    asked: &Prompt,
    (inputs, data): (&Map<String, Value>, &Map<String, Value>),
    means: &Means,
    nonce: &str,
) -> Asked {
    let (mut spent, prices) = (Spent::default(), PriceTable::published());
    let deadline = Instant::now() + asked.timeout;
    let Some(budget) = Money::from_dollars(asked.budget) else {
        return spent.ended(Err("the budget is no amount".to_owned()));
    };
    let purpose = match Purpose::new(&asked.role, Some(&definition.verb.to_string()), None) {
        Ok(purpose) => purpose,
        Err(error) => return spent.ended(Err(error.to_string())),
    };
    let text = prompt::text(definition, asked, inputs, data, (nonce, room(&means.endpoints, asked)));
    let mut request = Request {
        system: (!asked.system.trim().is_empty()).then(|| asked.system.clone()),
        messages: vec![Message::user(text)],
        max_output_tokens: asked.max_output_tokens,
        ..Request::default()
    };
    let mut problems = Vec::new();
    for attempt in 1..=2 {
        let bytes = request_bytes(&request);
        let (endpoints, why) =
            affordable(&means.endpoints, (bytes, asked.max_output_tokens), spent.left(budget), &prices);
        spent.passed.extend(why);
        if endpoints.is_empty() {
            let passed = spent.passed.join("; ");
            let first = if problems.is_empty() { String::new() } else { refused(&problems) + ", and " };
            return spent.ended(Err(format!("{first}no model fits the budget of {budget}: {passed}")));
        }
        let client = match Client::new(endpoints) {
            Ok(client) => client,
            Err(error) => return spent.ended(Err(error.to_string())),
        };
        spent.asked = true;
        let reply = match client.complete(&request, deadline).await {
            Ok(reply) => reply,
            Err(error) => {
                (means.record)(Call::of_error(&purpose, &error).unwrap_or_default());
                return spent.ended(Err(printable(&error.to_string())));
            }
        };
        (means.record)(Call::of_reply(&purpose, &reply).unwrap_or_default());
        spent.add(&reply);
        match checked(definition, &reply) {
            Ok(answer) => return spent.ended(Ok(answer)),
            Err(found) => problems = found,
        }
        if attempt == 1 {
            let empty = reply.text.trim().is_empty();
            let said = if empty { "(an empty answer)".to_owned() } else { reply.text.clone() };
            request.messages.push(Message::assistant(said));
            request.messages.push(Message::user(prompt::repair(&problems)));
        }
    }
    spent.ended(Err(format!("{}, also in a second try", refused(&problems))))
}

fn refused(problems: &[String]) -> String {
    format!(
        "the model's answer is not valid: {}",
        printable(&problems.join("; ").chars().take(400).collect::<String>())
    )
}

fn request_bytes(request: &Request) -> usize {
    let message = |message: &Message| match message {
        Message::User { text } | Message::Assistant { text, .. } | Message::Tool { text, .. } => text.len(),
    };
    request.system.as_ref().map_or(0, String::len) + request.messages.iter().map(message).sum::<usize>()
}

/// The answer in a reply, or what is wrong with it.
fn checked(definition: &Definition, reply: &Reply) -> Result<Map<String, Value>, Vec<String>> {
    if reply.stop == Stop::Length {
        return Err(vec!["it was cut at the limit of output tokens; be shorter".to_owned()]);
    }
    let answer = prompt::answer(&reply.text).map_err(|why| vec![why])?;
    let problems = schema::problems(&definition.returns, &answer);
    match answer {
        Value::Object(fields) if problems.is_empty() => Ok(fields),
        _ => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use hotcell_models::Provider;
    use hotcell_models::endpoint::DeclaredPrice;

    use super::*;

    fn endpoint(name: &str, price: Option<DeclaredPrice>) -> Endpoint {
        let mut endpoint =
            Endpoint::new(name, Provider::Compatible, Some("https://models.example.org/v1"), "m", None)
                .unwrap();
        endpoint.price = price;
        endpoint
    }

    #[test]
    fn models_are_asked_within_the_budget_only() {
        let price = hotcell_models::Price { input: 1.0, cached: None, output: 10.0 };
        let all = [
            endpoint("unknown", None),
            endpoint("paid", Some(DeclaredPrice::Tokens(price))),
            endpoint("free", Some(DeclaredPrice::Free)),
        ];
        // 40,000 bytes are 20,000 tokens: 0.02 $, and 0.01 $ of output.
        let names = |budget: f64| {
            let budget = Money::from_dollars(budget).unwrap();
            let (good, why) = affordable(&all, (40_000, 1_000), budget, &PriceTable::published());
            (good.into_iter().map(|one| one.name).collect::<Vec<_>>().join(" "), why.join("; "))
        };
        assert_eq!(names(0.03).0, "paid free");
        let (good, why) = names(0.029);
        assert_eq!(good, "free");
        assert!(
            why.contains("unknown (m) has no known price") && why.contains("paid may cost $0.0300"),
            "{why}"
        );
        assert_eq!(names(0.0).0, "free");
    }

    #[test]
    fn unknown_costs_leave_nothing_for_a_second_try() {
        let budget = Money(100);
        for (cost, left) in [
            (None, 100),
            (Some(Cost::Free), 100),
            (Some(Cost::Known(Money(30))), 70),
            (Some(Cost::Known(Money(200))), 0),
            (Some(Cost::Unknown), 0),
        ] {
            assert_eq!(Spent { cost, ..Spent::default() }.left(budget), Money(left));
        }
    }
}
