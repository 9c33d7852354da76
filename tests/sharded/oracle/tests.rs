//! The judgement itself: each kind of wrong is seen.

use super::*;

const BOUNDS: Bounds = Bounds {
    calm: Duration::from_secs(5),
    faulty: Duration::from_secs(30),
};

/// A history of one subject, in seconds.
struct Story {
    start: Instant,
    history: History,
}

impl Story {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            history: History::default(),
        }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn moment(&self, second: u64) -> Moment {
        Moment {
            earliest: self.at(second),
            latest: self.at(second),
        }
    }

    fn broken(mut self, from: u64, until: u64) -> Self {
        let condition = Condition {
            subject: "web".to_owned(),
            broke: self.moment(from),
            ended: self.moment(until),
        };
        self.history.conditions.push(condition);
        self
    }

    fn told(mut self, is_firing: bool, second: u64, key: &str) -> Self {
        let receipt = Receipt {
            at: self.at(second),
            is_firing,
            key: BTreeMap::from([("alertname".to_owned(), key.to_owned())]),
        };
        let receipts = self.history.receipts.entry("web".to_owned());
        receipts.or_default().push(receipt);
        self
    }

    fn firing(self, second: u64) -> Self {
        self.told(true, second, "a")
    }

    fn resolved(self, second: u64) -> Self {
        self.told(false, second, "a")
    }

    fn fault(mut self, from: u64, until: u64) -> Self {
        let fault = Fault {
            what: "a fault".to_owned(),
            from: self.at(from),
            until: self.at(until),
        };
        self.history.faults.push(fault);
        self
    }

    /// What is wrong, without the rest of each line.
    fn wrong(self) -> Vec<String> {
        let (wrong, _) = judge(&self.history, BOUNDS);
        let texts = wrong.iter().map(|line| line.split_once(" (").unwrap().0);
        texts.map(|text| text.replace("web: ", "")).collect()
    }
}

#[test]
fn what_was_told_once_and_in_time_is_right() {
    let story = Story::new().broken(10, 20).firing(11).resolved(21);
    assert_eq!(story.wrong(), Vec::<String>::new());
    let story = Story::new()
        .broken(10, 20)
        .firing(11)
        .resolved(21)
        .broken(30, 40)
        .firing(32)
        .resolved(41);
    assert_eq!(story.wrong(), Vec::<String>::new());
}

#[test]
fn what_was_over_soon_need_not_be_paged() {
    assert_eq!(Story::new().broken(10, 14).wrong(), Vec::<String>::new());
    assert_eq!(
        Story::new().broken(10, 16).wrong(),
        ["never paged, in 6.0s"]
    );
    // With a fault, later.
    let story = Story::new().broken(10, 30).fault(5, 12);
    assert_eq!(story.wrong(), Vec::<String>::new());
}

#[test]
fn a_late_page_is_wrong() {
    let story = Story::new().broken(10, 30).firing(18).resolved(31);
    assert_eq!(story.wrong(), ["paged only after 8.0s"]);
    let story = Story::new()
        .broken(10, 30)
        .fault(8, 12)
        .firing(18)
        .resolved(31);
    assert_eq!(story.wrong(), Vec::<String>::new());
}

#[test]
fn a_resolve_is_wrong_while_it_stands_or_without_a_page() {
    let story = Story::new().broken(10, 30).firing(11).resolved(20);
    assert_eq!(story.wrong(), ["resolved while it stood"]);
    let story = Story::new().broken(10, 12).resolved(13);
    assert_eq!(story.wrong(), ["resolved without a page"]);
}

#[test]
fn a_resolve_that_comes_once_more_when_it_broke_again_is_right_only_because_of_a_fault() {
    let again = || {
        let story = Story::new().broken(10, 20).firing(11).resolved(21);
        story.broken(30, 31).resolved(32)
    };
    assert_eq!(again().wrong(), ["resolved without a page"]);
    assert_eq!(again().fault(21, 22).wrong(), Vec::<String>::new());
    // But not if the page of this time is taken back by it.
    let story = Story::new().broken(10, 20).firing(11).resolved(21);
    let story = story.broken(30, 40).firing(31).resolved(32);
    assert_eq!(story.fault(21, 22).wrong(), ["resolved while it stood"]);
}

#[test]
fn a_page_is_wrong_when_it_is_long_over() {
    let story = Story::new().broken(10, 13).firing(17).resolved(18);
    assert_eq!(story.wrong(), ["paged only after 7.0s"]);
    let story = Story::new().broken(10, 12).firing(19).resolved(20);
    assert_eq!(
        story.wrong(),
        ["paged only after 9.0s", "paged when it was long over"]
    );
}

#[test]
fn a_page_needs_its_resolve() {
    let story = Story::new().broken(10, 20).firing(11);
    assert_eq!(story.wrong(), ["never resolved"]);
    let story = Story::new()
        .broken(10, 20)
        .fault(0, 60)
        .firing(11)
        .resolved(21)
        .firing(22);
    assert_eq!(story.wrong(), ["paged again after it was resolved"]);
}

#[test]
fn twice_is_right_only_because_of_a_fault_and_by_the_same_key() {
    let twice = || {
        Story::new()
            .broken(10, 20)
            .firing(11)
            .firing(12)
            .resolved(21)
    };
    let unexcused = "told twice, with no fault to excuse it";
    assert_eq!(twice().wrong(), [unexcused]);
    assert_eq!(twice().fault(11, 12).wrong(), Vec::<String>::new());
    assert_eq!(twice().fault(1, 9).wrong(), [unexcused]);
    let story = twice().resolved(22);
    assert_eq!(story.wrong(), [unexcused, unexcused]);
    let story = Story::new()
        .broken(10, 20)
        .fault(11, 12)
        .firing(11)
        .told(true, 12, "b")
        .resolved(21);
    assert_eq!(story.wrong(), ["told by another key"]);
}

#[test]
fn who_is_told_of_and_was_never_broken_is_wrong() {
    let (wrong, _) = judge(&Story::new().firing(1).history, BOUNDS);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}
