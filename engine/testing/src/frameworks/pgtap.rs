//! pgTAP: tests in SQL, run in a new PostgreSQL.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use hotcell_sandbox::policy::HOME;

use crate::case::{
    Entry, FinalReport, MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_TEXT_BYTES, ReportError, Status,
};
use crate::event::{Ended, Event, EventReader};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, NOT_INSTALLED, REPORTERS,
    REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::programs::{self, Prints, ProgramEvents, Running};
use crate::frameworks::runner;
use crate::frameworks::tap::{Point, Tap};
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::text::{Budget, clip};

/// Shell functions that find a PostgreSQL, start a temporary one in a folder, and stop it.
pub const POSTGRES: &str = include_str!("sh/postgres.sh");
const RUNNER: &str = "hotcell_pgtap.sh";
const REPORT: &str = "pgtap.txt";

/// Support for pgTAP.
#[derive(Debug)]
pub struct PgTap;

impl Framework for PgTap {
    fn name(&self) -> &'static str {
        "pgtap"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Sql
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let signs = ["plan(", "PLAN(", "runtests("];
        let file = first_with(
            project,
            |f| f.ends_with(".sql") || f.ends_with(".pg"),
            &["finish()", "FINISH()", signs[2]],
        )?;
        let text = project.read(&file)?;
        let has = signs.iter().any(|sign| text.windows(sign.len()).any(|w| w == sign.as_bytes()));
        has.then(|| Evidence { strength: Strength::Used, reason: format!("{file} has a plan of pgTAP") })
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let unsupported = |option, hint| Err(CommandError::Unsupported { framework: "pgtap", option, hint });
        if selection.jobs.is_some() {
            return unsupported("‹jobs›", "leave it out: files run one after the other");
        }
        // The tests of a file are one program, so the file of an id is the smallest unit.
        let filter = selection.filter.as_deref().unwrap_or_default();
        let file =
            filter.split("::").next().unwrap_or_default().trim_start_matches("./").trim_end_matches('/');
        if !filter.is_empty() && !project.has(file) {
            return unsupported("‹filter› by name", "name a file or a folder of the project");
        }
        let words = [
            "sh".to_owned(),
            format!("{REPORTERS}/{RUNNER}"),
            format!("{HOME}/{REPORTS}/{REPORT}"),
            format!("{HOME}/.hotcell-pg"),
            if selection.fail_fast { "stop" } else { "" }.to_owned(),
            file.to_owned(),
        ];
        Ok(Command {
            argv: words.map(OsString::from).into(),
            env: Vec::new(),
            reporters: vec![Reporter {
                name: RUNNER,
                text: concat!(include_str!("sh/postgres.sh"), include_str!("sh/pgtap.sh")),
            }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Stdout,
            files: Vec::new(),
        })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<ProgramEvents<Lines>>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let mut entries: Vec<Entry> = programs::never_started(live).collect();
        let mut room = Budget::new(MAX_TEXT_BYTES);
        for ran in files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))? {
            let text = String::from_utf8_lossy(ran.file.as_deref().unwrap_or_default()).into_owned();
            let mut tap = Tap::default();
            let mut points: Vec<Point> = text.lines().filter_map(|line| tap.line(line)).collect();
            points.extend(tap.end());
            for point in points {
                let id = format!("{}::{}", ran.program, point.name);
                let seen = live.position(&id).map_or(0.0, |at| live.seen()[at].duration_ms);
                if entries.len() >= MAX_CASES || !room.take(2 * id.len()) {
                    return Err(ReportError::Broken("it has more than is read".to_owned()));
                }
                entries.push(Entry {
                    file: Some(ran.program.clone()),
                    message: message(&point).and_then(|m| room.keep(&m, MAX_MESSAGE_BYTES)),
                    details: room.keep(&point.details, MAX_DETAIL_BYTES),
                    ..Entry::bare(&id, point.status, seen)
                });
            }
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            3 => ExitMeaning::Broken("PostgreSQL could not be started"),
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("the script that starts the tests was ended"),
        }
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let (name, package) = match what.split_once(' ') {
            None if what == "postgresql" => ("PostgreSQL", "postgresql".to_owned()),
            Some(("pgtap", version)) if version.bytes().all(|b| b.is_ascii_digit()) => {
                ("pgTAP", format!("postgresql-{version}-pgtap"))
            }
            _ => return None,
        };
        Some(format!("{name} is not installed: on Debian, apt-get install {package}"))
    }
}

/// Failure message, without the line that only repeats the name.
fn message(point: &Point) -> Option<String> {
    let own = |line: &&str| !line.starts_with("Failed ");
    let text = point.details.lines().filter(own).map(str::trim_end).collect::<Vec<_>>().join("\n");
    point.reason.clone().or_else(|| (point.status == Status::Failed && !text.is_empty()).then_some(text))
}

/// psql's output for a file.
#[derive(Debug, Default)]
struct Lines {
    tap: Tap,
    since: Option<Instant>,
    /// Duration of the last test, in milliseconds.
    last: f64,
}

impl Lines {
    fn tell(&self, running: &mut Running, point: &Point, duration_ms: f64, out: &mut Vec<Event>) {
        let id = running.id(&point.name);
        running.bad |= !point.status.is_good();
        out.push(Event::Started(id.clone(), Some(running.program.clone()), None));
        let message = message(point).map(|m| clip(&m, MAX_MESSAGE_BYTES));
        out.push(Event::Ended(Ended { duration_ms, message, ..programs::ended(id, point.status) }));
    }
}

impl Prints for Lines {
    fn line(&mut self, running: &mut Running, line: &str, out: &mut Vec<Event>) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let before = self.tap.ran;
        let point = self.tap.line(line);
        if let Some(point) = point {
            self.tell(running, &point, self.last, out);
        }
        if self.tap.ran > before {
            self.last = since.elapsed().as_secs_f64() * 1000.0;
            self.since = Some(Instant::now());
        }
    }

    fn end(&mut self, running: &mut Running, code: Option<i32>, out: &mut Vec<Event>) {
        if let Some(point) = self.tap.end() {
            self.tell(running, &point, self.last, out);
        }
        out.extend((0..self.tap.faults.min(10)).map(|_| Event::Fault));
        let file = running.program.clone();
        match (code, &self.tap.skipped) {
            (None, _) => {
                let next = self.tap.next();
                out.extend(next.map(|next| Event::Started(running.id(&next), Some(file), None)));
            }
            (Some(0), Some(why)) if self.tap.ran == 0 => {
                let message = Some(why.clone()).filter(|w| !w.is_empty());
                out.push(Event::Group(Ended { message, ..programs::ended(file, Status::Skipped) }, 0));
            }
            // The script repeats psql's message.
            (Some(1..), _) => {}
            (Some(_), _) => {
                if let Some(lacks) = self.tap.lacks() {
                    running.group(file, (Some(lacks), None), out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgtap_installation_advice_names_packages() {
        for (what, want) in [
            ("postgresql", Some("PostgreSQL is not installed: on Debian, apt-get install postgresql")),
            ("pgtap 15", Some("pgTAP is not installed: on Debian, apt-get install postgresql-15-pgtap")),
            ("pgtap 15; x", None),
            ("pgtap", None),
        ] {
            assert_eq!(PgTap.install(what, "").as_deref(), want);
        }
    }
}
