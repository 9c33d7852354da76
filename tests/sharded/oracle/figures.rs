//! What a scenario has measured.

use std::{fmt, time::Duration};

/// Counts and delays of one scenario.
#[derive(Debug, Default)]
pub struct Figures {
    /// How often something broke.
    pub conditions: usize,
    /// How often it was well again before anybody was paged.
    pub over_before_page: usize,
    pub duplicate_pages: usize,
    pub duplicate_resolves: usize,
    /// From due to paged, with nothing going wrong in between.
    pub to_page_calm: Vec<Duration>,
    /// From due to paged, with something going wrong in between: how long keys had no owner.
    pub to_page_faulty: Vec<Duration>,
    /// From over to resolved.
    pub to_resolve: Vec<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            conditions,
            over_before_page,
            duplicate_pages,
            duplicate_resolves,
            to_page_calm,
            to_page_faulty,
            to_resolve,
        } = self;
        writeln!(
            f,
            "  {conditions} conditions, {over_before_page} over before their page; told twice: {duplicate_pages} pages, {duplicate_resolves} resolves",
        )?;
        writeln!(f, "  due to paged, calm:      {}", Delays(to_page_calm))?;
        writeln!(f, "  due to paged, in faults: {}", Delays(to_page_faulty))?;
        write!(f, "  over to resolved:        {}", Delays(to_resolve))
    }
}

struct Delays<'a>(&'a [Duration]);

impl fmt::Display for Delays<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.to_vec();
        sorted.sort_unstable();
        let Some(max) = sorted.last() else {
            return f.write_str("none");
        };
        // The nearest rank.
        let percentile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted[rank.saturating_sub(1)]
        };
        write!(
            f,
            "p50 {:.2} s, p99 {:.2} s, max {:.2} s of {}",
            percentile(50).as_secs_f64(),
            percentile(99).as_secs_f64(),
            max.as_secs_f64(),
            sorted.len()
        )
    }
}
