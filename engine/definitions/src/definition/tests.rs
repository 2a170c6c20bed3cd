use super::*;

const LEAST: &str = "name = \"a.b\"\nversion = 1\ndescription = \"x\"\n[tools.t]\ntool = \"p_f\"\n[returns]\ntype = \"object\"\n";

fn parse(text: &str) -> Result<Definition, String> {
    Definition::parse(text, Path::new("a.toml")).map_err(|e| e.to_string())
}

/// The least file with more lines in front of `[returns]`.
fn with(lines: &str) -> String {
    LEAST.replace("[returns]", &format!("{lines}\n[returns]"))
}

#[test]
fn least_definition_has_defaults() {
    let least = parse(LEAST).unwrap();
    assert_eq!((least.signature().as_str(), least.timeout.as_secs()), ("a.b@v1()", 30));
    assert_eq!(least.layers, [["t"]]);
    assert_eq!(least.plugins(), ["p"]);
}

#[test]
fn whole_definition_is_read() {
    let text = with(
        "arguments = { x = \"{{inputs.q}}\" }\ncache = \"5m\"\nneeds = [\"net=https://a.org:443\"]\nfiles = [\"x\"]\n\
         [tools.u]\ntool = \"p_g\"\narguments = { y = \"{{tools.t.z}}\" }\nwhen = \"maybe\"\n\
         [inputs.q]\ntype = \"string\"\n[inputs.maybe]\ntype = \"integer\"\noptional = true\n\
         [inputs.how]\ntype = \"string\"\nenum = [\"a\", \"b\"]\ndefault = \"a\"\n\
         [fill]\nz = \"{{tools.u.z}}\"\n[prompt]\nuser = \"go\"\nbudget = 0.5\n",
    )
    .replace("type = \"object\"", "type = \"object\"\n[returns.properties.z]\ntype = \"integer\"");
    let all = parse(&text).unwrap();
    assert_eq!(all.signature(), "a.b@v1(q, how?, maybe?)");
    assert_eq!(all.layers, [["t"], ["u"]]);
    assert_eq!(all.tools["t"].cache, Some(Duration::from_secs(300)));
    assert_eq!(all.prompt.as_ref().map(|p| (p.budget, p.max_output_tokens)), Some((0.5, 2000)));
    assert_eq!(all.input_schema()["required"], serde_json::json!(["q"]));
}

#[test]
fn mistakes_name_line_and_nearest() {
    for (text, at, word) in [
        (String::new(), "", "name"),
        (LEAST.replace("name = \"a.b\"", "nam = \"a.b\""), ":1:", "did you mean \"name\""),
        (LEAST.replace("a.b", "review"), ":1:", "review.analyze"),
        (LEAST.replace("version = 1", "version = 0"), ":1:", "begin with 1"),
        (LEAST.replace("\"x\"", "\"\""), ":3:", "say what it is for"),
        (LEAST.replace("\"p_f\"", "\"pf\""), ":5:", "hotcell tool list"),
        (LEAST.replace("[tools.t]\ntool = \"p_f\"\n", ""), "", "at least one tool"),
        (with("argumets = {}"), ":6:", "did you mean tools.t.arguments?"),
        (
            with("arguments = { x = \"{{inputs.repo}}\" }\n[inputs.rep]\ntype = \"string\""),
            ":6:",
            "did you mean rep?",
        ),
        (with("arguments = { x = \"{{tool.t}}\" }"), ":6:", "is no place"),
        (with("arguments = { x = \"{{tools.t}}\" }"), "", "t → t"),
        (with("after = [\"u\"]\n[tools.u]\ntool = \"p_g\"\nafter = [\"t\"]"), "", "t → u → t"),
        (with("after = [\"v\"]"), ":6:", "there is no tool \"v\""),
        (with("when = \"x\""), ":6:", "there is no input"),
        (with("files = [\"path\"]\narguments = { pat = \"a\" }"), ":6:", "did you mean pat?"),
        (with("needs = [\"network\"]"), ":6:", "network"),
        (with("cache = \"never\""), ":6:", "never"),
        (with("cache = \"8d\""), ":6:", "at most"),
        (with("[inputs.q]\ntyp = \"string\""), ":7:", "did you mean inputs.q.type?"),
        (with("[inputs.q]\ntype = \"text\""), "", "string"),
        (with("[inputs.q]\ntype = \"integer\"\ndefault = \"a\""), "", "not of the type integer"),
        (with("[inputs.json]\ntype = \"string\""), "", "option of hotcell agent run"),
        (with("[inputs.\"a-b\"]\ntype = \"string\""), "", "small letters"),
        (with("[prompt]\nuser = \"\""), ":7:", "it is empty"),
        (with("[prompt]\nuser = \"x\"\nbudjet = 1"), ":8:", "prompt.budget"),
        (with("[prompt]\nuser = \"x\"\nbudget = -1"), ":8:", "amount of dollars"),
        (with("[fill]\nx = 1"), ":7:", "no such property"),
        (LEAST.replace("\"object\"", "\"array\""), "", "object"),
        (LEAST.replace("\"object\"", "\"objekt\""), "", "returns"),
        (format!("{LEAST}# {}", "x".repeat(MAX_FILE_BYTES)), "", "at most 65536 bytes"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(error.contains(word) && error.starts_with(&format!("a.toml{at}")), "{text}\n{error}");
    }
}
