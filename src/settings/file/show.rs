//! A configuration as a file: what is set, and every default as a comment.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use super::Config;
use crate::rules::{self, Override, Rule, Setting, Value};

impl Config {
    /// The configuration as YAML, of which this program makes the same configuration again.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut impl Write) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => writeln!(out, "cluster: {}", quoted(cluster))?,
            None => writeln!(out, "# cluster: the name of the cluster")?,
        }
        writeln!(out, "rules:")?;
        for rule in rules::all() {
            writeln!(out, "  {}:", rule.name)?;
            self.rule(out, rule)?;
        }
        Ok(())
    }

    fn rule(&self, out: &mut impl Write, rule: &'static Rule) -> fmt::Result {
        let unset = Setting::default();
        let setting = self.tuning.of(rule).unwrap_or(&unset);
        for (name, set, default) in fields(rule, setting) {
            match set {
                Some(set) => {
                    let origin = self.origin(rule, name).unwrap_or_default();
                    // A file may be called anything.
                    let origin = origin.replace(char::is_control, "\u{fffd}");
                    writeln!(
                        out,
                        "    {name}: {set} # default: {default}; set in {origin}"
                    )?;
                }
                None => writeln!(out, "    # {name}: {default}")?,
            }
        }
        let overrides = self.tuning.overrides(rule);
        if !overrides.is_empty() {
            writeln!(out, "    overrides:")?;
        }
        overrides
            .iter()
            .try_for_each(|changed| overriding(out, changed))
    }
}

/// Each field of a rule: its name, what it is set to, and its default, as the file has them.
pub(super) fn fields(
    rule: &Rule,
    setting: &Setting,
) -> Vec<(&'static str, Option<String>, String)> {
    // Without `..`: a new field cannot be forgotten here.
    let Setting {
        enabled,
        severity,
        r#for,
        thresholds,
    } = setting;
    let mut fields = vec![
        (
            "enabled",
            enabled.map(|enabled| enabled.to_string()),
            rule.enabled.to_string(),
        ),
        (
            "severity",
            severity.map(|severity| severity.to_string()),
            rule.severity.to_string(),
        ),
        ("for", r#for.map(duration), duration(rule.r#for)),
    ];
    fields.extend(rule.thresholds.iter().map(|threshold| {
        let set = thresholds.get(threshold.name).copied();
        (threshold.name, set.map(value), value(threshold.default))
    }));
    fields
}

fn overriding(out: &mut impl Write, changed: &Override) -> fmt::Result {
    let matchers: Vec<String> = changed
        .matchers
        .iter()
        .map(|matcher| quoted(&matcher.to_string()))
        .collect();
    writeln!(out, "      - matchers: [{}]", matchers.join(", "))?;
    let Setting {
        enabled,
        severity,
        r#for,
        thresholds,
    } = &changed.setting;
    if let Some(enabled) = enabled {
        writeln!(out, "        enabled: {enabled}")?;
    }
    if let Some(severity) = severity {
        writeln!(out, "        severity: {severity}")?;
    }
    if let Some(r#for) = r#for {
        writeln!(out, "        for: {}", duration(*r#for))?;
    }
    thresholds
        .iter()
        .try_for_each(|(name, set)| writeln!(out, "        {name}: {}", value(*set)))
}

/// A text in double quotes: those of JSON are YAML, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value as the file has it.
pub fn value(value: Value) -> String {
    match value {
        Value::Duration(value) => duration(value),
        Value::Count(number) => number.to_string(),
        Value::Percent(number) => format!("{number}%"),
    }
}

/// A duration as the file has it, exactly: `1h30m`, `0s`.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (u64::from(duration.subsec_millis()), "ms"),
        (u64::from(duration.subsec_nanos() % 1_000_000), "ns"),
    ];
    let mut text = String::new();
    for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{number}{unit}");
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}
