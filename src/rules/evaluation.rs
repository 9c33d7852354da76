//! One look at one object.

use std::{fmt::Display, time::Duration};

use jiff::Timestamp;

use super::{
    Finding, Memo, Rule,
    identity::Identity,
    tuning::{FINDING_LABELS, Override, Setting, Threshold, Tuning, Value},
};
use crate::cluster::Object;

/// One look at one object: the time, what is remembered of the object, how the rules are set, and where the verdicts go.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// What earlier looks at this object left behind.
    pub memo: &'a mut Memo,
    findings: &'a mut Vec<Finding>,
    tuning: Option<&'a Tuning>,
    identity: Option<Identity<'a>>,
    quiet: Option<&'a mut Vec<Quiet>>,
    look_again: Option<Timestamp>,
}

/// Why a rule has found nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    /// The rule.
    pub rule: &'static Rule,
    /// Whether it is turned off for the object, or for what it has found in it.
    pub is_off: bool,
    /// Why, as the end of a sentence that begins with "because".
    pub because: String,
}

impl<'a> Evaluation<'a> {
    /// A look with the defaults of all rules, whose verdicts are added to `findings`.
    pub const fn new(now: Timestamp, memo: &'a mut Memo, findings: &'a mut Vec<Finding>) -> Self {
        Self {
            now,
            memo,
            findings,
            tuning: None,
            identity: None,
            quiet: None,
            look_again: None,
        }
    }

    /// The same, with what is changed of the rules.
    #[must_use]
    pub const fn tuned(mut self, tuning: &'a Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// The same, of an object of the cluster of this name: what is changed only for some objects is changed for it if it is one of them.
    #[must_use]
    pub fn of(mut self, object: &'a Object, cluster: &'a str) -> Self {
        self.identity = Some(Identity::new(object, cluster));
        self
    }

    /// The same, and the rules say why they find nothing.
    #[must_use]
    pub const fn explained(mut self, quiet: &'a mut Vec<Quiet>) -> Self {
        self.quiet = Some(quiet);
        self
    }

    /// When the object is to be looked at again, even if it has not changed by then.
    pub const fn look_again(&self) -> Option<Timestamp> {
        self.look_again
    }

    // === what rules do ===

    /// Reports what a rule has found.
    pub(super) fn push(&mut self, mut finding: Finding) {
        debug_assert!(
            (finding.part.as_ref()).is_none_or(|(label, _)| FINDING_LABELS.contains(label)),
            "the label of a part belongs to FINDING_LABELS"
        );
        let enabled = self.found(&finding, |setting| setting.enabled);
        if !enabled.unwrap_or(finding.rule.enabled) {
            let because = format_args!("it is turned off; else it would say: {}", finding.summary);
            self.note(finding.rule, true, because);
            return;
        }
        let severity = self.found(&finding, |setting| setting.severity);
        finding.severity = severity.unwrap_or(finding.severity);
        finding.r#for = finding
            .r#for
            .or_else(|| self.set(finding.rule, |setting| setting.r#for));
        self.findings.push(finding);
    }

    /// Says why rules have nothing to report. Nothing is formatted if nobody asks.
    pub(super) fn quiet(&mut self, rule: &'static Rule, because: impl Display) {
        if self.quiet.is_none() {
            return;
        }
        let enabled = self.set(rule, |setting| setting.enabled);
        if enabled.unwrap_or(rule.enabled) {
            self.note(rule, false, because);
        } else {
            let because = format_args!("it is turned off; else it would find nothing: {because}");
            self.note(rule, true, because);
        }
    }

    fn note(&mut self, rule: &'static Rule, is_off: bool, because: impl Display) {
        if let Some(quiet) = &mut self.quiet {
            let because = because.to_string();
            quiet.push(Quiet {
                rule,
                is_off,
                because,
            });
        }
    }

    /// Says why none of these rules has anything to report.
    pub(super) fn quiet_all(&mut self, rules: &[&'static Rule], because: impl Display) {
        for rule in rules {
            self.quiet(rule, &because);
        }
    }

    /// Says why none of these rules has anything to report, but for those that have said something of the object already.
    pub(super) fn quiet_rest(&mut self, rules: &[&'static Rule], because: impl Display) {
        for &rule in rules {
            let Some(quiet) = &self.quiet else {
                return;
            };
            let is_found = self.findings.iter().any(|finding| finding.rule == rule);
            if !is_found && !quiet.iter().any(|quiet| quiet.rule == rule) {
                self.quiet(rule, &because);
            }
        }
    }

    /// Asks for another look at this time, if it comes before all others that were asked for. For what time alone brings about, and what a finding cannot tell now.
    pub(super) fn look_again_at(&mut self, time: Timestamp) {
        self.look_again = Some(self.look_again.map_or(time, |earlier| earlier.min(time)));
    }

    /// The rule's `for`, as it is set.
    pub(super) fn r#for(&self, rule: &Rule) -> Duration {
        self.set(rule, |setting| setting.r#for)
            .unwrap_or(rule.r#for)
    }

    /// A threshold of the rule that is a time, as it is set.
    pub(super) fn duration(&self, rule: &Rule, threshold: &Threshold) -> Duration {
        match self.value(rule, threshold) {
            Value::Duration(duration) => duration,
            Value::Count(_) | Value::Percent(_) => Duration::ZERO,
        }
    }

    /// A threshold of the rule that is a number, as it is set.
    pub(super) fn number(&self, rule: &Rule, threshold: &Threshold) -> u32 {
        match self.value(rule, threshold) {
            Value::Count(number) | Value::Percent(number) => number,
            Value::Duration(_) => 0,
        }
    }

    fn value(&self, rule: &Rule, threshold: &Threshold) -> Value {
        let set = self.set(rule, |setting| {
            setting.thresholds.get(threshold.name).copied()
        });
        set.unwrap_or(threshold.default)
    }

    /// What the rule is set to for this object, if it is.
    fn set<T>(&self, rule: &Rule, field: impl Fn(&Setting) -> Option<T>) -> Option<T> {
        self.last(rule, field, |changed| {
            !changed.needs_finding() && self.applies(rule, changed, None)
        })
    }

    /// What the rule is set to for this finding, if it is.
    fn found<T>(&self, finding: &Finding, field: impl Fn(&Setting) -> Option<T>) -> Option<T> {
        self.last(finding.rule, field, |changed| {
            self.applies(finding.rule, changed, Some(finding))
        })
    }

    /// The field as the last override has it that applies, else as it is changed for all objects.
    fn last<T>(
        &self,
        rule: &Rule,
        field: impl Fn(&Setting) -> Option<T>,
        applies: impl Fn(&Override) -> bool,
    ) -> Option<T> {
        let tuning = self.tuning?;
        let mut overrides = tuning.overrides(rule).iter().rev();
        overrides
            .find_map(|changed| field(&changed.setting).filter(|_| applies(changed)))
            .or_else(|| tuning.of(rule).and_then(field))
    }

    fn applies(&self, rule: &Rule, changed: &Override, finding: Option<&Finding>) -> bool {
        let Some(identity) = &self.identity else {
            return false;
        };
        changed.matchers.match_all(|name| match (name, finding) {
            ("alertname", _) => rule.name,
            ("severity", Some(finding)) => finding.severity.as_str(),
            ("reason", Some(finding)) => &finding.reason,
            (
                name,
                Some(Finding {
                    part: Some((label, value)),
                    ..
                }),
            ) if *label == name => value,
            (name, _) => identity.label(name),
        })
    }
}
