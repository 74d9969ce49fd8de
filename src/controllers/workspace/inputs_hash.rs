//! The digest of everything that goes into a run. Pure.
//!
//! When it changes, a new plan is due. It holds what people wrote, not what a render makes of it: the name that a
//! Fargate profile gets depends on what exists, and must not look like a change.

use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    render::{Contents, InlineFormat, Request, Source},
};

use crate::blueprint::Resolved;

/// Of what is rendered and how it is run; `principal` tells of the credentials without giving them away.
pub fn digest(resolved: &Resolved, principal: &str) -> String {
    let mut hash = Hash(Sha256::new());
    let Resolved { request, env, args, missing: _ } = resolved;
    hash.text("principal", principal);
    request_into(&mut hash, request);
    for (name, value) in env {
        hash.text(name, value);
    }
    for list in [&args.init, &args.plan, &args.apply, &args.destroy] {
        hash.text("args", &list.join("\u{0}"));
    }
    hex(&hash.0.finalize())[..32].to_owned()
}

struct Hash(Sha256);

impl Hash {
    /// Lengths keep neighbours apart.
    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.0.update(format!("{} {name} {}\n", name.len(), bytes.len()));
        self.0.update(bytes);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }
}

fn request_into(hash: &mut Hash, request: &Request) {
    source_into(hash, &request.source);
    hash.text("entrypoint", &request.entrypoint);
    for (name, map) in
        [("variables", &request.variables), ("varmap", &request.varmap), ("upstream", &request.upstream)]
    {
        hash.text(name, &serde_json::to_string(map).unwrap_or_default());
    }
    for var in &request.vars {
        hash.text(&var.key, &var.value);
    }
    for file in &request.var_files {
        hash.text(language(file.format), &file.text);
    }
    hash.text("provider", &format!("{:?}", request.provider));
    hash.text("backend", &format!("{:?}", request.backend));
    for (path, Contents { bytes, .. }) in &request.extra {
        hash.bytes(path, bytes);
    }
}

fn source_into(hash: &mut Hash, source: &Source) {
    match source {
        Source::Module(files) => {
            for (path, bytes) in files {
                hash.bytes(path, bytes);
            }
        }
        Source::Inline { format, text } => hash.text(language(*format), text),
        Source::Remote { address, fetched: _ } => hash.text("address", address),
    }
}

const fn language(format: InlineFormat) -> &'static str {
    match format {
        InlineFormat::Hcl => "hcl",
        InlineFormat::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use terraform_driver::{command::UserArgs, render::Var};

    use super::*;

    fn resolved() -> Resolved {
        let source = Source::Inline { format: InlineFormat::Hcl, text: "# x".to_owned() };
        let mut request = Request::new("default", "demo", source);
        request.variables.insert("name".to_owned(), json!("demo"));
        request.vars.push(Var { key: "a".to_owned(), value: "1".to_owned() });
        Resolved { request, env: Vec::new(), args: UserArgs::default(), missing: Vec::new() }
    }

    #[test]
    fn it_is_the_same_for_the_same_and_another_for_every_change() {
        let base = digest(&resolved(), "p");
        assert_eq!(base, digest(&resolved(), "p"));
        let mut seen = vec![base, digest(&resolved(), "q")];
        let mut changed = |change: &dyn Fn(&mut Resolved)| {
            let mut other = resolved();
            change(&mut other);
            let digest = digest(&other, "p");
            assert!(!seen.contains(&digest));
            seen.push(digest);
        };
        changed(&|it| it.request.variables["name"] = json!("other"));
        changed(&|it| it.request.vars[0].value = "2".to_owned());
        changed(&|it| it.env.push(("TOKEN".to_owned(), "x".to_owned())));
        changed(&|it| it.args.plan.push("-parallelism=1".to_owned()));
        changed(&|it| {
            it.request.source = Source::Inline { format: InlineFormat::Hcl, text: "# y".to_owned() };
        });
        changed(&|it| it.request.upstream = json!({"vpc_id": "vpc-1"}).as_object().unwrap().clone());
    }
}
