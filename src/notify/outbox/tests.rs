//! Directed cases. Random histories are in [`histories`].

mod histories;

use http::StatusCode;

use super::*;
use crate::{
    alert::{Alert, Resolution, Severity},
    notify::{
        Secret,
        test_support::{mk_alert, mk_changed, mk_fired, mk_resolved},
    },
    testing::at,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// An outbox and its time.
struct Bench {
    outbox: Outbox,
    now: Instant,
}

impl Bench {
    fn new(late: Late) -> Self {
        Self {
            outbox: Outbox::new(true, late, 7),
            now: Instant::now(),
        }
    }

    fn push(&mut self, notice: Notice) {
        self.outbox.push(Arc::new(notice), self.now);
    }

    fn next(&mut self) -> Option<Attempt> {
        self.outbox.next(self.now, |_| true.into())
    }

    fn finish(&mut self, attempt: &Attempt, result: &Result<(), SendError>) -> Finished {
        let result = result.as_ref().map(|()| None);
        self.outbox.finish(attempt.id, result, self.now)
    }

    /// Sends what is due, which arrives; the receiver answers with a reference, or none.
    fn answer(&mut self, reference: Option<&str>) -> Message {
        let attempt = self.next().expect("a message is due");
        let reference = reference.and_then(Reference::new);
        self.outbox.finish(attempt.id, Ok(reference), self.now);
        attempt.message
    }

    /// Sends what is due, which must be one message, and says that it arrived.
    fn deliver(&mut self) -> Message {
        let attempt = self.next().expect("a message is due");
        assert!(self.next().is_none(), "only one message is due");
        self.finish(&attempt, &Ok(()));
        attempt.message
    }

    /// Sends what is due, and says that it failed.
    fn fail(&mut self, error: SendError) -> Finished {
        let attempt = self.next().expect("a message is due");
        self.finish(&attempt, &Err(error))
    }

    /// Goes to the time of the next attempt.
    fn wait(&mut self) {
        self.now = self.now.max(self.outbox.next_deadline().unwrap());
    }
}

fn answered(status: u16) -> SendError {
    SendError::status(
        StatusCode::from_u16(status).unwrap(),
        None,
        "",
        &Secret::new(""),
    )
}

fn leave_alone(after: Duration) -> SendError {
    SendError::status(
        StatusCode::TOO_MANY_REQUESTS,
        Some(after),
        "",
        &Secret::new(""),
    )
}

fn with_reason(notice: Notice, reason: &str) -> Notice {
    Notice {
        alert: Alert {
            labels: notice
                .alert
                .labels
                .clone()
                .with("reason", reason.to_owned()),
            ..notice.alert
        },
        ..notice
    }
}

#[test]
fn a_page_and_its_resolve_are_sent_in_order_and_then_forgotten() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    assert_eq!(bench.outbox.len(), 1);
    let message = bench.deliver();
    assert_eq!((message.event, message.transitions), (Event::Fired, 1));
    assert!(bench.outbox.is_empty());

    bench.push(mk_resolved("web"));
    let message = bench.deliver();
    assert_eq!(message.event, Event::Resolved(Resolution::Recovered));
    assert_eq!(message.stale, []);
    assert!(bench.outbox.entries.is_empty() && bench.outbox.ids.is_empty());
    assert!(bench.outbox.schedule.is_empty());
}

#[test]
fn a_receivers_reference_comes_back_until_the_alert_is_over() {
    let reference = |message: &Message| Some(message.reference.as_ref()?.as_str().to_owned());
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    assert_eq!(reference(&bench.answer(Some("1712.5"))), None);
    bench.push(mk_changed("web"));
    // An attempt that fails tells nothing about it, whatever became of it.
    bench.fail(SendError::timeout(SECOND));
    bench.wait();
    assert_eq!(reference(&bench.answer(None)).unwrap(), "1712.5");
    bench.push(mk_fired("web"));
    assert_eq!(reference(&bench.answer(Some("1712.9"))).unwrap(), "1712.5");

    // In another process.
    let subject = mk_alert("web", Severity::Warning).subject;
    let written = serde_json::to_string(&bench.outbox.debts(&subject)).unwrap();
    let debts: Vec<Debt> = serde_json::from_str(&written).unwrap();
    bench.outbox = Outbox::new(true, Late::OneMessage, 8);
    bench.outbox.restore(&subject, &debts, bench.now);
    bench.push(mk_resolved("web"));
    assert_eq!(reference(&bench.answer(None)).unwrap(), "1712.9");
    // The next one is another one.
    bench.push(mk_fired("web"));
    assert_eq!(reference(&bench.answer(None)), None);
}

