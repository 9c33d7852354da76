//! The pages of the rules under `docs/runbooks/`: made of what `alertkube rules explain` says, and kept the same.
//!
//! `INSTA_UPDATE=always` writes them anew, as it does with snapshots.

use std::{fmt::Write as _, fs, path::PathBuf};

use super::{
    Help, QUIET, Rule, SILENCES, SPEAKS, STANDS_BACK, TO_DO, causes_of, effects_of, fires,
    resolves, rules, severity, thresholds, urges,
};

/// The variable, and its value, with which snapshots are written anew.
const UPDATE: (&str, &str) = ("INSTA_UPDATE", "always");

/// What a page begins with that is generated.
const MARK: &str = "<!-- Generated from";

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks")
}

/// The page of a rule, in the order of the pages that people have written.
fn page(rule: &'static Rule) -> String {
    let name = rule.name;
    let Help {
        particulars,
        quiet,
        to_do,
    } = Help::of(rule).unwrap();
    let mut page = format!(
        "{MARK} the rule and src/rules/help/{name}.md: see CONTRIBUTING.md. -->\n# {name}\n\n## Meaning\n\n{}\n",
        rule.description
    );
    let _ = write!(
        page,
        "\n## When it fires\n\n- Looks at: {}\n- Severity: {}\n- Fires: {}\n- Resolves: {}\n",
        rule.kind.as_str(),
        severity(rule),
        fires(rule),
        resolves(rule),
    );
    for setting in thresholds(rule) {
        let _ = writeln!(page, "- Set by: {setting}");
    }
    if !particulars.is_empty() {
        let _ = write!(page, "\n{}\n", linked(particulars));
    }
    let _ = write!(page, "\n## {QUIET}\n\n{}\n", linked(quiet));
    let _ = write!(page, "\n## {TO_DO}\n\n{}\n", linked(to_do));
    let causes: Vec<_> = causes_of(rule).collect();
    let (urging, other): (Vec<_>, Vec<_>) =
        effects_of(rule).partition(|effect| urges(effect, rule));
    page + &alerts("Explained by", STANDS_BACK, &causes)
        + &alerts("Explains", SPEAKS, &urging)
        + &alerts("Explains, in its own time", SILENCES, &other)
}

/// A section about other alerts; nothing if there are none.
fn alerts(title: &str, means: &str, alerts: &[&'static Rule]) -> String {
    let links: Vec<_> = alerts.iter().map(|rule| link(rule.name)).collect();
    if links.is_empty() {
        return String::new();
    }
    format!(
        "\n## {title}\n\nThat is: {means}.\n\n{}.\n",
        links.join(",\n")
    )
}

fn link(name: &str) -> String {
    format!("[{name}]({name}.md)")
}

/// The text, with a link for each alert that it names.
fn linked(text: &str) -> String {
    let mut linked = String::new();
    for (position, part) in text.split('`').enumerate() {
        let is_code = position % 2 == 1;
        match rules::named(part).filter(|_| is_code) {
            Some(rule) => linked.push_str(&link(rule.name)),
            None if is_code => {
                let _ = write!(linked, "`{part}`");
            }
            None => linked.push_str(part),
        }
    }
    linked
}

#[test]
fn every_rule_has_its_runbook_as_it_says_it_and_no_other_is_generated() {
    #[expect(
        clippy::disallowed_methods,
        reason = "asked as the tests of snapshots ask"
    )]
    let update = std::env::var(UPDATE.0).is_ok_and(|value| value == UPDATE.1);
    let mut differing = Vec::new();
    for rule in rules::all() {
        let (file, expected) = (directory().join(format!("{}.md", rule.name)), page(rule));
        let found = fs::read_to_string(&file).unwrap_or_default();
        if found != expected && update {
            fs::write(&file, expected).unwrap();
        } else if found != expected {
            differing.push(rule.name);
        }
    }
    assert!(
        differing.is_empty(),
        "not what the rules say: {differing:?}; {}={} cargo test --lib runbooks writes them anew",
        UPDATE.0,
        UPDATE.1
    );
    for file in fs::read_dir(directory()).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_generated = fs::read_to_string(&file).unwrap().starts_with(MARK);
        let has_rule = rules::all().any(|rule| rule.name == name);
        assert_eq!(is_generated, has_rule, "{}", file.display());
    }
}
