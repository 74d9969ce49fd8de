//! Asks the world one question, everything at once, and ends in time.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;

use super::{
    Cloud, Question,
    known::{Access, Answer, Found, Known, Made},
};
use crate::{
    aws::{AskEks, EksError},
    controllers::controlplane::kubeconfig::text,
};

/// How long the world has for all of it.
const DEADLINE: Duration = Duration::from_secs(45);

pub(super) async fn ask(
    cloud: &dyn Cloud,
    question: &Question,
    held: Option<Made>,
    now: Timestamp,
) -> Answer {
    let work = async {
        let eks = cloud.eks(&question.principal, &question.region).await;
        let (known, trouble) = eks_says(&*eks, question).await;
        let token = if question.token { Some(token(cloud, question, now).await) } else { None };
        let usable = token.as_ref().map_or(held, |made| made.clone().ok());
        let api = call(cloud, question, &known, usable).await;
        Answer { known, trouble, token, api }
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(answer) => answer,
        Err(_late) => {
            let trouble = Some(format!("no answer within {} s", DEADLINE.as_secs()));
            Answer { trouble, ..Answer::default() }
        }
    }
}

async fn eks_says(eks: &dyn AskEks, question: &Question) -> (Known, Option<String>) {
    let cluster = question.cluster.as_str();
    let each = question.profiles.iter().map(|name| async move { (name, eks.profile(cluster, name).await) });
    let (view, profiles, all_profiles, addons) =
        tokio::join!(eks.cluster(cluster), join_all(each), eks.profiles(cluster), eks.addons(cluster));
    let mut trouble = None;
    let mut known = Known {
        cluster: told(view, &mut trouble).map(Found::of),
        all_profiles: told(all_profiles, &mut trouble),
        addons: told(addons, &mut trouble),
        ..Known::default()
    };
    for (name, answer) in profiles {
        if let Some(answer) = told(answer, &mut trouble) {
            known.profiles.insert(name.clone(), Found::of(answer));
        }
    }
    (known, trouble)
}

/// The first thing that went wrong speaks for all.
fn told<T>(answer: Result<T, EksError>, trouble: &mut Option<String>) -> Option<T> {
    match answer {
        Ok(told) => Some(told),
        Err(error) => {
            trouble.get_or_insert_with(|| error.to_string());
            None
        }
    }
}

async fn token(cloud: &dyn Cloud, question: &Question, now: Timestamp) -> Result<Made, String> {
    let Question { principal, region, cluster, .. } = question;
    match cloud.token(principal, region, cluster, now).await {
        Ok(token) => Ok(Made { at: now, token }),
        Err(error) => Err(error.to_string()),
    }
}

/// Calls the API server, if that was asked for and is possible.
async fn call(
    cloud: &dyn Cloud,
    question: &Question,
    known: &Known,
    made: Option<Made>,
) -> Option<Result<(), String>> {
    let wanted = question.call.as_ref()?;
    let told = known.cluster.as_ref().and_then(Found::there).and_then(|view| {
        Some(Access { endpoint: view.endpoint.clone()?, authority: view.certificate_authority.clone()? })
    });
    let access = told.unwrap_or_else(|| wanted.clone());
    if access.endpoint.is_empty() {
        return None;
    }
    let kubeconfig = text::with_token(&question.cluster, &access, made?.token.text.reveal());
    Some(cloud.call(&kubeconfig).await)
}
