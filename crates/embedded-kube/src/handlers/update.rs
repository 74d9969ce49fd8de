//! The whole object anew.

use serde_json::Value;

use super::{
    Server,
    change::{self, Tracking},
    create, intake, key,
    options::WriteOptions,
};
use crate::{
    failure::{Answer, Failure},
    object::Meta,
    patch,
    registry::{Part, Resource},
    request::{Reply, Request},
};

impl Server {
    pub(super) async fn update(&self, request: &Request, part: Part) -> Answer<Reply> {
        let options = WriteOptions::read(request, "UpdateOptions", Vec::new())?;
        let mut intake = intake::read(request, options.validation, &self.registry)?;
        fit_name(&mut intake.object, request)?;
        intake::dedupe_owners(&mut intake.object, &mut intake.warnings);
        if part == Part::Main && creates_on_update(&request.resource) && self.is_absent(request) {
            return self.create_by_update(request, &options, intake.object, intake.warnings).await;
        }
        let mut warnings = intake.warnings;
        warnings.extend(request.resource.rules.warnings(&intake.object));
        let object = intake.object;
        self.change_and_show(request, &options, warnings, |_, old| {
            change::advance(request, &options, part, (old, object.clone()), Tracking::ByDifference)
        })
        .await
    }

    pub(super) fn is_absent(&self, request: &Request) -> bool {
        self.store.get(&key(&request.resource, &request.namespace, &request.name)).is_none()
    }

    async fn create_by_update(
        &self,
        request: &Request,
        options: &WriteOptions,
        mut object: Value,
        warnings: Vec<String>,
    ) -> Answer<Reply> {
        let resource = &request.resource;
        if !object.uid().is_empty() {
            let why =
                format!("Precondition failed: UID in precondition: {}, UID in object meta: ", object.uid());
            return Err(Failure::conflict(&resource.group_resource(), &request.name, &why));
        }
        if !matches!(object.resource_version(), "" | "0") {
            return Err(Failure::not_found(&resource.group_resource(), &request.name));
        }
        create::drop_status(&mut object, resource);
        resource.rules.default(&mut object);
        intake::clean(&mut object, resource);
        patch::track(None, &mut object, &resource.shape, &create::writer(request, options))?;
        self.store_new(request, object, warnings, options.dry_run).await
    }
}

/// Name and namespace of the path go into the object; others are refused.
pub fn fit_name(object: &mut Value, request: &Request) -> Answer<()> {
    if request.name.is_empty() {
        return Err(Failure::bad_request("name must be provided"));
    }
    intake::fit_namespace(object, request)?;
    let given = object.name().to_owned();
    if given.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.name
        )));
    }
    if given != request.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            request.name
        )));
    }
    Ok(())
}

fn creates_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.id.group.as_str(), resource.id.plural.as_str()),
        ("", "events" | "services" | "endpoints")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | ("rbac.authorization.k8s.io", _)
    )
}
