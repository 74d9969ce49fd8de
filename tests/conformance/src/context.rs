//! What a case is given: a server, a namespace and an identity of its own, and a place for what it sees.

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use tokio::{process::Child, time::Instant};

use crate::{Answer, Patch, Req, Shell, Watch, exec::Kubectl, subject::Subject};

/// What a case saw, in order, by name.
pub type Transcript = Map<String, Value>;

/// How long a condition may take to come true: controllers of the real server retry after five seconds at times.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The world of one case.
pub struct Context {
    subject: Arc<Subject>,
    id: String,
    home: PathBuf,
    seen: Transcript,
    keeps_managed_fields: bool,
}

impl Context {
    pub(crate) fn new(subject: Arc<Subject>, id: String, home: PathBuf) -> Self {
        Self { subject, id, home, seen: Transcript::new(), keeps_managed_fields: false }
    }

    /// The identity of the case: the same on every server, of no other case.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The namespace of the case.
    pub fn namespace(&self) -> String {
        format!("ns-{}", self.id)
    }

    /// The client of the administrator.
    pub fn client(&self) -> kube::Client {
        self.subject.client()
    }

    /// Puts the identity and the namespace for `{id}` and `{ns}`.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace()).replace("{id}", &self.id)
    }

    /// Lets `managedFields` stand in the transcript; without this they are left out of every observation.
    pub fn keep_managed_fields(&mut self) {
        self.keeps_managed_fields = true;
    }

    pub(crate) fn finish(self) -> (Transcript, bool) {
        (self.seen, self.keeps_managed_fields)
    }

    /// Notes an observation. The same name twice is a mistake of the case and is numbered.
    pub fn saw(&mut self, name: &str, value: impl Into<Value>) {
        let mut key = name.to_owned();
        let mut number = 1;
        while self.seen.contains_key(&key) {
            number += 1;
            key = format!("{name} ({number})");
        }
        self.seen.insert(key, value.into());
    }

    /// Sends a request.
    pub async fn send(&self, request: Req) -> Result<Answer> {
        let told = format!("{} {}", request.method, self.fill(&request.path));
        let request = request.build(|text| self.fill(text))?;
        let response = self.client().send(request).await.with_context(|| told.clone())?;
        Answer::read(response).await.context(told)
    }

    /// Sends a request and notes the answer.
    pub async fn see(&mut self, name: &str, request: Req) -> Result<Answer> {
        let answer = self.send(request).await.with_context(|| format!("in \"{name}\""))?;
        self.saw(name, answer.seen());
        Ok(answer)
    }

    /// GET, noted.
    pub async fn get(&mut self, name: &str, path: &str) -> Result<Answer> {
        self.see(name, Req::get(path)).await
    }

    /// POST, noted.
    pub async fn post(&mut self, name: &str, path: &str, body: Value) -> Result<Answer> {
        self.see(name, Req::post(path, body)).await
    }

    /// PUT, noted.
    pub async fn put(&mut self, name: &str, path: &str, body: Value) -> Result<Answer> {
        self.see(name, Req::put(path, body)).await
    }

    /// PATCH, noted.
    pub async fn patch(&mut self, name: &str, kind: Patch, path: &str, body: Value) -> Result<Answer> {
        self.see(name, Req::patch(kind, path, body)).await
    }

    /// Server-side apply by a manager, noted.
    pub async fn apply(&mut self, name: &str, manager: &str, path: &str, body: Value) -> Result<Answer> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}fieldManager={manager}");
        self.see(name, Req::patch(Patch::Apply, path, body)).await
    }

    /// DELETE, noted.
    pub async fn delete(&mut self, name: &str, path: &str) -> Result<Answer> {
        self.see(name, Req::delete(path)).await
    }

    /// Creates an object that the case needs but is not about: not noted, must succeed.
    pub async fn make(&self, path: &str, body: Value) -> Result<Answer> {
        self.must(Req::post(path, body)).await
    }

    /// A request that the case needs but is not about: not noted, must succeed.
    pub async fn must(&self, request: Req) -> Result<Answer> {
        let told = format!("{} {}", request.method, request.path);
        let answer = self.send(request).await?;
        if !answer.is_ok() {
            bail!("{told} answered {}: {}", answer.code, answer.body);
        }
        Ok(answer)
    }

    /// Reads until the answer is as wanted, and returns it; not noted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Result<Answer> {
        self.until_within(PATIENCE, path, wanted).await
    }

    /// The same with another patience.
    pub async fn until_within(
        &self,
        patience: Duration,
        path: &str,
        wanted: impl Fn(&Answer) -> bool,
    ) -> Result<Answer> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(10);
        loop {
            let answer = self.send(Req::get(path)).await?;
            if wanted(&answer) {
                return Ok(answer);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} is not as wanted after {patience:?}: {} {}",
                    self.fill(path),
                    answer.code,
                    answer.body
                );
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, path: &str) -> Result<()> {
        self.until(path, |answer| answer.code == 404).await.map(drop)
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        let request = Req::get(path).build(|text| self.fill(text))?;
        let response = self.client().send(request).await.with_context(|| format!("watch {path}"))?;
        Ok(Watch::new(response))
    }

    /// Runs kubectl in the namespace of the case; not noted.
    pub async fn kubectl(&self, arguments: &[&str], stdin: Option<&str>) -> Result<Shell> {
        let arguments: Vec<String> = arguments.iter().map(|argument| self.fill(argument)).collect();
        let stdin = stdin.map(|text| self.fill(text));
        self.tool().run(&arguments, stdin.as_deref()).await
    }

    /// Runs kubectl and notes what it printed and how it ended.
    pub async fn shell(&mut self, arguments: &[&str]) -> Result<Shell> {
        self.shell_with(arguments, None).await
    }

    /// Runs kubectl with an input and notes what it printed and how it ended.
    pub async fn shell_with(&mut self, arguments: &[&str], stdin: Option<&str>) -> Result<Shell> {
        let shell = self.kubectl(arguments, stdin).await?;
        self.saw(&format!("kubectl {}", arguments.join(" ")), shell.seen());
        Ok(shell)
    }

    /// Starts kubectl without waiting for its end.
    pub fn start_kubectl(&self, arguments: &[&str]) -> Result<Child> {
        let arguments: Vec<String> = arguments.iter().map(|argument| self.fill(argument)).collect();
        self.tool().start(&arguments)
    }

    fn tool(&self) -> Kubectl {
        Kubectl {
            program: self.subject.kubectl().to_owned(),
            kubeconfig: self.subject.kubeconfig().to_owned(),
            home: self.home.clone(),
            namespace: self.namespace(),
        }
    }

    pub(crate) async fn prepare(&self) -> Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "{ns}" } });
        self.make("/api/v1/namespaces", namespace).await.context("make the namespace of the case")?;
        // What controllers put into every namespace comes a moment later; nobody should see it come.
        for given in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            self.until(&format!("/api/v1/namespaces/{{ns}}/{given}"), |answer| answer.code == 200).await?;
        }
        Ok(())
    }
}

/// Runs something until it says yes; for conditions that are not one answer.
pub async fn eventually<F, Fut>(what: &str, mut attempt: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let deadline = Instant::now() + PATIENCE;
    while !attempt().await? {
        if Instant::now() > deadline {
            bail!("{what} did not come true within {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
