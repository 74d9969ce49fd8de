//! Runs one query: the EKS requests concurrently, with a timeout for all of it.

use std::time::Duration;

use capt_engine::aws::{EksApi, EksError};
use futures::future::join_all;
use jiff::Timestamp;

use super::{
    EksBackend, EksQuery,
    observation::{ApiServerAccess, EksFacts, EksLookup, EksResponse, IssuedToken},
};
use crate::controlplane::kubeconfig::render;

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(45);

pub(super) async fn run_query(
    cloud: &dyn EksBackend,
    question: &EksQuery,
    held: Option<IssuedToken>,
    now: Timestamp,
) -> EksResponse {
    let work = async {
        let eks = cloud.eks_client(&question.principal, &question.region).await;
        let (known, trouble) = query_eks(&*eks, question).await;
        // The name may belong to another cluster since the proof.
        let proven = known
            .cluster
            .as_ref()
            .and_then(EksLookup::present)
            .filter(|view| question.proven_arn.as_ref() == Some(&view.arn));
        let token = match proven {
            Some(_) if question.needs_token => Some(issue_token(cloud, question, now).await),
            _ => None,
        };
        let usable = token.as_ref().map_or(held, |made| made.clone().ok());
        let api = match proven.filter(|_| question.probes_api).and_then(ApiServerAccess::of_cluster) {
            Some(access) => probe_api_server(cloud, question, &access, usable).await,
            None => None,
        };
        EksResponse { facts: known, error: trouble, token, api_probe: api }
    };
    match tokio::time::timeout(QUERY_TIMEOUT, work).await {
        Ok(answer) => answer,
        Err(_late) => {
            let trouble = Some(format!("no response within {} s", QUERY_TIMEOUT.as_secs()));
            EksResponse { error: trouble, ..EksResponse::default() }
        }
    }
}

async fn query_eks(eks: &dyn EksApi, question: &EksQuery) -> (EksFacts, Option<String>) {
    let cluster = question.cluster.as_str();
    let each = question
        .profiles
        .iter()
        .map(|name| async move { (name, eks.describe_fargate_profile(cluster, name).await) });
    let (view, profiles, all_profiles, addons) = tokio::join!(
        eks.describe_cluster(cluster),
        join_all(each),
        eks.list_fargate_profiles(cluster),
        eks.describe_addons(cluster)
    );
    let mut trouble = None;
    let mut known = EksFacts {
        cluster: ok_or_record(view, &mut trouble).map(EksLookup::from_option),
        profile_names: ok_or_record(all_profiles, &mut trouble),
        addons: ok_or_record(addons, &mut trouble),
        ..EksFacts::default()
    };
    for (name, answer) in profiles {
        if let Some(answer) = ok_or_record(answer, &mut trouble) {
            known.profiles.insert(name.clone(), EksLookup::from_option(answer));
        }
    }
    (known, trouble)
}

/// Records the first error; later ones are dropped.
fn ok_or_record<T>(answer: Result<T, EksError>, trouble: &mut Option<String>) -> Option<T> {
    match answer {
        Ok(told) => Some(told),
        Err(error) => {
            trouble.get_or_insert_with(|| error.to_string());
            None
        }
    }
}

async fn issue_token(
    cloud: &dyn EksBackend,
    question: &EksQuery,
    now: Timestamp,
) -> Result<IssuedToken, String> {
    let EksQuery { principal, region, cluster, .. } = question;
    match cloud.issue_token(principal, region, cluster, now).await {
        Ok(token) => Ok(IssuedToken { issued_at: now, token }),
        Err(error) => Err(error.to_string()),
    }
}

/// Probes the API server, if there is a token.
async fn probe_api_server(
    cloud: &dyn EksBackend,
    question: &EksQuery,
    access: &ApiServerAccess,
    made: Option<IssuedToken>,
) -> Option<Result<(), String>> {
    let kubeconfig = render::render_with_token(&question.cluster, access, made?.token.bearer.reveal());
    Some(cloud.probe_api_server(&kubeconfig).await)
}