#[test]
fn a_text_that_is_no_reference_is_not_kept() {
    assert_eq!(Reference::new(""), None);
    assert!(Reference::new(&"x".repeat(Reference::MAX_BYTES)).is_some());
    assert_eq!(Reference::new(&"x".repeat(Reference::MAX_BYTES + 1)), None);
}

#[test]
fn what_fired_and_ended_unseen_is_still_told() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    bench.push(mk_resolved("web"));
    assert_eq!(bench.outbox.take_counts().coalesced, 1);
    let message = bench.deliver();
    assert_eq!(
        message.event,
        Event::FiredAndResolved(Resolution::Recovered)
    );
    assert_eq!(message.transitions, 2);
    assert!(bench.outbox.is_empty());

    // To a program it is told as if nothing had happened.
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    bench.push(mk_resolved("web"));
    let message = bench.deliver();
    assert_eq!(message.event, Event::Fired);
    assert_eq!(message.alert, mk_alert("web", Severity::Warning));
    assert_eq!(message.at, at(60), "when it fired");
    assert_eq!(bench.outbox.len(), 1);
    let message = bench.deliver();
    assert_eq!(message.event, Event::Resolved(Resolution::Recovered));
    assert_eq!(message.alert.ends_at, Some(at(960)));
    assert!(bench.outbox.is_empty());
}

#[test]
fn a_page_that_ended_unseen_is_sent_also_where_no_resolves_are() {
    let mut bench = Bench {
        outbox: Outbox::new(false, Late::FireThenResolve, 7),
        now: Instant::now(),
    };
    bench.push(mk_fired("web"));
    bench.push(mk_resolved("web"));
    assert_eq!(bench.deliver().event, Event::Fired);
    assert!(bench.outbox.is_empty());
    assert!(bench.outbox.entries.is_empty());
    // The same in order.
    bench.push(mk_fired("web"));
    bench.deliver();
    bench.push(mk_resolved("web"));
    assert!(bench.next().is_none());
    assert!(bench.outbox.entries.is_empty());
}

#[test]
fn without_resolves_a_second_page_is_not_taken_for_the_first_one() {
    let mut bench = Bench {
        outbox: Outbox::new(false, Late::FireThenResolve, 7),
        now: Instant::now(),
    };
    bench.push(mk_fired("web"));
    let attempt = bench.next().unwrap();
    for notice in [mk_resolved("web"), mk_fired("web"), mk_resolved("web")] {
        bench.push(notice);
    }
    bench.finish(&attempt, &Ok(()));
    assert_eq!(bench.deliver().event, Event::Fired);
    assert!(bench.outbox.entries.is_empty());
}

#[test]
fn a_flap_that_was_not_seen_is_one_message_with_a_count() {
    let mut bench = Bench::new(Late::OneMessage);
    for notice in [mk_fired("web"), mk_resolved("web"), mk_fired("web")] {
        bench.push(notice);
    }
    let message = bench.deliver();
    assert_eq!((message.event, message.transitions), (Event::Fired, 3));

    for notice in [mk_resolved("web"), mk_fired("web")] {
        bench.push(notice);
    }
    let message = bench.deliver();
    assert_eq!((message.event, message.transitions), (Event::Fired, 2));

    for notice in [mk_resolved("web"), mk_fired("web"), mk_resolved("web")] {
        bench.push(notice);
    }
    let message = bench.deliver();
    assert_eq!(message.event, Event::Resolved(Resolution::Recovered));
    assert_eq!(message.transitions, 3);
}

#[test]
fn a_change_ends_the_old_label_set_and_a_change_back_is_no_news() {
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    bench.deliver();
    bench.push(mk_changed("web"));
    let message = bench.deliver();
    assert_eq!(message.event, Event::Changed);
    assert_eq!(message.alert.severity, Severity::Critical);
    let old = Standing::from(&mk_alert("web", Severity::Warning));
    assert_eq!(message.stale, [old]);

    let back = Notice {
        transition: Transition::Changed,
        ..mk_fired("web")
    };
    bench.push(back);
    bench.push(mk_changed("web"));
    assert!(bench.outbox.is_empty());
    assert!(bench.next().is_none());
}

