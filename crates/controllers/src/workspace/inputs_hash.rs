//! Hash of all inputs of a run. Pure: no I/O.
//!
//! A changed hash triggers a new plan. It covers the inputs before rendering: rendered values such as the generated name
//! of a Fargate profile depend on existing resources and must not count as a change.

use capt_model::workspaces::ResolvedWorkspace;
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    render::{FileContents, InlineFormat, RenderRequest, RootSource},
};

/// Hashes the configuration, environment and arguments; `principal` is a digest of the credentials, not the credentials.
pub fn hash_inputs(resolved: &ResolvedWorkspace, principal: &str) -> String {
    let mut hash = InputsHasher(Sha256::new());
    let ResolvedWorkspace { request, env, args, missing: _ } = resolved;
    hash.write_text("principal", principal);
    hash_request(&mut hash, request);
    for (name, value) in env {
        hash.write_text(name, value);
    }
    for list in [&args.init, &args.plan, &args.apply, &args.destroy] {
        hash.write_text("args", &list.join("\u{0}"));
    }
    hex(hash.0.finalize())[..32].to_owned()
}

struct InputsHasher(Sha256);

impl InputsHasher {
    /// Length prefixes keep adjacent values from running into each other.
    fn write_bytes(&mut self, name: &str, bytes: &[u8]) {
        self.0.update(format!("{} {name} {}\n", name.len(), bytes.len()));
        self.0.update(bytes);
    }

    fn write_text(&mut self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }
}

fn hash_request(hash: &mut InputsHasher, request: &RenderRequest) {
    hash_source(hash, &request.source);
    hash.write_text("entrypoint", &request.entrypoint);
    for (name, map) in [
        ("variables", &request.variables),
        ("varmap", &request.varmap),
        ("upstream", &request.upstream_outputs),
    ] {
        hash.write_text(name, &serde_json::to_string(map).unwrap_or_default());
    }
    for var in &request.vars {
        hash.write_text(&var.key, &var.value);
    }
    for file in &request.var_files {
        hash.write_text(format_name(file.format), &file.text);
    }
    hash.write_text("provider", &format!("{:?}", request.provider));
    hash.write_text("backend", &format!("{:?}", request.backend));
    for (path, FileContents { bytes, .. }) in &request.extra_files {
        hash.write_bytes(path, bytes);
    }
}

fn hash_source(hash: &mut InputsHasher, source: &RootSource) {
    match source {
        RootSource::Module(files) => {
            for (path, bytes) in files {
                hash.write_bytes(path, bytes);
            }
        }
        RootSource::Inline { format, text } => hash.write_text(format_name(*format), text),
        RootSource::Remote { source, fetched: _ } => hash.write_text("address", source.address()),
    }
}

const fn format_name(format: InlineFormat) -> &'static str {
    match format {
        InlineFormat::Hcl => "hcl",
        InlineFormat::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use terraform_driver::{command::UserArgs, render::TemplateVar};

    use super::*;

    fn resolved() -> ResolvedWorkspace {
        let source = RootSource::Inline { format: InlineFormat::Hcl, text: "# x".to_owned() };
        let mut request = RenderRequest::new("default", "demo", source);
        request.variables.insert("name".to_owned(), json!("demo"));
        request.vars.push(TemplateVar { key: "a".to_owned(), value: "1".to_owned() });
        ResolvedWorkspace { request, env: Vec::new(), args: UserArgs::default(), missing: Vec::new() }
    }

    #[test]
    fn it_is_the_same_for_the_same_and_another_for_every_change() {
        let base = hash_inputs(&resolved(), "p");
        assert_eq!(base, hash_inputs(&resolved(), "p"));
        let mut seen = vec![base, hash_inputs(&resolved(), "q")];
        let mut changed = |change: &dyn Fn(&mut ResolvedWorkspace)| {
            let mut other = resolved();
            change(&mut other);
            let digest = hash_inputs(&other, "p");
            assert!(!seen.contains(&digest));
            seen.push(digest);
        };
        changed(&|it| it.request.variables["name"] = json!("other"));
        changed(&|it| it.request.vars[0].value = "2".to_owned());
        changed(&|it| it.env.push(("TOKEN".to_owned(), "x".to_owned())));
        changed(&|it| it.args.plan.push("-parallelism=1".to_owned()));
        changed(&|it| {
            it.request.source = RootSource::Inline { format: InlineFormat::Hcl, text: "# y".to_owned() };
        });
        changed(&|it| it.request.upstream_outputs = json!({"vpc_id": "vpc-1"}).as_object().unwrap().clone());
    }
}
