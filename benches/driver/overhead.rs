//! Capt and bare terraform doing the same work, turn and turn about.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::ensure;

use crate::{
    bare::Bare,
    capt::{Capt, Metered},
    process::Cost,
    say,
    table::{Table, Verdict, median, percent, seconds},
};

/// What capt may cost on top, in per cent of what bare terraform takes.
const TARGET: f64 = 5.0;

const VPC: &str = "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: bench, namespace: default}
spec:
  region: eu-central-1
  vpcConfig: {cidr: 10.20.0.0/16, availabilityZoneCount: 2, natGateways: Single}
";

const HUNDRED: &str = r#"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: hundred, namespace: default}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "one" {
            count = 100
            input = "value ${count.index}"
          }
          output "ids" {
            value = terraform_data.one[*].id
          }
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: hundred, namespace: default}
spec:
  templateRef: {name: hundred, namespace: default}
"#;

/// One workspace to measure with.
struct Case<'a> {
    capt: &'a Capt,
    /// As the table calls it.
    title: &'static str,
    manifest: PathBuf,
    workspace: &'static str,
}

/// One kind of work, done by both.
#[derive(Default)]
struct Pair {
    bare: Vec<Cost>,
    capt: Vec<Metered>,
}

/// The whole comparison, into the table.
pub(crate) fn measure(capt: &Capt, rounds: usize, table: &mut Table) -> anyhow::Result<()> {
    let _aws = capt.start_aws()?;
    let vpc = Case::new(capt, "VPC, real provider", "bench-vpc", VPC)?;
    let hundred = Case::new(capt, "100 terraform_data", "hundred", HUNDRED)?;
    say("warming up");
    capt.metered("plan", &vpc.manifest)?;
    hundred.measure(2 * rounds + 1, table)?;
    vpc.measure(rounds, table)
}

impl<'a> Case<'a> {
    fn new(capt: &'a Capt, title: &'static str, workspace: &'static str, text: &str) -> anyhow::Result<Self> {
        let manifest = capt.scratch().join(format!("{workspace}.yaml"));
        fs::write(&manifest, text)?;
        Ok(Self { capt, title, manifest, workspace })
    }

    fn measure(&self, rounds: usize, table: &mut Table) -> anyhow::Result<()> {
        let (mut first, mut check) = (Pair::default(), Pair::default());
        let mut remembered = 0;
        for round in 0..rounds {
            say(&format!("{}: round {} of {rounds}", self.title, round + 1));
            // Whoever comes second finds warmer caches, so they take turns in that too.
            if round % 2 == 0 {
                self.bare(&mut first, &mut check)?;
                remembered = self.capt(&mut first, &mut check)?;
            } else {
                remembered = self.capt(&mut first, &mut check)?;
                self.bare(&mut first, &mut check)?;
            }
        }
        first.report(&format!("{}: init, plan, apply", self.title), table);
        check.report(&format!("{}: unchanged", self.title), table);
        let started = check.capt.last().map_or(0, |metered| metered.spent.len());
        let verdict = Verdict::of(remembered == 1 && started == 1);
        let figure = format!("{}: unchanged, processes", self.title);
        table.add(&figure, &format!("{started} terraform, {remembered} run(s)"), "1", verdict);
        Ok(())
    }

    fn bare(&self, first: &mut Pair, check: &mut Pair) -> anyhow::Result<()> {
        let bare = Bare::rendered(self.capt, &self.manifest)?;
        first.bare.push(bare.first()?);
        check.bare.push(bare.check()?);
        Ok(())
    }

    /// From an empty workspace; how many runs the check added to what the workspace remembers.
    fn capt(&self, first: &mut Pair, check: &mut Pair) -> anyhow::Result<usize> {
        let dir = self.capt.workspace(self.workspace);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        first.capt.push(self.capt.metered("apply", &self.manifest)?);
        let before = self.capt.runs(self.workspace)?;
        ensure!(before == 3, "capt apply ran {before} commands in {} instead of three", self.workspace);
        check.capt.push(self.capt.metered("plan", &self.manifest)?);
        Ok(self.capt.runs(self.workspace)? - before)
    }
}

impl Pair {
    fn report(&self, figure: &str, table: &mut Table) {
        let bare = |of: fn(&Cost) -> Duration| median(self.bare.iter().map(of));
        let capt = |of: fn(&Cost) -> Duration| median(self.capt.iter().map(|metered| of(&metered.cost)));
        let both = |bare, capt| {
            format!("bare {}, capt {} ({:+.1} %)", seconds(bare), seconds(capt), percent(bare, capt))
        };

        let (cpu_bare, cpu_capt) = (bare(|cost| cost.cpu), capt(|cost| cost.cpu));
        let verdict = Verdict::of(percent(cpu_bare, cpu_capt) <= TARGET);
        table.add(&format!("{figure}, CPU"), &both(cpu_bare, cpu_capt), &format!("+{TARGET:.0} %"), verdict);

        let own = median(self.capt.iter().map(Metered::own));
        let share = 100.0 * own.as_secs_f64() / cpu_bare.as_secs_f64();
        table.add(
            &format!("{figure}, CPU of capt itself"),
            &format!("{} ({share:.1} %)", seconds(own)),
            "",
            Verdict::None,
        );

        let (bare, capt) = (bare(|cost| cost.wall), capt(|cost| cost.wall));
        table.add(&format!("{figure}, wall"), &both(bare, capt), "", Verdict::None);
    }
}

impl Metered {
    /// The CPU of capt and its shims, without terraform.
    fn own(&self) -> Duration {
        self.cost.cpu.saturating_sub(self.spent.iter().map(|spent| spent.engine).sum())
    }
}
