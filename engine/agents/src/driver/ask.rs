//! Calls of models: prompt, reservation, reply, ledger.

use std::time::{Duration, Instant};

use hotcell_models::ledger::{Call, LedgerError};
use hotcell_models::settings::SettingsError;
use hotcell_models::{
    Client, Cost, Endpoint, ModelError, Money, PriceTable, Prompts, Purpose, Reply, Request, Stop, Tokens,
};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use tokio::time::Instant as Deadline;

use super::make::{Made, Workshop};
use super::said::Said;
use super::{Driver, Session};
use crate::attempt::Attempt;
use crate::budget::Amount;
use crate::journal::{Entry, Task};
use crate::loops::Sight;
use crate::machine::{Ask, Event};
use crate::make::Stage;
use crate::prompt::{self, Earlier, Shown, Unusable};
use crate::tree;

/// Role of repairs.
pub(crate) const REPAIR_ROLE: &str = "debugger";
/// Role of first artifacts and fresh samples.
pub(crate) const FRESH_ROLE: &str = "coder";
/// Time limit for a reply, with all attempts at all models (S2.23).
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);
/// Size of the shown sources when no window is configured, in bytes.
const USUAL_SOURCES_BYTES: usize = 48_000;
/// Size of instructions and results in a prompt, in tokens.
pub(super) const FIXED_TOKENS: u64 = 1_200;
/// Bytes of code for a token, at the least.
pub(super) const BYTES_OF_A_TOKEN: u64 = 3;

impl Driver<'_> {
    /// Clients of the two roles that write code.
    pub(crate) fn clients(&self, task: &Task) -> Result<(Client, Client), ErrorReport> {
        Ok((self.client(task, REPAIR_ROLE)?, self.client(task, FRESH_ROLE)?))
    }

    /// Client of a role.
    pub(super) fn client(&self, task: &Task, role: &str) -> Result<Client, ErrorReport> {
        let endpoints = match &task.model {
            Some(name) => vec![self.models.endpoint(name).map_err(|e| unknown(&e))?.clone()],
            None => self.models.of_role(role).map_err(|e| unknown(&e))?,
        };
        if let Some(limit) = task.limits.picodollars {
            check_prices(&endpoints, Money(limit))?;
        }
        Client::new(endpoints).map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))
    }
}

/// Refuses models of a role when none of them can be asked for want of its key.
///
/// # Errors
/// A report with the first one's reason.
pub(super) fn check_keys(client: &Client) -> Result<(), ErrorReport> {
    let missing: Option<Vec<(&str, String)>> =
        client.endpoints().map(|endpoint| Some((endpoint.name.as_str(), endpoint.missing_key()?))).collect();
    match missing.as_deref() {
        Some([(name, why), ..]) => {
            let report = ErrorReport::new(Code::Configuration, format!("the model {name} has no key: {why}"));
            Err(report.hint(format!("hotcell model check {name} tries it")))
        }
        _ => Ok(()),
    }
}

/// The report of a model or role that is not configured.
pub(crate) fn unknown(error: &SettingsError) -> ErrorReport {
    match error {
        SettingsError::Nothing => ErrorReport::new(Code::Configuration, "no model is configured").hint(
            "hotcell model add ollama takes the local Ollama's; hotcell model add --help names the other providers",
        ),
        SettingsError::NoRole(role) => ErrorReport::new(Code::UnknownName, error.to_string())
            .hint(format!("hotcell model add NAME --role {role} gives it one, or name a model with ‹model›")),
        _ => ErrorReport::new(Code::UnknownName, error.to_string())
            .field("--model")
            .hint("hotcell model list names them"),
    }
}

/// Most that tokens cost at an endpoint; `None` when no price is known.
fn price(endpoint: &Endpoint, tokens: Tokens) -> Option<u64> {
    endpoint.cost(None, Some(tokens), &PriceTable::published()).money().map(|money| money.0)
}

