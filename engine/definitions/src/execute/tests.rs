use std::sync::Mutex;

use super::*;
use crate::tools::Facts;

/// Tools that play: `p_NAME` answers with its arguments, others as they are called.
#[derive(Default)]
struct Play {
    calls: Mutex<Vec<String>>,
}

impl Tools for Play {
    fn facts(&self, tool: &str) -> Result<Facts, String> {
        match tool {
            "no_tool" => Err("the plugin no is missing: hotcell tool add no".to_owned()),
            _ => Ok(Facts {
                plugin: "p".into(),
                digest: "d".into(),
                granted: Vec::new(),
                keeps: tool == "p_keeps",
            }),
        }
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: &'a str) -> BoxFuture<'a, Result<Value, String>> {
        self.calls.lock().unwrap().push(tool.to_owned());
        Box::pin(async move {
            match tool {
                "p_fails" => Err("it says no".to_owned()),
                "p_hangs" => std::future::pending().await,
                "p_sleeps" => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Ok(json!({ "slept": true }))
                }
                _ => Ok(json!({ "got": serde_json::from_str::<Value>(arguments).unwrap() })),
            }
        })
    }
}

const BEGIN: &str = "name = \"a.b\"\nversion = 1\ndescription = \"x\"\n[returns.properties]\ngot = { type = \"object\" }\n\
    [inputs.x]\ntype = \"string\"\noptional = true\n";

async fn run(tools: &str, inputs: Value, play: &Play, cache: Option<Cache>) -> Response {
    let definition = Definition::parse(&format!("{BEGIN}{tools}"), "a.toml".as_ref()).unwrap();
    let inputs = Inputs::check(&definition, inputs.as_object().unwrap()).unwrap();
    let options = Options { means: Err("no model is configured".to_owned()), cache };
    execute(&definition, &inputs, play, &options).await
}

#[tokio::test]
async fn failures_are_isolated_and_told() {
    let tools = "[tools.good]\ntool = \"p_echo\"\narguments = { a = \"{{inputs.x}}\" }\n\
        [tools.after_good]\ntool = \"p_echo\"\narguments = { b = \"{{tools.good.got.a}}\" }\n\
        [tools.bad]\ntool = \"p_fails\"\n[tools.hangs]\ntool = \"p_hangs\"\ntimeout = \"50ms\"\n\
        [tools.missing]\ntool = \"no_tool\"\n[tools.ungranted]\ntool = \"p_echo\"\nneeds = [\"guard\"]\n\
        [tools.on_bad]\ntool = \"p_echo\"\narguments = { c = \"{{tools.bad.y}}\" }\n\
        [tools.beside_bad]\ntool = \"p_echo\"\nafter = [\"bad\"]\n\
        [tools.no_part]\ntool = \"p_echo\"\narguments = { c = \"{{tools.good.nothing}}\" }\n\
        [tools.maybe]\ntool = \"p_echo\"\nwhen = \"x\"\n[fill]\ngot = \"{{tools.after_good.got}}\"\n";
    let play = Play::default();
    let response = run(tools, json!({ "x": "1" }), &play, None).await;
    let data = response.raw_data.clone().unwrap();
    assert_eq!(data["after_good"], json!({ "got": { "b": "1" } }));
    assert_eq!(response.result["got"], json!({ "b": "1" }));
    for (name, word) in [
        ("bad", "it says no"),
        ("hangs", "did not end within 0.1 s"),
        ("missing", "hotcell tool add no"),
        ("ungranted", "hotcell tool grant p guard"),
        ("on_bad", "needs the result of bad, which failed"),
        ("no_part", "the result of good has no nothing"),
    ] {
        assert!(data[name]["error"].as_str().unwrap().contains(word), "{name}: {}", data[name]);
    }
    assert!(data["beside_bad"]["got"].is_object() && data["maybe"]["got"].is_object());
    assert_eq!(response.metadata.mode, Mode::IdeIntegrated);
    assert_eq!((response.exit_status(), response.metadata.why.as_str()), (1, "the verb has no prompt"));
    assert_eq!(response.metadata.tools.len(), 10);
    assert!(!play.calls.lock().unwrap().contains(&"no_tool".to_owned()));
    let without = run(tools, json!({}), &play, None).await.raw_data.unwrap();
    assert_eq!(without["maybe"], json!({ "skipped": "the input x is not given" }));
    // The field of the absent input is left out, so that there is nothing for the next tool.
    assert!(without["after_good"]["error"].as_str().unwrap().contains("has no got.a"), "{without:?}");
}

#[tokio::test]
async fn tools_run_in_parallel_and_own_time_is_apart() {
    let tools: String = (0..8).map(|n| format!("[tools.t{n}]\ntool = \"p_sleeps\"\n")).collect();
    let response = run(&tools, json!({}), &Play::default(), None).await;
    assert_eq!((response.exit_status(), response.metadata.tools_executed.len()), (0, 8));
    let waited = response.metadata.tools.iter().map(|tool| tool.time_ms).sum::<u64>();
    // One after the other they would take as long as their sum.
    assert!(response.metadata.execution_time_ms < waited, "{:?}", response.metadata);
    assert_eq!(response.metadata.defaults, ["got"]);
}

#[tokio::test]
async fn results_are_kept_by_arguments_and_file_contents() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    std::fs::write(&file, "1").unwrap();
    let cache = || Some(Cache::of(folder.path()));
    let tools = "[tools.t]\ntool = \"p_echo\"\ncache = \"1h\"\nfiles = [\"path\"]\narguments = { path = \"{{inputs.x}}\" }\n\
        [tools.keeps]\ntool = \"p_keeps\"\ncache = \"1h\"\n[tools.fails]\ntool = \"p_fails\"\ncache = \"1h\"\n";
    let input = json!({ "x": file });
    let play = Play::default();
    let cached = |response: &Response| {
        let all = response.metadata.tools.iter().filter(|tool| tool.cached);
        all.map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(cached(&run(tools, input.clone(), &play, cache()).await), "");
    assert_eq!(cached(&run(tools, input.clone(), &play, cache()).await), "t");
    std::fs::write(&file, "2").unwrap();
    assert_eq!(cached(&run(tools, input.clone(), &play, cache()).await), "");
    assert_eq!(cached(&run(tools, input.clone(), &play, None).await), "");
    assert_eq!(cached(&run(tools, json!({ "x": folder.path() }), &play, cache()).await), "");
    assert_eq!(cached(&run(tools, json!({ "x": folder.path() }), &play, cache()).await), "");
}

#[test]
fn union_of_waits_counts_no_time_twice() {
    let zero = Instant::now();
    let at = |ms: u64| zero + Duration::from_millis(ms);
    for (all, want) in [
        (&[][..], 0),
        (&[(0, 10), (5, 7)], 10),
        (&[(5, 20), (0, 10)], 20),
        (&[(0, 5), (10, 15), (14, 16)], 11),
    ] {
        let all = all.iter().map(|(from, until)| (at(*from), at(*until))).collect();
        assert_eq!(union(all), Duration::from_millis(want));
    }
}