#[test]
fn a_change_before_the_first_delivery_is_just_the_newest_state() {
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    bench.push(mk_changed("web"));
    let message = bench.deliver();
    assert_eq!((message.event, message.transitions), (Event::Fired, 2));
    assert_eq!(message.alert.severity, Severity::Critical);
    assert_eq!(message.stale, []);
}

#[test]
fn the_end_of_an_alert_ends_all_that_may_have_arrived() {
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    bench.deliver();
    // Nobody knows whether these arrived.
    for reason in ["Error", "OOMKilled", "Error"] {
        bench.push(with_reason(mk_changed("web"), reason));
        bench.fail(SendError::timeout(SECOND));
        bench.wait();
    }
    // This one surely did not.
    bench.push(with_reason(mk_changed("web"), "StartError"));
    bench.fail(answered(429));
    bench.wait();
    bench.push(with_reason(mk_resolved("web"), "StartError"));
    let message = bench.deliver();
    assert_eq!(message.event, Event::Resolved(Resolution::Recovered));
    let reasons: Vec<_> = message
        .stale
        .iter()
        .map(|held| held.labels.get("reason").unwrap())
        .collect();
    assert_eq!(reasons, ["CrashLoopBackOff", "Error", "OOMKilled"]);
}

#[test]
fn a_change_back_is_told_if_the_change_may_have_arrived() {
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    bench.deliver();
    bench.push(mk_changed("web"));
    bench.fail(SendError::timeout(SECOND));
    bench.wait();
    bench.push(Notice {
        transition: Transition::Changed,
        ..mk_fired("web")
    });
    let message = bench.deliver();
    assert_eq!(message.alert.severity, Severity::Warning);
    assert_eq!(
        message.stale,
        [Standing::from(&mk_alert("web", Severity::Critical))]
    );
}

#[test]
fn news_during_a_flight_waits_for_its_end_and_is_not_lost() {
    for result in [Ok(()), Err(SendError::timeout(SECOND))] {
        let mut bench = Bench::new(Late::OneMessage);
        bench.push(mk_fired("web"));
        let attempt = bench.next().unwrap();
        bench.push(mk_resolved("web"));
        assert!(bench.next().is_none(), "one at a time");
        assert_eq!(bench.outbox.len(), 1);
        assert_eq!(bench.outbox.next_deadline(), None);
        let ok = result.is_ok();
        bench.finish(&attempt, &result);
        if ok {
            let event = bench.deliver().event;
            assert_eq!(event, Event::Resolved(Resolution::Recovered));
        } else {
            assert!(bench.next().is_none(), "it has stepped back");
            bench.wait();
            let event = bench.deliver().event;
            assert_eq!(event, Event::FiredAndResolved(Resolution::Recovered));
        }
        assert!(bench.outbox.is_empty());
    }
}

#[test]
fn a_message_that_fails_steps_back_and_lets_others_pass() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("bad"));
    bench.push(mk_fired("good"));
    let bad = bench.next().unwrap();
    bench.finish(&bad, &Err(answered(500)));
    let good = bench.next().unwrap();
    assert_eq!(good.message.alert.labels.get("workload"), Some("good"));
    bench.finish(&good, &Ok(()));
    assert!(bench.next().is_none());
    let deadline = bench.outbox.next_deadline().unwrap();
    assert!(deadline > bench.now && deadline <= bench.now + SECOND);
    assert_eq!(bench.outbox.oldest(), Some(bench.now));
    let owed: Vec<_> = bench.outbox.owed().collect();
    assert_eq!(owed[0].get("workload"), Some("bad"));
}

#[test]
fn of_a_backlog_what_matters_most_goes_first() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("one"));
    bench.push(mk_fired("two"));
    bench.push(mk_fired("three"));
    bench.push(mk_changed("three"));
    let names: Vec<_> = std::iter::from_fn(|| bench.next())
        .map(|attempt| {
            attempt
                .message
                .alert
                .labels
                .get("workload")
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(names, ["three", "one", "two"]);
}

#[test]
fn who_asks_to_be_left_alone_is_left_alone_with_everything() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("one"));
    assert!(matches!(
        bench.fail(leave_alone(10 * MINUTE)),
        Finished::Owed { after } if after == 10 * MINUTE
    ));
    bench.push(mk_fired("two"));
    let start = bench.now;
    assert_eq!(bench.outbox.next_deadline(), Some(start + 10 * MINUTE));
    bench.now = start + 10 * MINUTE - SECOND;
    bench.outbox.poke_all(bench.now);
    assert!(bench.next().is_none());
    bench.now = start + 10 * MINUTE;
    assert!(bench.next().is_some() && bench.next().is_some());
}

