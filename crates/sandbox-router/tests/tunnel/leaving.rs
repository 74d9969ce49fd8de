//! A stopping agent always notifies its gateway, so that requests do not wait for a reconnect.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use sandbox_router::tunnel::{
    TunnelTimeouts,
    agent::AgentState,
    gateway::{SessionPhase, TunnelError},
};

use super::{
    app::App,
    cuttable_link::CuttableLink,
    harness::eventually,
    rig::{PATIENCE, PORT, Rig, Running, cart, quick},
};

/// An unused application.
fn nothing() -> [String; 1] {
    [format!("{PORT}=1")]
}

/// Its user ends it; it does so without an error.
async fn end(mut agent: Running) {
    agent.stop.cancel();
    (&mut agent.task).await.unwrap().unwrap();
}

/// An agent that is in the middle of its hello until it is no longer thought about.
async fn knocking(rig: &Rig, at: SocketAddr) -> Running {
    rig.people.thinks.send_replace(true);
    let agent = Running::start(rig.config("ann-1", &nothing()), "ann", at);
    eventually("somebody is asked", || async { rig.people.asked.load(Ordering::Relaxed) > 0 }).await;
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_agent_whose_user_ended_it() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    end(agent).await;
    let view = rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert_eq!(view.why.as_deref(), Some("ann left"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_agent_that_was_ended_during_its_hello() {
    let rig = Rig::start().await;
    let agent = knocking(&rig, rig.address).await;
    agent.stop.cancel();
    rig.people.thinks.send_replace(false);
    end(agent).await;
    let view = rig.gateway.session(&cart()).unwrap();
    assert_eq!((view.phase, view.why.as_deref()), (SessionPhase::Disconnected, Some("ann left")));
    assert_eq!(rig.get("/").await.unwrap_err(), TunnelError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_agent_that_was_killed_before_its_first_word() {
    let rig = Rig::start().await;
    let cable = CuttableLink::to(rig.address).await;
    let agent = knocking(&rig, cable.address).await;
    // The gateway has heard the hello, and hears nothing after it.
    cable.cut();
    rig.people.thinks.send_replace(false);
    rig.until(|it| it.phase == SessionPhase::Connected).await;
    drop(agent);
    cable.hang_up();
    rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert_eq!(rig.get("/").await.unwrap_err(), TunnelError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_agent_that_was_ended_at_any_moment_of_its_first_milliseconds() {
    for moment in 0..100 {
        let rig = Rig::start().await;
        rig.people.grace(Duration::from_hours(1));
        let agent = Running::start(rig.config("ann-1", &nothing()), "ann", rig.address);
        tokio::time::sleep(Duration::from_micros(moment * 100)).await;
        end(agent).await;
        if rig.gateway.session(&cart()).is_some() {
            rig.until(|it| it.phase == SessionPhase::Disconnected).await;
        }
        assert_eq!(rig.get("/").await.unwrap_err(), TunnelError::Disconnected, "after {moment} × 100 µs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_agent_that_was_ended_while_it_came_back() {
    // Once its connection is lost it waits for hours, so that it is ended while it does.
    let patient = TunnelTimeouts { backoff_initial: Duration::from_hours(1000), ..quick() };
    let rig = Rig::with(patient).await;
    let cable = CuttableLink::to(rig.address).await;
    let mut agent = Running::start(rig.config("ann-1", &nothing()), "ann", cable.address);
    agent.until(|it| it.state == AgentState::Connected).await;
    rig.until_connected().await;
    cable.hang_up();
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    agent.until(|it| matches!(it.state, AgentState::Waiting { .. })).await;
    end(agent).await;
    let view = rig.gateway.session(&cart()).unwrap();
    assert_eq!((view.phase, view.why.as_deref()), (SessionPhase::Disconnected, Some("ann left")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_say_that_it_leaves_ends_all_the_same() {
    // Nothing else would end it today.
    let day = Duration::from_hours(24);
    let short = TunnelTimeouts {
        goodbye_timeout: Duration::from_millis(300),
        dead_after: day,
        suspect_timeout: day,
        ..quick()
    };
    let rig = Rig::with(short).await;
    let cable = CuttableLink::to(rig.address).await;
    let mut agent = Running::start(rig.config("ann-1", &nothing()), "ann", cable.address);
    agent.until(|it| it.state == AgentState::Connected).await;
    cable.cut();
    tokio::time::timeout(PATIENCE, end(agent)).await.expect("it goes on");
}
