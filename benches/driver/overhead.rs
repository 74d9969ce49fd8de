//! capt and bare terraform doing the same work, alternating.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::ensure;

use crate::{
    bare_terraform::BareTerraform,
    capt::{Capt, MeteredRun},
    print_line,
    process::Cost,
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
struct Comparison {
    bare: Vec<Cost>,
    capt: Vec<MeteredRun>,
}

/// The whole comparison, into the table.
pub(crate) fn measure(capt: &Capt, rounds: usize, table: &mut Table) -> anyhow::Result<()> {
    let _aws = capt.start_aws()?;
    let vpc = Case::new(capt, "VPC, real provider", "bench-vpc", VPC)?;
    let hundred = Case::new(capt, "100 terraform_data", "hundred", HUNDRED)?;
    print_line("warming up");
    capt.run_metered("plan", &vpc.manifest)?;
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
        let (mut first, mut check) = (Comparison::default(), Comparison::default());
        let mut remembered = 0;
        for round in 0..rounds {
            print_line(&format!("{}: round {} of {rounds}", self.title, round + 1));
            // The second one finds warmer caches, so the order alternates.
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
        let verdict = Verdict::from_met(remembered == 1 && started == 1);
        let figure = format!("{}: unchanged, processes", self.title);
        table.add(&figure, &format!("{started} terraform, {remembered} run(s)"), "1", verdict);
        Ok(())
    }

    fn bare(&self, first: &mut Comparison, check: &mut Comparison) -> anyhow::Result<()> {
        let bare = BareTerraform::new(self.capt, &self.manifest)?;
        first.bare.push(bare.init_and_apply()?);
        check.bare.push(bare.plan_unchanged()?);
        Ok(())
    }

    /// From an empty workspace; how many runs the check added to what the workspace remembers.
    fn capt(&self, first: &mut Comparison, check: &mut Comparison) -> anyhow::Result<usize> {
        let dir = self.capt.workspace_dir(self.workspace);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        first.capt.push(self.capt.run_metered("apply", &self.manifest)?);
        let before = self.capt.count_runs(self.workspace)?;
        ensure!(before == 3, "capt apply ran {before} commands in {} instead of three", self.workspace);
        check.capt.push(self.capt.run_metered("plan", &self.manifest)?);
        Ok(self.capt.count_runs(self.workspace)? - before)
    }
}

impl Comparison {
    fn report(&self, figure: &str, table: &mut Table) {
        let bare = |of: fn(&Cost) -> Duration| median(self.bare.iter().map(of));
        let capt = |of: fn(&Cost) -> Duration| median(self.capt.iter().map(|metered| of(&metered.cost)));
        let both = |bare, capt| {
            format!("bare {}, capt {} ({:+.1} %)", seconds(bare), seconds(capt), percent(bare, capt))
        };

        let (cpu_bare, cpu_capt) = (bare(|cost| cost.cpu), capt(|cost| cost.cpu));
        let verdict = Verdict::from_met(percent(cpu_bare, cpu_capt) <= TARGET);
        table.add(&format!("{figure}, CPU"), &both(cpu_bare, cpu_capt), &format!("+{TARGET:.0} %"), verdict);

        let own = median(self.capt.iter().map(MeteredRun::own_cpu));
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

impl MeteredRun {
    /// The CPU of capt and its shims, without terraform.
    fn own_cpu(&self) -> Duration {
        self.cost.cpu.saturating_sub(self.spent.iter().map(|spent| spent.engine).sum())
    }
}
