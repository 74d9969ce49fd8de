//! What a case is given: a server, a namespace and an identity of its own, and a place for what it sees.

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use tokio::{process::Child, time::Instant};

use crate::{
    ApiResponse, KubectlOutput, PatchType, Req, Watch, process::Kubectl, server_under_test::ServerUnderTest,
};

/// What a case saw, in order, by name.
pub type Transcript = Map<String, Value>;

/// How long a condition may take to come true: controllers of the real server retry after five seconds at times.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// The world of one case.
pub struct Context {
    subject: Arc<ServerUnderTest>,
    id: String,
    home: PathBuf,
    transcript: Transcript,
    keeps_managed_fields: bool,
}

impl Context {
    pub(crate) fn new(subject: Arc<ServerUnderTest>, id: String, home: PathBuf) -> Self {
        Self { subject, id, home, transcript: Transcript::new(), keeps_managed_fields: false }
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
    pub fn expand(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace()).replace("{id}", &self.id)
    }

    /// Lets `managedFields` stand in the transcript; without this they are left out of every observation.
    pub fn keep_managed_fields(&mut self) {
        self.keeps_managed_fields = true;
    }

    pub(crate) fn finish(self) -> (Transcript, bool) {
        (self.transcript, self.keeps_managed_fields)
    }

    /// Notes an observation. The same name twice is a mistake of the case and is numbered.
    pub fn record(&mut self, name: &str, value: impl Into<Value>) {
        let mut key = name.to_owned();
        let mut number = 1;
        while self.transcript.contains_key(&key) {
            number += 1;
            key = format!("{name} ({number})");
        }
        self.transcript.insert(key, value.into());
    }

    /// Sends a request.
    pub async fn send(&self, request: Req) -> Result<ApiResponse> {
        let told = format!("{} {}", request.method, self.expand(&request.path));
        let request = request.build(|text| self.expand(text))?;
        let response = self.client().send(request).await.with_context(|| told.clone())?;
        ApiResponse::read(response).await.context(told)
    }

    /// Sends a request and notes the answer.
    pub async fn send_and_record(&mut self, name: &str, request: Req) -> Result<ApiResponse> {
        let answer = self.send(request).await.with_context(|| format!("in \"{name}\""))?;
        self.record(name, answer.to_transcript());
        Ok(answer)
    }

    /// GET, noted.
    pub async fn get(&mut self, name: &str, path: &str) -> Result<ApiResponse> {
        self.send_and_record(name, Req::get(path)).await
    }

    /// POST, noted.
    pub async fn post(&mut self, name: &str, path: &str, body: Value) -> Result<ApiResponse> {
        self.send_and_record(name, Req::post(path, body)).await
    }

    /// PUT, noted.
    pub async fn put(&mut self, name: &str, path: &str, body: Value) -> Result<ApiResponse> {
        self.send_and_record(name, Req::put(path, body)).await
    }

    /// PATCH, noted.
    pub async fn patch(
        &mut self,
        name: &str,
        kind: PatchType,
        path: &str,
        body: Value,
    ) -> Result<ApiResponse> {
        self.send_and_record(name, Req::patch(kind, path, body)).await
    }

    /// Server-side apply by a manager, noted.
    pub async fn apply(&mut self, name: &str, manager: &str, path: &str, body: Value) -> Result<ApiResponse> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}fieldManager={manager}");
        self.send_and_record(name, Req::patch(PatchType::Apply, path, body)).await
    }

    /// DELETE, noted.
    pub async fn delete(&mut self, name: &str, path: &str) -> Result<ApiResponse> {
        self.send_and_record(name, Req::delete(path)).await
    }

    /// Creates an object that the case needs but is not about: not noted, must succeed.
    pub async fn create(&self, path: &str, body: Value) -> Result<ApiResponse> {
        self.send_ok(Req::post(path, body)).await
    }

    /// A request that the case needs but is not about: not noted, must succeed.
    pub async fn send_ok(&self, request: Req) -> Result<ApiResponse> {
        let told = format!("{} {}", request.method, request.path);
        let answer = self.send(request).await?;
        if !answer.is_ok() {
            bail!("{told} answered {}: {}", answer.code, answer.body);
        }
        Ok(answer)
    }

    /// Reads until the answer is as wanted, and returns it; not noted.
    pub async fn wait_until(&self, path: &str, wanted: impl Fn(&ApiResponse) -> bool) -> Result<ApiResponse> {
        self.wait_until_within(TIMEOUT, path, wanted).await
    }

    /// The same with another patience.
    pub async fn wait_until_within(
        &self,
        patience: Duration,
        path: &str,
        wanted: impl Fn(&ApiResponse) -> bool,
    ) -> Result<ApiResponse> {
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
                    self.expand(path),
                    answer.code,
                    answer.body
                );
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Waits until an object is gone.
    pub async fn wait_until_deleted(&self, path: &str) -> Result<()> {
        self.wait_until(path, |answer| answer.code == 404).await.map(drop)
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        let request = Req::get(path).build(|text| self.expand(text))?;
        let response = self.client().send(request).await.with_context(|| format!("watch {path}"))?;
        Ok(Watch::new(response))
    }

    /// Runs kubectl in the namespace of the case; not noted.
    pub async fn run_kubectl(&self, arguments: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        let arguments: Vec<String> = arguments.iter().map(|argument| self.expand(argument)).collect();
        let stdin = stdin.map(|text| self.expand(text));
        self.kubectl_command().run(&arguments, stdin.as_deref()).await
    }

    /// Runs kubectl and notes what it printed and how it ended.
    pub async fn record_kubectl(&mut self, arguments: &[&str]) -> Result<KubectlOutput> {
        self.record_kubectl_with_stdin(arguments, None).await
    }

    /// Runs kubectl with an input and notes what it printed and how it ended.
    pub async fn record_kubectl_with_stdin(
        &mut self,
        arguments: &[&str],
        stdin: Option<&str>,
    ) -> Result<KubectlOutput> {
        let shell = self.run_kubectl(arguments, stdin).await?;
        self.record(&format!("kubectl {}", arguments.join(" ")), shell.to_transcript());
        Ok(shell)
    }

    /// Starts kubectl without waiting for its end.
    pub fn start_kubectl(&self, arguments: &[&str]) -> Result<Child> {
        let arguments: Vec<String> = arguments.iter().map(|argument| self.expand(argument)).collect();
        self.kubectl_command().start(&arguments)
    }

    fn kubectl_command(&self) -> Kubectl {
        Kubectl {
            program: self.subject.kubectl().to_owned(),
            kubeconfig: self.subject.kubeconfig().to_owned(),
            home: self.home.clone(),
            namespace: self.namespace(),
        }
    }

    pub(crate) async fn prepare(&self) -> Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "{ns}" } });
        self.create("/api/v1/namespaces", namespace).await.context("make the namespace of the case")?;
        // Controllers create default objects in every namespace with a delay; wait for them.
        for given in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            self.wait_until(&format!("/api/v1/namespaces/{{ns}}/{given}"), |answer| answer.code == 200)
                .await?;
        }
        Ok(())
    }
}

/// Runs something until it says yes; for conditions that are not one answer.
pub async fn wait_for<F, Fut>(what: &str, mut attempt: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let deadline = Instant::now() + TIMEOUT;
    while !attempt().await? {
        if Instant::now() > deadline {
            bail!("{what} did not come true within {TIMEOUT:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
