//! What was measured, beside what was promised.

/// One figure of both servers.
pub(crate) struct Figure {
    what: &'static str,
    unit: &'static str,
    ours: f64,
    theirs: f64,
    bound: Bound,
    below: Option<f64>,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(crate) fn at_most(
        what: &'static str,
        unit: &'static str,
        ours: f64,
        theirs: f64,
        ratio: f64,
    ) -> Self {
        Self { what, unit, ours, theirs, bound: Bound::AtMost(ratio), below: None }
    }

    pub(crate) fn at_least(
        what: &'static str,
        unit: &'static str,
        ours: f64,
        theirs: f64,
        ratio: f64,
    ) -> Self {
        Self { what, unit, ours, theirs, bound: Bound::AtLeast(ratio), below: None }
    }

    /// And never above this, whatever the other one does.
    pub(crate) fn and_below(mut self, most: f64) -> Self {
        self.below = Some(most);
        self
    }

    fn ratio(&self) -> f64 {
        // A figure below what the clock resolves is as good as this.
        self.ours.max(0.001) / self.theirs.max(0.001)
    }

    fn is_met(&self) -> bool {
        let relative = match self.bound {
            Bound::AtMost(most) => self.ratio() <= most,
            Bound::AtLeast(least) => self.ratio() >= least,
        };
        relative && self.below.is_none_or(|most| self.ours < most)
    }

    fn target(&self) -> String {
        let relative = match self.bound {
            Bound::AtMost(most) => format!("≤ {most}"),
            Bound::AtLeast(least) => format!("≥ {least}"),
        };
        match self.below {
            Some(most) => format!("{relative}, < {most} {}", self.unit),
            None => relative,
        }
    }
}

/// All of them, aligned.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut rows = vec![["figure", "embedded", "real", "ratio", "target", ""].map(str::to_owned)];
    rows.extend(figures.iter().map(|figure| {
        [
            figure.what.to_owned(),
            format!("{:.2} {}", figure.ours, figure.unit),
            format!("{:.2} {}", figure.theirs, figure.unit),
            format!("{:.3}", figure.ratio()),
            figure.target(),
            if figure.is_met() { "met".to_owned() } else { "MISSED".to_owned() },
        ]
    }));
    let mut widths = [0_usize; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; 6]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
