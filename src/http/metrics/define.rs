//! How metrics are defined: with all their series from the start.

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector,
};

/// Defines metrics, with every series that a closed set of label values gives.
pub(super) struct Define(pub Registry);

/// A label, and all its values.
pub(super) type Label<'a> = (&'a str, &'a [&'a str]);

impl Define {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    pub fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[Label<'_>],
    ) -> Result<IntCounterVec, prometheus::Error> {
        let metric = self.add(IntCounterVec::new(opts(name, help), &names(labels))?)?;
        for values in series(labels) {
            metric.with_label_values(&values);
        }
        Ok(metric)
    }

    pub fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[Label<'_>],
    ) -> Result<GaugeVec, prometheus::Error> {
        let metric = self.add(GaugeVec::new(opts(name, help), &names(labels))?)?;
        for values in series(labels) {
            metric.with_label_values(&values);
        }
        Ok(metric)
    }

    pub fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
    ) -> Result<Gauge, prometheus::Error> {
        let mut opts = opts(name, help);
        for (label, value) in labels {
            opts = opts.const_label(*label, *value);
        }
        self.add(Gauge::with_opts(opts)?)
    }

    pub fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[Label<'_>],
        buckets: &[f64],
    ) -> Result<HistogramVec, prometheus::Error> {
        let opts = HistogramOpts::from(opts(name, help)).buckets(buckets.to_vec());
        let metric = self.add(HistogramVec::new(opts, &names(labels))?)?;
        for values in series(labels) {
            metric.with_label_values(&values);
        }
        Ok(metric)
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("alertkube")
}

fn names<'a>(labels: &[Label<'a>]) -> Vec<&'a str> {
    labels.iter().map(|(name, _)| *name).collect()
}

/// Every combination of the labels' values.
fn series<'a>(labels: &[Label<'a>]) -> Vec<Vec<&'a str>> {
    labels.iter().fold(vec![Vec::new()], |series, (_, values)| {
        let longer = series.iter().flat_map(|known: &Vec<&'a str>| {
            values.iter().map(|value| {
                let mut longer = known.clone();
                longer.push(*value);
                longer
            })
        });
        longer.collect()
    })
}
