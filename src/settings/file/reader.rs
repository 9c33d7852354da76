//! From values with places to settings, and to all that is wrong with them.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Origins, Place,
    problem::{FileProblem, nearest},
    tree::{Key, Node, What},
};
use crate::{
    alert::Severity,
    policy::{Matcher, Matchers},
    rules::{self, FINDING_LABELS, Override, Rule, Setting, Tuning, Value},
    settings::value,
};

/// The keys of the file.
const TOP: [&str; 2] = ["cluster", "rules"];
/// The keys of a rule, besides its thresholds.
pub(super) const OF_RULE: [&str; 4] = ["enabled", "severity", "for", "overrides"];

/// Reads settings, and collects what is wrong with them.
pub(super) struct Reader<'a> {
    pub file: &'a str,
    pub text: &'a str,
    pub problems: Vec<FileProblem>,
    pub tuning: Tuning,
    pub origins: Origins,
}

/// What is set in one place: of a rule, or for some of its alerts.
struct Block<'a> {
    rule: &'static Rule,
    setting: Setting,
    /// Where each of its fields is set.
    fields: BTreeMap<&'static str, Place>,
    matchers: Option<&'a Node>,
    overrides: Option<&'a Node>,
}

impl Reader<'_> {
    /// Notes what is wrong with a piece of a line.
    pub(super) fn problem(&mut self, at: Place, length: usize, message: impl Into<String>) {
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let rest = line.chars().count().saturating_sub(at.column - 1);
        self.problems.push(FileProblem {
            file: self.file.to_owned(),
            at,
            line: line.to_owned(),
            length: length.min(rest).max(1),
            message: message.into(),
        });
    }

    fn wrong_key(&mut self, key: &Key, message: impl Into<String>) {
        self.problem(key.at, key.name.chars().count(), message);
    }

    /// Notes what is wrong with a value; all of it is marked, as far as it stands on its line.
    fn wrong(&mut self, node: &Node, message: impl Into<String>) {
        let length = self.length_of(node);
        self.problem(node.at, length, message);
    }

    /// How long the value is that begins at its place, as it is written.
    fn length_of(&self, node: &Node) -> usize {
        let rest: String = self.written(node.at).collect();
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map(|end| end + 2),
            Some('[' | '{') | None => Some(1),
            Some(_) => [" #", ": ", ", ", "]", "}"]
                .iter()
                .filter_map(|end| rest.find(end))
                .min(),
        };
        let written = end.and_then(|end| rest.get(..end)).unwrap_or(&rest);
        written.trim_end().chars().count()
    }

    /// What is written from there to the end of the line.
    fn written(&self, at: Place) -> impl Iterator<Item = char> + '_ {
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        line.chars().skip(at.column - 1)
    }

    /// The keys of a map; those that are there again are noted, and left out.
    fn map<'n>(&mut self, node: &'n Node, what: &str) -> Vec<(&'n Key, &'n Node)> {
        let entries = match &node.is {
            What::Nothing => return Vec::new(),
            What::Map(entries) => entries,
            other @ (What::Boolean(_)
            | What::Whole(_)
            | What::OtherNumber
            | What::Text(_)
            | What::List(_)) => {
                let is = other.name();
                self.wrong(
                    node,
                    format!("{what} must be keys and values, but this is {is}"),
                );
                return Vec::new();
            }
        };
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut kept = Vec::new();
        for (key, node) in entries {
            if let Some(line) = seen.get(key.name.as_str()) {
                let message = format!(
                    "{:?} is set twice: in line {line}, too; keep one of them",
                    key.name
                );
                self.wrong_key(key, message);
            } else {
                seen.insert(&key.name, key.at.line);
                kept.push((key, node));
            }
        }
        kept
    }

    fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        if let What::Text(text) = &node.is {
            return Some(text.clone());
        }
        let is = node.is.name();
        self.wrong(
            node,
            format!("{what} must be a text, but this is {is}: put it in quotes if it is meant"),
        );
        None
    }

    /// Notes a key that does not exist.
    fn unknown_key<'c>(
        &mut self,
        key: &Key,
        what: &str,
        candidates: impl IntoIterator<Item = &'c str> + Clone,
    ) {
        let hint = nearest(&key.name, candidates.clone()).map_or_else(
            || {
                let all: Vec<&str> = candidates.into_iter().collect();
                format!("there are {}", all.join(", "))
            },
            |name| format!("did you mean {name}?"),
        );
        self.wrong_key(key, format!("{what} {:?}: {hint}", key.name));
    }

    /// The whole file. Returns the name of the cluster.
    pub(super) fn file(&mut self, root: &Node) -> Option<String> {
        let mut cluster = None;
        for (key, node) in self.map(root, "the file") {
            match key.name.as_str() {
                "cluster" => cluster = self.cluster(node),
                "rules" => self.rules(node),
                _ => self.unknown_key(key, "there is no setting", TOP),
            }
        }
        cluster
    }

    fn cluster(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "the cluster's name")?;
        match value::label_value(name.trim()) {
            Ok(name) if name.is_empty() => {
                self.wrong(
                    node,
                    "the cluster's name is empty: name it, or leave it out",
                );
                None
            }
            Ok(name) => Some(name),
            Err(reason) => {
                self.wrong(node, format!("the cluster's name {reason}"));
                None
            }
        }
    }

    fn rules(&mut self, node: &Node) {
        for (key, node) in self.map(node, "rules") {
            let Some(rule) = rules::all().find(|rule| rule.name == key.name) else {
                let hint = nearest(&key.name, rules::all().map(|rule| rule.name))
                    .map_or_else(String::new, |name| format!("did you mean {name}? "));
                let message = format!(
                    "there is no rule {:?}: {hint}`alertkube rules` lists them all",
                    key.name
                );
                self.wrong_key(key, message);
                continue;
            };
            self.rule(rule, node);
        }
    }

    fn rule(&mut self, rule: &'static Rule, node: &Node) {
        let block = self.block(rule, node, false);
        for (field, at) in &block.fields {
            self.origins.insert((rule.name, *field), at.line);
        }
        self.tuning.set(rule, block.setting);
        let Some(overrides) = block.overrides else {
            return;
        };
        match &overrides.is {
            What::Nothing => {}
            What::List(all) => all.iter().for_each(|node| self.overriding(rule, node)),
            other @ (What::Boolean(_)
            | What::Whole(_)
            | What::OtherNumber
            | What::Text(_)
            | What::Map(_)) => {
                let is = other.name();
                self.wrong(
                    overrides,
                    format!("overrides must be a list, but this is {is}: begin each with a dash"),
                );
            }
        }
    }

    fn overriding(&mut self, rule: &'static Rule, node: &Node) {
        let before = self.problems.len();
        let block = self.block(rule, node, true);
        let Some(matchers) = block.matchers else {
            if self.problems.len() == before {
                self.wrong(
                    node,
                    "this override has no matchers, such as matchers: ['namespace=\"dev\"']",
                );
            }
            return;
        };
        let Some(matchers) = self.matchers(rule, matchers) else {
            return;
        };
        let changed = Override {
            matchers,
            setting: block.setting,
        };
        if changed.needs_finding() {
            for (field, at) in &block.fields {
                if !matches!(*field, "enabled" | "severity") {
                    let label = changed.matchers.iter().map(Matcher::name);
                    let label = label.filter(|name| FINDING_LABELS.contains(name));
                    let label: Vec<&str> = label.collect();
                    let message = format!(
                        "{field:?} cannot be set by {}: the rule needs it before that label is known; set only enabled and severity here, or match labels of the object",
                        label.join(", ")
                    );
                    self.problem(*at, field.chars().count(), message);
                }
            }
        }
        self.tuning.add(rule, changed);
    }

    /// The settings of a rule, or of an override.
    fn block<'n>(&mut self, rule: &'static Rule, node: &'n Node, overrides: bool) -> Block<'n> {
        let mut block = Block {
            rule,
            setting: Setting::default(),
            fields: BTreeMap::new(),
            matchers: None,
            overrides: None,
        };
        let what = if overrides { "an override" } else { "a rule" };
        for (key, node) in self.map(node, what) {
            match key.name.as_str() {
                "matchers" if overrides => block.matchers = Some(node),
                "overrides" if !overrides => block.overrides = Some(node),
                _ => self.field(&mut block, key, node, overrides),
            }
        }
        block
    }

    fn field(&mut self, block: &mut Block<'_>, key: &Key, node: &Node, overrides: bool) {
        let rule = block.rule;
        let setting = &mut block.setting;
        let field = match key.name.as_str() {
            "enabled" => {
                setting.enabled = self.boolean(node);
                "enabled"
            }
            "severity" => {
                setting.severity = self.severity(node);
                "severity"
            }
            "for" => {
                setting.r#for = self.duration(node, "for");
                "for"
            }
            name => {
                let threshold = rule.thresholds.iter().find(|known| known.name == name);
                let Some(threshold) = threshold else {
                    let last = if overrides { "matchers" } else { "overrides" };
                    let own = rule.thresholds.iter().map(|threshold| threshold.name);
                    let all = OF_RULE[..3].iter().copied().chain([last]).chain(own);
                    let what = format!("{} has no setting", rule.name);
                    self.unknown_key(key, &what, all);
                    return;
                };
                if let Some(value) = self.value(node, threshold.name, threshold.default) {
                    setting.thresholds.insert(threshold.name, value);
                }
                threshold.name
            }
        };
        block.fields.insert(field, key.at);
    }

    fn boolean(&mut self, node: &Node) -> Option<bool> {
        if let What::Boolean(value) = node.is {
            return Some(value);
        }
        let hint = match &node.is {
            What::Text(text) => match text.to_lowercase().as_str() {
                "yes" | "on" | "y" => "; did you mean true?".to_owned(),
                "no" | "off" | "n" => "; did you mean false?".to_owned(),
                text => nearest(text, ["true", "false"])
                    .map_or_else(String::new, |word| format!("; did you mean {word}?")),
            },
            other => format!(", but this is {}", other.name()),
        };
        self.wrong(node, format!("enabled must be true or false{hint}"));
        None
    }

    fn severity(&mut self, node: &Node) -> Option<Severity> {
        let text = self.text(node, "severity")?;
        let severity = text.parse().ok();
        if severity.is_none() {
            let words = Severity::ALL.map(Severity::as_str);
            // People shorten it.
            let short = words
                .into_iter()
                .find(|word| text.len() >= 3 && word.starts_with(&text.to_lowercase()));
            let hint = short
                .or_else(|| nearest(&text, words))
                .map_or_else(String::new, |word| format!("; did you mean {word}?"));
            self.wrong(
                node,
                format!("severity must be info, warning or critical{hint}"),
            );
        }
        severity
    }

    fn duration(&mut self, node: &Node, name: &str) -> Option<Duration> {
        match &node.is {
            What::Text(text) => match value::duration(text.trim()) {
                Ok(duration) => return Some(duration),
                Err(reason) => self.wrong(node, format!("{name} {reason}")),
            },
            What::Whole(number) => {
                let message = format!(
                    "{name} must be a duration with its unit: did you mean {number}s or {number}m?"
                );
                self.wrong(node, message);
            }
            other => {
                let message = format!(
                    "{name} must be a duration such as 15s or 1m30s, but this is {}",
                    other.name()
                );
                self.wrong(node, message);
            }
        }
        None
    }

    /// The value of a threshold: of the same sort as its default.
    fn value(&mut self, node: &Node, name: &str, default: Value) -> Option<Value> {
        let number = match &node.is {
            What::Whole(number) => u32::try_from(*number).ok(),
            What::Text(text) if matches!(default, Value::Percent(_)) => text
                .strip_suffix('%')
                .and_then(|number| number.trim().parse().ok()),
            _ => None,
        };
        match (default, number) {
            (Value::Duration(_), _) => self.duration(node, name).map(Value::Duration),
            // That none is too many is never meant.
            (Value::Count(_), Some(number @ 1..)) => Some(Value::Count(number)),
            (Value::Percent(_), Some(number @ 0..=100)) => Some(Value::Percent(number)),
            (Value::Count(_), _) => {
                self.wrong(
                    node,
                    format!("{name} must be a whole number from 1 on, such as 3"),
                );
                None
            }
            (Value::Percent(_), _) => {
                self.wrong(
                    node,
                    format!("{name} must be a part in percent, from 0% to 100%"),
                );
                None
            }
        }
    }

    /// The matchers of an override: one text, or a list of them.
    fn matchers(&mut self, rule: &'static Rule, node: &Node) -> Option<Matchers> {
        let nodes: Vec<&Node> = match &node.is {
            What::List(nodes) => nodes.iter().collect(),
            _ => vec![node],
        };
        let before = self.problems.len();
        let mut all = Vec::new();
        for node in nodes {
            let Some(text) = self.text(node, "a matcher") else {
                continue;
            };
            match text.parse::<Matchers>() {
                Ok(matchers) => all.extend(matchers.into_iter().map(|matcher| (node, matcher))),
                Err(error) => {
                    let at = self.within(node, &text, error.at);
                    self.problem(at, 1, error.to_string());
                }
            }
        }
        for (node, matcher) in &all {
            let mut labels = rules::labels_of(rule);
            if !labels.any(|label| label == matcher.name()) {
                let hint = nearest(matcher.name(), rules::labels_of(rule))
                    .map_or_else(String::new, |name| format!("did you mean {name}? "));
                let mut known: Vec<_> = rules::labels_of(rule).collect();
                known.sort_unstable();
                known.dedup();
                let message = format!(
                    "alerts of {} have no label {:?}: {hint}they may have {}",
                    rule.name,
                    matcher.name(),
                    known.join(", ")
                );
                self.wrong(node, message);
            }
        }
        if all.is_empty() && self.problems.len() == before {
            self.wrong(
                node,
                "this matches all alerts of the rule: set it at the rule itself, or write a matcher such as 'namespace=\"dev\"'",
            );
        }
        (self.problems.len() == before)
            .then(|| all.into_iter().map(|(_, matcher)| matcher).collect())
    }

    /// Where a piece of a text is in the file: exactly, if the text stands there as it is, else where it begins.
    fn within(&self, node: &Node, text: &str, at: usize) -> Place {
        let Some(before) = text.get(..at) else {
            return node.at;
        };
        let written: String = self.written(node.at).collect();
        let quote = usize::from(written.starts_with(['"', '\'']));
        if !written[quote..].starts_with(text) {
            return node.at;
        }
        Place {
            line: node.at.line,
            column: node.at.column + quote + before.chars().count(),
        }
    }
}
