//! The four roles as functions of JSON (S0.7 to S0.11), so that each can be a process of its own: nothing is kept between calls.

pub mod data;
mod debugger;
mod talk;
mod work;

use hotcell_state::report::{Code, ErrorReport};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::driver::Driver;
use crate::text::line;

/// A role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Plans.
    Architect,
    /// Writes code.
    Coder,
    /// Writes tests, and runs them.
    Tester,
    /// Repairs.
    Debugger,
}

/// An argument of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Name.
    pub name: &'static str,
    /// `string` or `object`.
    pub kind: &'static str,
    /// Meaning, for a model.
    pub about: &'static str,
    /// Whether a call must have this argument.
    pub required: bool,
}

/// A tool of a role.
#[derive(Clone, Copy, Debug)]
pub struct RoleTool {
    /// Name.
    pub name: &'static str,
    /// Purpose, for a model.
    pub about: &'static str,
    /// Arguments.
    pub arguments: &'static [Argument],
}

const fn object(name: &'static str, about: &'static str) -> Argument {
    Argument { name, kind: "object", about, required: true }
}

const CODE: Argument = object("code_package", "What generate_code answered: plan and files.");

const ARCHITECT: &[RoleTool] = &[RoleTool {
    name: "create_architecture",
    about: "Plans the files of a program: {\"detailed_plan\": …}.",
    arguments: &[
        Argument { name: "requirements", kind: "string", about: "The program in words.", required: true },
        Argument {
            name: "language",
            kind: "string",
            about: "python, javascript, go or rust.",
            required: false,
        },
    ],
}];
const CODER: &[RoleTool] = &[RoleTool {
    name: "generate_code",
    about: "Writes the code of a plan: {\"code_package\": …}. Nothing is run.",
    arguments: &[object("architectural_plan", "The detailed_plan of create_architecture.")],
}];
const TESTER: &[RoleTool] = &[
    RoleTool {
        name: "generate_tests",
        about: "Writes tests from requirements and plan, which have to fail on a stub: {\"test_package\": …}.",
        arguments: &[CODE],
    },
    RoleTool {
        name: "run_tests",
        about: "Runs tests in a sandbox: {\"test_results\": …}.",
        arguments: &[CODE, object("test_package", "What generate_tests answered.")],
    },
];
const DEBUGGER: &[RoleTool] = &[RoleTool {
    name: "fix_code",
    about: "Repairs code until its tests pass, at most five times: {\"success\", \"fixed_code\", \"attempts\", …}.",
    arguments: &[
        object("code", "The code_package."),
        object("test_results", "What run_tests answered; its tests stay as they are."),
    ],
}];

impl Role {
    /// All roles, in the order of the work.
    pub const ALL: [Self; 4] = [Self::Architect, Self::Coder, Self::Tester, Self::Debugger];

    /// Name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Architect => "architect",
            Self::Coder => "coder",
            Self::Tester => "tester",
            Self::Debugger => "debugger",
        }
    }

    /// A role by its name.
    ///
    /// # Errors
    /// Words with the nearest name and all of them.
    pub fn named(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.name() == word).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let near = hotcell_sandbox::layer::likely(word, names);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("there is no role {word:?}{near} (the roles are {})", names.join(", "))
        })
    }

    /// The tools of the role.
    #[must_use]
    pub const fn tools(self) -> &'static [RoleTool] {
        match self {
            Self::Architect => ARCHITECT,
            Self::Coder => CODER,
            Self::Tester => TESTER,
            Self::Debugger => DEBUGGER,
        }
    }
}

/// One argument of a call.
fn taken<T: DeserializeOwned>(arguments: &mut Map<String, Value>, name: &str) -> Result<T, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field(name);
    let value = arguments.remove(name).ok_or_else(|| bad(format!("{name} is missing")))?;
    // Clients give an object as its JSON text, too.
    let value = match value {
        Value::String(text) if text.trim_start().starts_with('{') => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        other => other,
    };
    serde_json::from_value(value).map_err(|e| bad(format!("{name}: {}", line(&e.to_string(), 200))))
}

fn nothing_more(arguments: &Map<String, Value>) -> Result<(), ErrorReport> {
    match arguments.keys().next() {
        None => Ok(()),
        Some(name) => {
            Err(ErrorReport::new(Code::UnknownName, format!("there is no argument {:?}", line(name, 100))))
        }
    }
}

impl Driver<'_> {
    /// Calls a tool of a role.
    ///
    /// # Errors
    /// A report when the role has no such tool, an argument is wrong, no model replied, or its answers could not be used.
    pub async fn role_call(
        &self,
        role: Role,
        tool: &str,
        mut arguments: Map<String, Value>,
    ) -> Result<Value, ErrorReport> {
        let all = &mut arguments;
        match (role, tool) {
            (Role::Architect, "create_architecture") => {
                let requirements: String = taken(all, "requirements")?;
                let language = match all.contains_key("language") {
                    true => Some(taken::<String>(all, "language")?),
                    false => None,
                };
                nothing_more(all)?;
                self.create_architecture(&requirements, language.as_deref()).await
            }
            (Role::Coder, "generate_code") => {
                let plan = taken(all, "architectural_plan")?;
                nothing_more(all)?;
                self.generate_code(plan).await
            }
            (Role::Tester, "generate_tests") => {
                let code = taken(all, "code_package")?;
                nothing_more(all)?;
                self.generate_tests(code).await
            }
            (Role::Tester, "run_tests") => {
                let (code, tests) = (taken(all, "code_package")?, taken(all, "test_package")?);
                nothing_more(all)?;
                self.run_package(code, tests).await
            }
            (Role::Debugger, "fix_code") => {
                let (code, results) = (taken(all, "code")?, taken(all, "test_results")?);
                nothing_more(all)?;
                self.fix_code(code, results).await
            }
            _ => {
                let names: Vec<&str> = role.tools().iter().map(|tool| tool.name).collect();
                let why = format!("the {} has no tool {:?}", role.name(), line(tool, 100));
                Err(ErrorReport::new(Code::UnknownName, why).hint(format!("it has {}", names.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named_and_mistakes_name_the_nearest() {
        for role in Role::ALL {
            assert_eq!(Role::named(role.name()), Ok(role));
        }
        assert!(Role::named("codr").is_err_and(|why| why.contains("did you mean coder?")));
        assert!(Role::named("").is_err_and(|why| why.contains("architect, coder, tester, debugger")));
    }

    #[test]
    fn arguments_may_be_json_text_and_mistakes_are_named() {
        let mut all =
            Map::from_iter([("a".to_owned(), Value::from("{\"x\": 1}")), ("b".to_owned(), Value::from(5))]);
        let object: Value = taken(&mut all, "a").unwrap();
        assert_eq!(object["x"], 1);
        assert!(taken::<String>(&mut all, "b").is_err_and(|e| e.to_string().contains("b: ")));
        assert!(taken::<String>(&mut all, "b").is_err_and(|e| e.to_string().contains("missing")));
        assert!(nothing_more(&all).is_ok());
    }
}
