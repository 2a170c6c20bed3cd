//! Parameters in the messages of libraries, shown as arguments of tools. Pure.

use hotcell_sandbox::text::parameters::with_parameters;

/// Keys of parameters, each with the argument that a caller gives for it.
const ARGUMENTS: [(&str, &str); 14] = [
    ("coverage", "coverage"),
    ("cpu_time", "limits.cpu_seconds"),
    ("diff", "diff"),
    ("env", "env"),
    ("filter", "filter"),
    ("framework", "framework"),
    ("image", "image"),
    ("max_disk", "limits.disk_mib"),
    ("max_output", "limits.output_mib"),
    ("max_processes", "limits.processes"),
    ("memory", "limits.memory_mib"),
    ("network", "network"),
    ("reason", "reason"),
    ("timeout", "limits.timeout_seconds"),
];

/// A message with its parameters as arguments: `‹max_disk›` as `limits.disk_mib`. What no tool takes is the operator's to set.
pub(crate) fn in_arguments(message: &str) -> String {
    with_parameters(message, |key, value| {
        let argument = ARGUMENTS.iter().find(|(known, _)| *known == key);
        let name = argument.map_or_else(|| format!("the operator's {key}"), |(_, name)| (*name).to_owned());
        value.map(|value| format!("{name}={value}")).unwrap_or(name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::tools;

    #[test]
    fn message_names_arguments_that_tools_have() {
        let tools: Vec<Value> =
            tools::all().iter().map(|tool| Value::Object((*tool.input_schema).clone())).collect();
        for (key, name) in ARGUMENTS {
            let path = format!("/properties/{}", name.replace('.', "/properties/"));
            assert!(tools.iter().any(|tool| tool.pointer(&path).is_some()), "{key}: {name}");
        }
        for (message, want) in [
            ("raise ‹max_disk› or ‹max_files›", "raise limits.disk_mib or the operator's max_files"),
            ("choose with ‹framework=jest›", "choose with framework=jest"),
            ("‹guard=report› runs it", "the operator's guard=report runs it"),
        ] {
            assert_eq!(in_arguments(message), want);
        }
    }
}
