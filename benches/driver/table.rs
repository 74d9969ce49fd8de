//! The result table, and formatting of figures.

use std::{fmt, time::Duration};

use comfy_table::presets;

/// Whether a target was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Miss,
    /// There is no target.
    None,
}

impl Verdict {
    pub(crate) const fn from_met(met: bool) -> Self {
        if met { Self::Ok } else { Self::Miss }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Miss => "miss",
            Self::None => "",
        })
    }
}

/// Figures in the order in which they were added.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    pub(crate) fn add(&mut self, figure: &str, measured: &str, target: &str, verdict: Verdict) {
        self.rows.push([figure.to_owned(), measured.to_owned(), target.to_owned(), verdict.to_string()]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(["figure", "measured", "target", "verdict"]);
        table.add_rows(&self.rows);
        write!(f, "{table}")
    }
}

/// The middle one; the mean of the two middle ones if their number is even.
pub(crate) fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let middle = times.len() / 2;
    match (times.get(middle), times.len() % 2) {
        (None, _) => Duration::ZERO,
        (Some(time), 1) => *time,
        (Some(time), _) => (times[middle - 1] + *time) / 2,
    }
}

/// How much more the second one is.
pub(crate) fn percent(bare: Duration, capt: Duration) -> f64 {
    100.0 * (capt.as_secs_f64() / bare.as_secs_f64() - 1.0)
}

/// With as many digits as mean something.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        long if long >= 1.0 => format!("{long:.2} s"),
        short => format!("{:.1} ms", short * 1000.0),
    }
}
