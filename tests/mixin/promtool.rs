//! What Prometheus makes of the series: `promtool test rules`, which has its real engine.
//!
//! It tests, and does not tell. So it is asked twice: first, with nothing expected, for what fires at each evaluation, which is read from what it complains about;
//! then whether that was read correctly: with it as the expectation, all must pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    history::History,
    ksm::{self, INTERVAL_SECONDS, Series},
};

/// A program to be used instead of the one that is built.
const VARIABLE: &str = "PROMTOOL";

/// By history and alert: the scrapes at which it fires.
pub type Firing = BTreeMap<(String, String), Vec<usize>>;

/// What fires in these histories by these rules.
pub fn firing(histories: &[History], rules: &Path) -> Firing {
    let series: Vec<_> = histories.iter().map(ksm::series).collect();
    let asked = run(histories, &series, rules, &Firing::new());
    let said = String::from_utf8_lossy(&asked.stderr);
    let firing: Firing = read(&said);
    let checked = run(histories, &series, rules, &firing);
    assert!(
        checked.status.success(),
        "promtool says otherwise than it was read: {}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
    firing
}

/// Reads what was got from lines like `got: {alertname="A", history="h", scrape="7"} 1E+00, {...} 1E+00`.
fn read(said: &str) -> Firing {
    let mut firing = Firing::new();
    let got = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("got: "));
    for sample in got.flat_map(|got| got.split('{').skip(1)) {
        let label = |name: &str| {
            let (_, after) = sample.split_once(&format!("{name}=\""))?;
            Some(after.split_once('"')?.0.to_owned())
        };
        let labels = (label("history"), label("alertname"), label("scrape"));
        let (Some(history), Some(alert), Some(scrape)) = labels else {
            panic!("promtool said what cannot be read: {sample}");
        };
        let scrapes = firing.entry((history, alert)).or_default();
        scrapes.push(scrape.parse().unwrap());
    }
    firing
}

/// Has promtool compare what fires with what is expected.
fn run(histories: &[History], series: &[Vec<Series>], rules: &Path, expected: &Firing) -> Output {
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(rules).unwrap()).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mixin");
    fs::create_dir_all(&folder).unwrap();
    let mut paths = Vec::new();
    for (history, series) in histories.iter().zip(series) {
        let rules_name = format!("{}_rules.yaml", history.name);
        let file = json!({
            "rule_files": [rules_name],
            "evaluation_interval": format!("{INTERVAL_SECONDS}s"),
            "tests": [test(history, series, expected)],
        });
        let path = folder.join(format!("{}_test.yaml", history.name));
        // JSON is YAML.
        fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        let rules = serde_json::to_vec(&about(&rules, series)).unwrap();
        fs::write(folder.join(rules_name), rules).unwrap();
        paths.push(path);
    }
    let program = program();
    let output = Command::new(&program)
        .args(["test", "rules"])
        .args(paths)
        .stdin(Stdio::null())
        .output();
    output.unwrap_or_else(|e| panic!("{} cannot be started: {e}", program.display()))
}

/// Only the rules that ask for one of these series. No other can fire, and all of them at every scrape take five times as long.
fn about(rules: &Value, series: &[Series]) -> Value {
    let metric_of = |series: &Series| series.id.split('{').next().map(str::to_owned);
    let metrics: BTreeSet<String> = series.iter().filter_map(metric_of).collect();
    let is_about = |rule: &Value| {
        let expression = rule["expr"].as_str().unwrap_or_default();
        let mut words = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| metrics.contains(word))
    };
    let mut rules = rules.clone();
    for group in rules["groups"].as_array_mut().unwrap() {
        group["rules"].as_array_mut().unwrap().retain(is_about);
    }
    rules
}

fn test(history: &History, series: &[Series], expected: &Firing) -> Value {
    let input: Vec<Value> = series
        .iter()
        .map(|series| json!({"series": series.id, "values": values(series)}))
        .collect();
    let name = &history.name;
    let expressions = (0..ksm::scrapes(history)).map(|scrape| {
        let labels =
            |alert: &str| format!("{{alertname={alert:?},history={name:?},scrape=\"{scrape}\"}}");
        let samples: Vec<Value> = expected
            .iter()
            .filter(|((history, _), scrapes)| history == name && scrapes.contains(&scrape))
            .map(|((_, alert), _)| json!({"labels": labels(alert), "value": 1}))
            .collect();
        let firing = r#"group by (alertname) (ALERTS{alertstate="firing"})"#;
        let of_history = format!(r#"label_replace({firing}, "history", {name:?}, "", "")"#);
        json!({
            "expr": format!(r#"label_replace({of_history}, "scrape", "{scrape}", "", "")"#),
            "eval_time": format!("{}s", i64::try_from(scrape).unwrap() * INTERVAL_SECONDS),
            "exp_samples": samples,
        })
    });
    json!({
        "name": name,
        "interval": format!("{INTERVAL_SECONDS}s"),
        "input_series": input,
        "promql_expr_test": expressions.collect::<Vec<_>>(),
    })
}

/// The values in promtool's notation: `1x4` is a 1, and four more of them. A series that is in one scrape and not in the next one is stale: Prometheus marks it so.
fn values(series: &Series) -> String {
    let mut written = Vec::new();
    let mut before = None;
    for run in series.values.chunk_by(|one, other| one == other) {
        let (value, more) = (run[0], run.len() - 1);
        match value {
            Some(value) => written.push(format!("{value}x{more}")),
            None if before.is_none() => written.push(format!("_x{}", run.len())),
            None if more == 0 => written.push("stale".to_owned()),
            None => written.push(format!("stale _x{more}")),
        }
        before = value;
    }
    written.join(" ")
}

/// The program, built if it is not there yet: `.ci/run` puts it to the same place, and says which version it is.
fn program() -> PathBuf {
    if let Some(program) = env::var_os(VARIABLE) {
        return program.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("tools/bin");
    let program = folder.join("promtool");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(target.join("tools/lock")).unwrap();
    lock.lock().unwrap();
    if program.is_file() {
        return program;
    }
    let ci = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/run")).unwrap();
    let version = ci
        .lines()
        .find_map(|line| line.strip_prefix("readonly promtool_version="));
    let version = version.expect(".ci/run says which version of promtool it builds");
    let mut stderr = io::stderr().lock();
    let note = "for the tests: some minutes the first time";
    writeln!(stderr, "building promtool {version} {note}").unwrap();
    // To another place until it is whole, so that a build that is killed leaves nothing that looks like a program.
    let unfinished = target.join("tools/unfinished");
    let module = format!("github.com/prometheus/prometheus/cmd/promtool@{version}");
    let built = Command::new("go")
        .args(["install", &module])
        .env("GOBIN", &unfinished)
        .stdin(Stdio::null())
        .output();
    let output = built.unwrap_or_else(|e| {
        panic!(
            "the test needs promtool, and `go` to build it cannot be started ({e}): install Go 1.26 or later \
             (https://go.dev/dl), or set {VARIABLE} to the program"
        )
    });
    assert!(
        output.status.success(),
        "`go install {module}` failed with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(unfinished.join("promtool"), &program).unwrap();
    program
}
