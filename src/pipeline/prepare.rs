//! From what a task says to a directory that terraform can work in.

use serde_json::json;
use terraform_driver::{
    render::{self, Contents, Request},
    run::Job,
    workspace::Workspace,
};

use super::{
    adopt::{self, Lost},
    assignment::Assignment,
    error::WorkError,
    fetch,
    record::Record,
    worker::{Worker, count},
};
use crate::blueprint::{Existing, Resolved, Shape, profile_name};

/// A directory that is as it should be.
pub(super) struct Ready {
    pub(super) workspace: Workspace,
    pub(super) record: Record,
    pub(super) request: Request,
    pub(super) lost: Vec<Lost>,
}

impl Worker<'_> {
    /// Brings the directory to what the task says.
    pub(super) async fn render(
        &self,
        task: &Assignment,
        job: &Job<'_>,
        before: Option<&Record>,
    ) -> Result<Ready, WorkError> {
        let mut resolved = task.resolved.clone();
        if task.is_profile {
            name_profile(&mut resolved, job.workspace)?;
        }
        let asking = (task.principal.as_ref(), self.stop);
        let region = resolved.request.provider.as_ref().map(|provider| provider.region.as_str());
        let mut lost = adopt::find(self.site, job.workspace, region, asking).await?;
        // One that failed is not worth keeping, and a profile of its name cannot be made: terraform will say so.
        lost.retain(|it| it.is_well);
        for Lost { address, id, .. } in &lost {
            let text =
                format!("{address} ({id}) was being created when terraform was killed; it is taken in");
            self.host.note(&task.key, &text);
        }
        if let Some(file) = imports(&lost) {
            resolved.request.extra.insert("capt-imports.tf.json".to_owned(), file);
        }
        let mut rendered = render::render(&resolved.request)?;
        let mut fetched = Vec::new();
        if let Some(wanted) = rendered.fetch.clone() {
            fetched = fetch::fetch(self.site, &wanted, job.workspace, job.environment).await?;
            fetch::show(&mut resolved.request, &fetched, &wanted.entrypoint);
            rendered = render::render(&resolved.request)?;
        }
        let digests = self.site.digests(&rendered, &fetched);
        let mut record = Record::new(task, &digests, &rendered, before);
        record.args = (&resolved.args).into();
        record.env = resolved.env.iter().map(|(name, _)| name.clone()).collect();
        record.region = resolved.request.provider.as_ref().map(|provider| provider.region.clone());
        if let Some(before) = before.filter(|_| count(job.workspace).is_ok_and(|objects| objects > 0)) {
            stays_in_place(before, &record)?;
        }
        let workspace = record.place(&self.site.data, &task.key);
        workspace.write(super::files(&rendered, &fetched))?;
        record.write(&workspace)?;
        Ok(Ready { workspace, record, request: resolved.request, lost })
    }
}

/// A profile that must become another one gets another name.
fn name_profile(resolved: &mut Resolved, workspace: &Workspace) -> Result<(), WorkError> {
    let request = &mut resolved.request;
    let value = |name| request.variables.get(name).or_else(|| request.upstream.get(name));
    let wanted = Shape::new(value("selectors"), value("private_subnets"), value("pod_execution_role_arn"));
    let Some(plain) = request.variables.get("profile_name").and_then(|name| name.as_str()) else {
        return Ok(());
    };
    let existing = workspace.state()?.as_ref().and_then(Existing::of);
    let name = profile_name(plain, &wanted, existing.as_ref());
    request.variables.insert("profile_name".to_owned(), name.into());
    Ok(())
}

/// Whether what exists will be looked for where it is.
fn stays_in_place(before: &Record, now: &Record) -> Result<(), WorkError> {
    let moved = |what, from: String, to: String| Err(WorkError::Moved { what, from, to });
    let place =
        |remote: bool| if remote { "a backend of its own" } else { "the workspace's directory" }.to_owned();
    if let (Some(from), Some(to)) = (&before.region, &now.region)
        && from != to
    {
        return moved("region", from.clone(), to.clone());
    }
    if before.root != now.root {
        return moved("root directory", format!("{:?}", before.root), format!("{:?}", now.root));
    }
    if before.remote_state != now.remote_state {
        return moved("backend", place(before.remote_state), place(now.remote_state));
    }
    Ok(())
}

/// Import blocks for objects that exist and are not in the state.
fn imports(lost: &[Lost]) -> Option<Contents> {
    let blocks: Vec<_> = lost.iter().map(|it| json!({ "to": it.address, "id": it.id })).collect();
    let text = json!({ "import": blocks }).to_string();
    (!lost.is_empty()).then(|| Contents::plain(text.into_bytes()))
}