#[test]
fn an_absurd_wait_is_cut_to_a_day() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    bench.fail(leave_alone(Duration::MAX));
    assert_eq!(
        bench.outbox.next_deadline(),
        Some(bench.now + Duration::from_secs(86_400))
    );
}

#[test]
fn a_page_that_is_refused_for_good_is_offered_every_five_minutes_and_once_after_its_end() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    for _ in 0..1_000 {
        let finished = bench.fail(answered(404));
        assert_eq!(finished, Finished::Owed { after: 5 * MINUTE });
        bench.wait();
    }
    bench.push(mk_resolved("web"));
    assert_eq!(bench.fail(answered(404)), Finished::Dropped);
    assert!(bench.outbox.entries.is_empty() && bench.outbox.ids.is_empty());
}

#[test]
fn an_end_that_came_during_the_last_flight_is_tried_once_more() {
    let mut bench = Bench::new(Late::FireThenResolve);
    bench.push(mk_fired("web"));
    let attempt = bench.next().unwrap();
    bench.push(mk_resolved("web"));
    let finished = bench.finish(&attempt, &Err(answered(401)));
    assert_eq!(finished, Finished::Owed { after: 5 * MINUTE });
    bench.wait();
    assert_eq!(bench.deliver().event, Event::Fired);
    assert_eq!(
        bench.deliver().event,
        Event::Resolved(Resolution::Recovered)
    );
}

#[test]
fn the_resolve_of_a_delivered_page_is_offered_for_a_day() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    bench.deliver();
    bench.push(mk_resolved("web"));
    let start = bench.now;
    while let Finished::Owed { .. } = bench.fail(answered(403)) {
        bench.wait();
    }
    assert_eq!(bench.now - start, OFFER_RESOLVE);
    assert!(bench.outbox.entries.is_empty());
}

#[test]
fn refused_content_is_sent_again_at_once_in_its_shortest_form() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    let finished = bench.fail(answered(413));
    assert_eq!(
        finished,
        Finished::Owed {
            after: Duration::ZERO
        }
    );
    assert!(bench.deliver().minimal);

    // The next message is whole again.
    bench.push(mk_changed("web"));
    let attempt = bench.next().unwrap();
    assert!(!attempt.message.minimal);
    bench.finish(&attempt, &Err(answered(400)));
    let attempt = bench.next().unwrap();
    assert!(attempt.message.minimal);
    // The shortest form is refused as well: then it is not the content.
    let finished = bench.finish(&attempt, &Err(answered(400)));
    assert_eq!(finished, Finished::Owed { after: 5 * MINUTE });
    bench.wait();
    assert!(!bench.next().unwrap().message.minimal);
}

#[test]
fn what_the_gate_refuses_stays_and_is_asked_again() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    bench.push(mk_fired("api"));
    let foreign = mk_alert("web", Severity::Warning).shard_key;
    let mut asked = 0;
    let attempt = bench
        .outbox
        .next(bench.now, |key| {
            asked += 1;
            (*key != foreign).into()
        })
        .unwrap();
    assert_eq!(attempt.message.alert.labels.get("workload"), Some("api"));
    assert_eq!((asked, bench.outbox.take_counts().refused), (2, 1));
    bench.finish(&attempt, &Ok(()));

    assert!(bench.next().is_none());
    assert_eq!(
        bench.outbox.next_deadline(),
        Some(bench.now + ASK_GATE_AGAIN)
    );
    bench.outbox.poke(bench.now);
    assert_eq!(bench.deliver().event, Event::Fired);
}

#[test]
fn a_poke_does_not_hurry_what_has_failed() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    bench.fail(answered(500));
    bench.outbox.poke(bench.now);
    assert!(bench.next().is_none());
    bench.outbox.poke_all(bench.now);
    assert!(bench.next().is_some());
}

#[test]
fn the_end_of_an_unknown_attempt_changes_nothing() {
    let mut bench = Bench::new(Late::OneMessage);
    bench.push(mk_fired("web"));
    let attempt = bench.next().unwrap();
    bench.finish(&attempt, &Err(answered(500)));
    bench.finish(&attempt, &Ok(()));
    assert_eq!(bench.outbox.len(), 1);
}
