//! The table of figures.

use std::fmt;

/// Figures in the order in which they were added.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<[String; 4]>,
}

impl Report {
    /// A figure. `met` is whether its target was met, if it has one.
    pub(crate) fn add(&mut self, figure: &str, measured: &str, target: &str, met: Option<bool>) {
        let verdict = met.map_or("", |met| if met { "ok" } else { "miss" });
        println!("{figure}: {measured} {target} {verdict}");
        self.rows.push([figure, measured, target, verdict].map(str::to_owned));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["figure", "measured", "target", "verdict"].map(str::to_owned);
        let width = |at: usize| self.rows.iter().chain([&head]).map(|row| row[at].chars().count()).max();
        let widths = [0, 1, 2, 3].map(|at| width(at).unwrap_or(0));
        let line = |row: &[String; 4]| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:width$} "));
            format!("|{}|", cells.collect::<Vec<_>>().join("|"))
        };
        writeln!(f, "{}", line(&head))?;
        writeln!(f, "|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"))?;
        for row in &self.rows {
            writeln!(f, "{}", line(row))?;
        }
        Ok(())
    }
}

/// The middle one.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values = values.collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