pub(crate) fn check_prices(endpoints: &[Endpoint], limit: Money) -> Result<(), ErrorReport> {
    let one = Tokens { fresh: 1000, cached: 0, output: 1000 };
    for endpoint in endpoints {
        let name = &endpoint.name;
        match price(endpoint, one) {
            None => {
                let why =
                    format!("the price of {name} is not known, so that a budget of money means nothing");
                return Err(ErrorReport::new(Code::Configuration, why)
                    .field("--budget")
                    .hint(format!("set price in [models.{name}], or limit tokens, calls or time")));
            }
            Some(cost) if cost > 0 && limit.0 == 0 => {
                let why = format!("a budget of {limit} allows no call of {name}, which costs money");
                return Err(ErrorReport::new(Code::InvalidValue, why).field("--budget"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl Session<'_> {
    /// Asks a model, and reads its answer.
    pub(crate) async fn ask(&self, attempt: &mut Attempt, ask: Ask) -> Result<(), ErrorReport> {
        if self.left_ms() == Some(0) {
            return self.note(attempt, &[Entry::Step { event: Event::OutOfTime }]);
        }
        if self.accepted.get() {
            return self.note(attempt, &[Entry::Step { event: Event::Overtaken }]);
        }
        let kind = if ask == Ask::Again { attempt.ask } else { ask };
        let (client, role) = self.role(attempt, kind);
        let request = match self.stage_of(attempt) {
            Some(stage) => self.stage_request(stage, attempt, ask)?,
            None => self.request(attempt, ask, kind, client)?,
        };
        let most = most(client, &request);
        let reserved = self.budget.borrow_mut().reserve(most);
        if let Err(which) = reserved {
            return self.note(attempt, &[Entry::Step { event: Event::OverBudget(which.to_owned()) }]);
        }
        self.note(attempt, &[Entry::Asked { ask, role: role.to_owned(), most }])?;
        let iteration = attempt.state.iteration() + 1;
        let names: Vec<&str> = client.endpoints().map(|endpoint| endpoint.name.as_str()).collect();
        let asked = match (self.stage_of(attempt), ask) {
            (Some((_, Stage::Architect)), Ask::First) => "plan".to_owned(),
            (Some((_, Stage::Tester)), Ask::First | Ask::Repair | Ask::Fresh) => "tests".to_owned(),
            (None, _) if self.shop.is_some() => format!("{role}, {}", word(ask)),
            _ => word(ask).to_owned(),
        };
        let line =
            format!("{iteration} of {}: {asked}, asks {}", attempt.state.rules.iterations, names.join(", "));
        self.say(attempt, &line);
        let began = Instant::now();
        let time =
            self.left_ms().map_or(REPLY_TIMEOUT, |left| REPLY_TIMEOUT.min(Duration::from_millis(left)));
        let result = client.complete(&request, Deadline::now() + time).await;
        let purpose = Purpose::new(role, Some(&self.id), Some(iteration));
        match result {
            Ok(reply) => {
                let used = used(&reply, most);
                self.budget.borrow_mut().settle(most, used);
                let entry = Entry::Replied {
                    text: reply.words(),
                    cut: reply.stop == Stop::Length,
                    model: reply.model.clone(),
                    used,
                    cost: reply.cost.name().to_owned(),
                    time_ms: u64::try_from(reply.time.as_millis()).unwrap_or(u64::MAX),
                };
                // The ledger comes first: a driver that is killed between the two asks again, and both calls are counted, since both were made.
                self.record(attempt, purpose.and_then(|purpose| Call::of_reply(&purpose, &reply)));
                self.note(attempt, &[entry])?;
                self.read(attempt)
            }
            Err(error) => self.unanswered(attempt, &error, (most, began.elapsed()), purpose),
        }
    }

    fn unanswered(
        &self,
        attempt: &mut Attempt,
        error: &ModelError,
        (most, elapsed): (Amount, Duration),
        purpose: Result<Purpose, LedgerError>,
    ) -> Result<(), ErrorReport> {
        let (charged, free) = match error {
            ModelError::Unavailable(tried) => {
                (tried.iter().any(|tried| tried.maybe_charged), tried.iter().all(|tried| tried.free))
            }
            _ => (false, false),
        };
        let used = match (charged, free) {
            (false, _) => Amount { calls: 1, ..Amount::default() },
            (true, true) => Amount { picodollars: 0, ..most },
            (true, false) => most,
        };
        self.budget.borrow_mut().settle(most, used);
        let why = error.to_string();
        let event = match (self.left_ms(), charged) {
            (Some(0), _) => Event::OutOfTime,
            // Something came that could not be used, such as a reply without end.
            (_, true) => Event::Malformed { why: why.clone() },
            (_, false) => Event::Unavailable { seconds: elapsed.as_secs(), passes: false, why: why.clone() },
        };
        self.say(attempt, &format!("no answer: {why}"));
        self.record(attempt, purpose.and_then(|purpose| Call::of_error(&purpose, error)));
        // An answer of before is not that of this call.
        let rows = [Entry::NoReply { why, used }, Entry::Step { event }];
        self.note(attempt, &rows)
    }

    /// Settles a call whose end no driver saw: it may have been charged, and counts with its reservation.
    pub(crate) fn settle_lost(&self, attempt: &mut Attempt, most: Amount) -> Result<(), ErrorReport> {
        self.budget.borrow_mut().settle(most, most);
        let (_, role) = self.role(attempt, attempt.ask);
        let purpose = Purpose::new(role, Some(&self.id), Some(attempt.state.iteration() + 1));
        let call = purpose.map(|purpose| {
            vec![Call {
                id: String::new(),
                time_us: hotcell_state::time::micros_since_1970(std::time::SystemTime::now()),
                purpose,
                at: None,
                total: None,
                tokens: None,
                cost: if most.picodollars == 0 { Cost::Free } else { Cost::Unknown },
                taken_us: None,
                replied: false,
                stamp: None,
            }]
        });
        self.record(attempt, call);
        let why = "the driver ended before a reply".to_owned();
        self.note(attempt, &[Entry::NoReply { why, used: most }])
    }

    /// Records rows in the ledger under ids of the session's own, so that none is there twice.
    fn record(&self, attempt: &Attempt, calls: Result<Vec<Call>, LedgerError>) {
        let named = calls.map(|calls| {
            let id = |(at, call): (usize, Call)| Call {
                id: format!("{}.{}.{}.{at}", self.id, attempt.number, attempt.calls),
                ..call
            };
            calls.into_iter().enumerate().map(id).collect::<Vec<_>>()
        });
        if let Err(error) = named.and_then(|calls| self.ledger.record(&calls)) {
            tracing::warn!("the call is not in the ledger: {error}");
        }
    }

    /// Reads the last answer.
    pub(crate) fn read(&self, attempt: &mut Attempt) -> Result<(), ErrorReport> {
        let refusal = match self.stage_of(attempt) {
            Some(stage) => self.stage_refusal(stage, attempt)?,
            None => self.edit(attempt)?.err().map(|malformed| malformed.to_string()),
        };
        let event = match refusal {
            None => Event::Answered,
            Some(why) => {
                self.say(attempt, &format!("the answer cannot be used: {}", crate::text::line(&why, 200)));
                Event::Malformed { why }
            }
        };
        self.note(attempt, &[Entry::Step { event }])
    }

    /// Client and name of the role that is asked.
    fn role(&self, attempt: &Attempt, kind: Ask) -> (&Client, &'static str) {
        match (self.stage_of(attempt), kind) {
            (Some((shop, stage)), _) => (shop.client(stage), stage.role()),
            (None, Ask::First | Ask::Fresh) => (&self.fresh, FRESH_ROLE),
            (None, Ask::Again | Ask::Repair) => (&self.repairs, REPAIR_ROLE),
        }
    }

    /// The stage that an attempt stands for.
    pub(super) fn stage_of(&self, attempt: &Attempt) -> Option<(&Workshop, Stage)> {
        Some((self.shop.as_ref()?, Stage::of(attempt.number)?))
    }

    /// Tests that count and the task, in a session that makes code.
    pub(super) fn made(&self) -> Option<&Made> {
        self.shop.as_ref()?.made.get()
    }

    /// Seed of a call.
    pub(super) fn seed(&self, attempt: &Attempt) -> Option<i64> {
        self.task.seed.map(|seed| seed + i64::from(attempt.number) * 1000 + i64::from(attempt.calls))
    }

    /// The request for a question, with the sources of the artifact that it begins with.
    fn request(
        &self,
        attempt: &Attempt,
        ask: Ask,
        kind: Ask,
        client: &Client,
    ) -> Result<Request, ErrorReport> {
        let word = random_hex(8)?;
        let (most, output) = room(client, self.task.max_output_tokens);
        let evidence = attempt.tested.get(attempt.state.base()).map(|tested| &tested.evidence);
        // The results of a stub tell nothing to those who write the first artifact.
        let evidence = evidence.filter(|_| !(attempt.state.stub && kind == Ask::First));
        let words = self.made().map(|made| made.words.as_str()).or(self.task.words.as_deref());
        let most = most.saturating_sub(words.map_or(0, str::len));
        let (names, files) = self.sources(attempt, most)?;
        let earlier = if kind == Ask::Repair { earlier(attempt) } else { Vec::new() };
        let told = attempt.told.map(|sight| match sight {
            Sight::Repeats(_) => {
                "An earlier answer had this code already, with these failing tests. Do something else."
            }
            _ => {
                "The last answers changed nothing in the results. The cause is elsewhere. Do something else."
            }
        });
        let said = Said::of(&self.journal.notes(&self.id).map_err(|e| super::of_journal(&e))?);
        let constraints = [&self.task.constraints[..], &said.instructions].concat();
        let task = prompt::Task {
            words,
            brief: self.made().and_then(|made| made.brief.as_deref()),
            constraints: &constraints,
            names: &names,
            files: &files,
            evidence,
            earlier: &earlier,
            told,
            iteration: (attempt.state.iteration() + 1, attempt.state.rules.iterations),
            word: &word,
        };
        let unusable = attempt.unusable.as_deref().filter(|_| ask == Ask::Again).map(|why| Unusable {
            answer: attempt.answer.as_ref().map(|answer| answer.text.as_str()).unwrap_or_default(),
            why,
        });
        let is_short = client.endpoints().all(|endpoint| endpoint.prompts == Prompts::Short);
        let seed = self.seed(attempt);
        let mut request = match self.only(&files).filter(|_| is_short) {
            Some(path) => prompt::short::request(kind, &task, &path, unusable, output, seed),
            None => prompt::request(kind, &task, unusable, output, seed),
        };
        if let Some(base) = said.base_prompt {
            request.system = Some(format!("{base}\n\n{}", request.system.unwrap_or_default()));
        }
        Ok(request)
    }

    /// Names of all files, and the sources that a prompt shows.
    pub(crate) fn sources(
        &self,
        attempt: &Attempt,
        most: usize,
    ) -> Result<(Vec<tree::Listed>, Vec<Shown>), ErrorReport> {
        let base = attempt.state.base();
        let Some(workspace) = &attempt.workspace else { return Ok((Vec::new(), Vec::new())) };
        self.driver.bench.show(workspace, base)?;
        let evidence = attempt.tested.get(base).map(|tested| &tested.evidence);
        self.driver.bench.look(workspace, |view| {
            let names = tree::list(view)?;
            let files = prompt::select(&names, evidence, most, &|file| tree::shown(view, file));
            Ok((names, files))
        })
    }

    /// The file that an answer without paths is for: the only source that was shown, or that is planned.
    pub(crate) fn only(&self, shown: &[Shown]) -> Option<String> {
        let mut code = shown.iter().filter(|file| !file.is_test);
        match (code.next(), code.next()) {
            (Some(one), None) => Some(one.path.clone()),
            (None, _) => self.made().and_then(|made| made.only.clone()),
            _ => None,
        }
    }

    /// Size of the sources in prompts of the role that was asked last, in bytes.
    pub(crate) fn source_bytes(&self, attempt: &Attempt) -> usize {
        let client = if matches!(attempt.ask, Ask::First | Ask::Fresh) { &self.fresh } else { &self.repairs };
        room(client, self.task.max_output_tokens).0
    }
}

fn word(ask: Ask) -> &'static str {
    match ask {
        Ask::First => "first artifact",
        Ask::Again => "the question again",
        Ask::Repair => "repair",
        Ask::Fresh => "fresh sample",
    }
}

/// Bytes for sources and tokens for output within the smallest window.
pub(crate) fn room(client: &Client, max_output_tokens: u32) -> (usize, u32) {
    let Some(window) = client.endpoints().filter_map(|endpoint| endpoint.window).min() else {
        return (USUAL_SOURCES_BYTES, max_output_tokens);
    };
    let output = max_output_tokens.min((window / 3).max(1));
    let tokens = u64::from(window - output).saturating_sub(FIXED_TOKENS).max(256);
    (usize::try_from(tokens * BYTES_OF_A_TOKEN).unwrap_or(usize::MAX), output)
}

/// Most that a call takes: at the dearest of the endpoints.
pub(crate) fn most(client: &Client, request: &Request) -> Amount {
    let text = |message: &hotcell_models::Message| match message {
        hotcell_models::Message::User { text }
        | hotcell_models::Message::Assistant { text, .. }
        | hotcell_models::Message::Tool { text, .. } => text.len() as u64,
    };
    let system = request.system.as_ref().map_or(0, |system| system.len() as u64);
    let bytes = request.messages.iter().map(text).sum::<u64>() + system;
    let tokens = Tokens { fresh: bytes / 2, cached: 0, output: request.max_output_tokens.into() };
    Amount {
        picodollars: client.endpoints().filter_map(|endpoint| price(endpoint, tokens)).max().unwrap_or(0),
        tokens: tokens.total(),
        calls: 1,
    }
}

/// Amount that a reply took; counts that the provider did not give are those of the reservation. Calls before it that may have been charged count as one
/// each.
pub(crate) fn used(reply: &Reply, most: Amount) -> Amount {
    let lost = reply.passed_over.iter().filter(|tried| tried.maybe_charged).count() as u64;
    let paid = reply.passed_over.iter().filter(|tried| tried.maybe_charged && !tried.free).count() as u64;
    Amount {
        picodollars: reply.cost.money().map_or(most.picodollars, |money| money.0) + paid * most.picodollars,
        tokens: reply.tokens.map_or(most.tokens, |tokens| tokens.fresh + tokens.output) + lost * most.tokens,
        calls: 1 + lost,
    }
}

/// Earlier attempts in words, the given code left out.
fn earlier(attempt: &Attempt) -> Vec<Earlier> {
    let Some(before) = attempt.before() else { return Vec::new() };
    let all = attempt.tested.iter().enumerate().skip(usize::from(attempt.state.given));
    all.map(|(at, tested)| {
        let compared = tested.evidence.compared(before);
        Earlier {
            number: u32::try_from(at).unwrap_or(u32::MAX),
            files: tested.files.clone(),
            good: (compared.good, compared.required),
            failing: compared.failing.iter().take(5).cloned().collect(),
            analysis: tested.analysis.clone(),
        }
    })
    .collect()
}
